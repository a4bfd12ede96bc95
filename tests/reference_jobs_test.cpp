// SPDX-License-Identifier: Apache-2.0
// Three recorded jobs against published and independently computed numbers (sampling.md, sections 2, 4, 5, 7;
// the reference files beside the traces).
//
// ST has a heavy last stage, AR one slow rank, SE uneven sequences. Where a number of sampling.md is one draw
// of its prototype and an independent NumPy evaluation of the same rules says otherwise, the comment gives
// both. Expected numbers stand as they are printed there; kRounding covers what printing cut off.
//
// All tests of this binary share the opened models and scores, so it is one ctest test.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "prism/analysis/forecast.hpp"
#include "prism/analysis/open_model.hpp"
#include "prism/analysis/replay.hpp"
#include "prism/analysis/validate.hpp"
#include "prism/model/op_graph.hpp"
#include "prism/model/sampling.hpp"
#include "prism/stats/distance.hpp"

namespace prism {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// Half a unit of the last printed digit of percentages and CRPS ratios.
constexpr double kRounding = 0.005;

struct Range {
  double min = 0;
  double max = 0;
};

/// Smallest and largest F statistic over the compute classes: as computed with NumPy from the trace's
/// durations by the formulas of sampling.md section 4, and as printed in section 5 (`digit`: value of the
/// last printed digit).
struct FRange {
  Range computed;
  Range printed;
  Range digit;
  double limit = 0;  ///< 99 % F quantile as printed, up to one unit of its only decimal off (2.35, 7.53)
};

/// Scores of one model, percent for the errors.
struct Score {
  std::string_view model;
  FoldKind folds = FoldKind::Alternating;
  double ks = 0;
  double crps = 0;
};

struct HierarchicalScore {
  FoldKind folds = FoldKind::Alternating;
  double p50 = 0, p50_tolerance = 0;
  double p95 = 0, p95_tolerance = 0;
  double ks = 0;
  double crps = 0;
};

/// Resampling the observed steps. KS is exact; the errors are those of infinitely many matched sets (NumPy,
/// 40,000 sets) with four standard errors of the mean of 400 sets.
struct BootstrapScore {
  FoldKind folds = FoldKind::Alternating;
  double ks = 0;
  double p50 = 0, p50_tolerance = 0;
  double p95 = 0, p95_tolerance = 0;
};

struct Scores {
  std::vector<HierarchicalScore> hierarchical;
  std::vector<Score> others;
  std::vector<BootstrapScore> bootstrap;
};

struct Reference {
  std::string_view name;
  std::size_t nodes, edges, groups;
  double discrepancy;              ///< percent, of the peer's graph
  double error_none, error_clean;  ///< mean over steps of replayed/observed - 1, percent
  std::size_t posting_edges, posting_candidates;
  std::string_view barrier;
  std::vector<std::string> stage_waits;
  double a_all, a_even_steps, a_three_quarters;
  double coupling;
  FRange f_step, f_rank, f_cell;
  Range residual_percent;  ///< printed with the digits of residual_digit
  double residual_digit;
  Scores observed, replayed;
};

constexpr auto kAlternating = FoldKind::Alternating;
constexpr auto kBlocks = FoldKind::Blocks;

Reference reference_st() {
  return {.name = "ST",
          .nodes = 106,
          .edges = 165,
          .groups = 34,
          .discrepancy = 1.89,
          .error_none = -1.781,
          .error_clean = 0.000,
          .posting_edges = 12,
          .posting_candidates = 21,
          .barrier = "layernorm-grads-all-reduce 0 of stage 3",
          .stage_waits = {},
          .a_all = 0.97911,
          .a_even_steps = 0.98,
          .a_three_quarters = 0.98226,
          .coupling = 0.76,
          .f_step = {{11.5731, 43.6860}, {12, 44}, {1, 1}, 2.3},
          .f_rank = {{0.389058, 37.5734}, {0.4, 38}, {0.1, 1}, 7.6},
          .f_cell = {{0.489421, 0.866473}, {0.5, 0.9}, {0.1, 0.1}, 1.8},
          .residual_percent = {0.9, 2.0},
          .residual_digit = 0.1,
          .observed = {.hierarchical = {{kAlternating, +0.05, 0.1, +0.69, 1.0, 0.071, 0.99},
                                        {kBlocks, +0.08, 0.1, +0.66, 1.0, 0.094, 1.00}},
                       .others = {{"iid-mixed", kAlternating, 0.321, 1.13},
                                  {"iid", kAlternating, 0.318, 1.13},
                                  {"regime", kAlternating, 0.411, 1.09},
                                  {"step-block", kAlternating, 0.110, 0.99},
                                  {"regime", kBlocks, 0.420, 1.10},
                                  {"step-block", kBlocks, 0.134, 0.99}},
                       .bootstrap = {{kAlternating, 0.125, 0.02, 0.03, -0.01, 0.57},
                                     {kBlocks, 0.094, 0.02, 0.03, 0.00, 0.57}}},
          .replayed = {
              .hierarchical = {{kAlternating, +0.05, 0.1, +0.71, 1.0, 0.073, 0.99}},
              .others = {{"regime", kAlternating, 0.407, 1.10}, {"step-block", kAlternating, 0.116, 0.99}},
              .bootstrap = {}}};
}

Reference reference_ar() {
  return {.name = "AR",
          .nodes = 666,
          .edges = 1229,
          .groups = 202,
          .discrepancy = 0.67,
          .error_none = -0.452,
          .error_clean = -0.052,
          .posting_edges = 180,
          .posting_candidates = 189,
          .barrier = "layernorm-grads-all-reduce 0 of stage 3",
          .stage_waits = {"layernorm-grads-all-reduce 0 of replica 0"},
          .a_all = 0.96681,
          .a_even_steps = 0.96,
          .a_three_quarters = 0.97120,
          .coupling = 0.93,
          .f_step = {{6.54565, 38.2307}, {6.5, 38}, {0.1, 1}, 1.7},
          .f_rank = {{4.66214, 749832}, {5, 750'000}, {1, 1000}, 3.9},
          .f_cell = {{1.39699, 2.10161}, {1.4, 2.1}, {0.1, 0.1}, 1.3},
          .residual_percent = {1.3, 2.2},
          .residual_digit = 0.1,
          .observed = {.hierarchical = {{kAlternating, -0.07, 0.1, +0.03, 0.1, 0.093, 1.00},
                                        {kBlocks, -0.06, 0.1, +0.01, 0.1, 0.108, 1.00}},
                       .others = {{"iid", kAlternating, 0.266, 1.06},
                                  {"regime", kAlternating, 0.252, 1.07},
                                  {"step-block", kAlternating, 0.104, 1.00},
                                  {"regime", kBlocks, 0.217, 1.08},
                                  {"step-block", kBlocks, 0.087, 0.97}},
                       .bootstrap = {{kAlternating, 0.114, -0.016, 0.016, -0.028, 0.015},
                                     {kBlocks, 0.091, -0.016, 0.016, -0.029, 0.015}}},
          .replayed = {
              .hierarchical = {{kAlternating, +0.01, 0.1, +0.05, 0.1, 0.068, 0.98}},
              .others = {{"regime", kAlternating, 0.274, 1.07}, {"step-block", kAlternating, 0.072, 0.99}},
              .bootstrap = {}}};
}

// SE, alternating folds, p95 of hierarchical: sampling.md prints +1.06 (observed) and +1.05 (replayed) with a
// tolerance of 0.8, but an independent NumPy evaluation of the same rules gives +1.9 (seeds 1.6 to 2.1), and
// so does this program (seeds 1 to 8: 1.7 to 2.7). So 1.9 is what is expected here.
// SE, alternating folds, replayed, CRPS ratio of regime: sampling.md prints 2.16, of one seed; NumPy gives
// 2.173 with 24,000 samples (2,000 samples: 2.14 to 2.21 over 12 seeds), this program 2.16 to 2.20.
Reference reference_se() {
  constexpr double kP95 = 1.9;
  return {.name = "SE",
          .nodes = 78,
          .edges = 121,
          .groups = 22,
          .discrepancy = 0.51,
          .error_none = -0.204,
          .error_clean = 0.000,
          .posting_edges = 14,
          .posting_candidates = 15,
          .barrier = "layernorm-grads-all-reduce 0 of stage 1",
          .stage_waits = {"layernorm-grads-all-reduce 0 of replica 0"},
          .a_all = 0.34624,
          .a_even_steps = 0.00,
          .a_three_quarters = 0.31,
          .coupling = 0.99,
          .f_step = {{0.982739, 1.21585}, {1.0, 1.2}, {0.1, 0.1}, 1.6},
          .f_rank = {{0.522128, 0.747409}, {0.5, 0.7}, {0.1, 0.1}, 1.7},
          .f_cell = {{1.10737, 1.15169}, {1.11, 1.15}, {0.01, 0.01}, 1.1},
          .residual_percent = {15, 32},
          .residual_digit = 1,
          .observed = {.hierarchical = {{kAlternating, -0.38, 0.7, kP95, 0.8, 0.137, 1.01},
                                        {kBlocks, -0.46, 0.7, +2.90, 1.6, 0.125, 1.01}},
                       .others = {{"iid-mixed", kAlternating, 0.758, 2.30},
                                  {"iid", kAlternating, 0.744, 2.18},
                                  {"regime", kAlternating, 0.735, 2.17},
                                  {"step-block", kAlternating, 0.152, 1.04},
                                  {"regime", kBlocks, 0.741, 2.32},
                                  {"step-block", kBlocks, 0.207, 1.04}},
                       .bootstrap = {{kAlternating, 0.110, 0.29, 0.25, 0.69, 0.66},
                                     {kBlocks, 0.065, 0.35, 0.25, 0.73, 0.69}}},
          .replayed = {
              .hierarchical = {{kAlternating, -0.30, 0.7, kP95, 0.8, 0.136, 1.01}},
              .others = {{"regime", kAlternating, 0.735, 2.173}, {"step-block", kAlternating, 0.152, 1.04}},
              .bootstrap = {}}};
}

fs::path data_folder() {
  return fs::path(PRISM_SOURCE_DIR) / "../shared/data/straggler";
}

fs::path trace_of(std::string_view name) {
  return data_folder() / ("trace-" + std::string(name) + ".csv.gz");
}

Json json_of(std::string_view kind, std::string_view name) {
  std::ifstream in(data_folder() / (std::string(kind) + "-" + std::string(name) + ".json"));
  return Json::parse(in);
}

/// A value made on first use and kept for the other tests.
template <class T>
const T& kept(const std::string& key, const std::function<T()>& make) {
  static std::map<std::string, T> all;
  const auto found = all.find(key);
  if (found != all.end()) return found->second;
  return all.emplace(key, make()).first->second;
}

const StepModel& model_of(std::string_view name, LaunchDelays delays) {
  return kept<StepModel>(std::string(name) + std::to_string(static_cast<int>(delays)),
                         [&] { return open_model(trace_of(name), {.delays = delays}); });
}

enum class Target { Observed, Replayed };

const ValidateResult& scores_of(std::string_view name, Target target) {
  return kept<ValidateResult>(std::string(name) + std::to_string(static_cast<int>(target)), [&] {
    const ValidateOptions options{.samples = 2000, .seed = 1};
    if (target == Target::Observed) return validate(model_of(name, LaunchDelays::Clean), options, {});
    return validate(with_replayed_times(model_of(name, LaunchDelays::None), {}), options, {});
  });
}

std::size_t count(const StepModel& model, std::string_view kind) {
  return static_cast<std::size_t>(
      std::ranges::count_if(model.inferences, [&](const Inference& i) { return i.kind == kind; }));
}

std::vector<std::string> inferred(const StepModel& model, std::string_view kind) {
  std::vector<std::string> found;
  for (const Inference& inference : model.inferences) {
    if (inference.kind == kind) found.push_back(inference.what);
  }
  return found;
}

/// Mean over steps of replayed / observed - 1, in percent.
double mean_error_percent(const ReplayResult& result) {
  double sum = 0;
  for (const ReplayedStep& step : result.steps) sum += step.error();
  return 100 * sum / static_cast<double>(result.steps.size());
}

class ReferenceJob : public ::testing::TestWithParam<Reference> {
 protected:
  void SetUp() override {
    if (!fs::exists(trace_of(name())))
      GTEST_SKIP() << "NOT TESTED: there is no " << trace_of(name()).string();
  }

  std::string_view name() const { return GetParam().name; }
  const StepModel& model(LaunchDelays delays = LaunchDelays::Clean) const { return model_of(name(), delays); }
  ReplayResult replayed(LaunchDelays delays) const { return replay(model(delays), {}); }
};

// --- graph
// -------------------------------------------------------------------------------------------------------

/// The name that graph-T.json gives an op.
std::string node_name(const TemplateOp& op) {
  return std::string(op_type_name(op.type)) + "_" + std::to_string(op.seq) + "_" + std::to_string(op.stage);
}

using Names = std::set<std::string>;

TEST_P(ReferenceJob, OpGraphIsThePeers) {
  const RecordedJob& job = *model().recording;
  ImportReport report;
  const OpGraph graph = build_op_graph(job, report);
  EXPECT_TRUE(report.entries().empty());

  std::map<std::string, Names> depends_on;
  for (std::size_t i = 0; i < job.ops.size(); ++i) {
    Names& names = depends_on[node_name(job.ops[OpId(i)])];
    for (const OpId before : graph.depends_on[OpId(i)]) names.insert(node_name(job.ops[before]));
    EXPECT_EQ(names.size(), graph.depends_on[OpId(i)].size());
  }
  std::set<Names> groups;
  Names sync_across_dp;
  for (const OpGroup& group : graph.groups) {
    Names names;
    for (const OpId member : group.members) names.insert(node_name(job.ops[member]));
    if (group.spans_replicas) sync_across_dp.insert(names.begin(), names.end());
    EXPECT_TRUE(groups.insert(std::move(names)).second);
  }

  const Json expected = json_of("graph", name());
  EXPECT_EQ(depends_on.size(), expected.at("depends_on").size());
  for (const auto& [node, before] : expected.at("depends_on").items()) {
    ASSERT_TRUE(depends_on.contains(node)) << node;
    EXPECT_EQ(depends_on.at(node), before.get<Names>()) << node;
  }
  EXPECT_EQ(groups, expected.at("comm_groups").get<std::set<Names>>());
  EXPECT_EQ(sync_across_dp, expected.at("sync_across_dp").get<Names>());

  EXPECT_EQ(job.ops.size(), GetParam().nodes);
  EXPECT_EQ(graph.edge_count(), GetParam().edges);
  EXPECT_EQ(graph.groups.size(), GetParam().groups);
}

TEST_P(ReferenceJob, InferencesAreThoseOfTheTable) {
  const StepModel& clean = model();
  EXPECT_EQ(count(clean, "posting edge"), GetParam().posting_edges);
  EXPECT_EQ(inferred(clean, "barrier over replicas"),
            std::vector<std::string>{std::string(GetParam().barrier)});
  EXPECT_EQ(inferred(clean, "wait for all stages"), GetParam().stage_waits);
  EXPECT_TRUE(clean.report.entries().empty());
  EXPECT_TRUE(model(LaunchDelays::Off).inferences.empty());
  EXPECT_TRUE(model(LaunchDelays::Raw).inferences.empty());

  // Candidates: receives whose compute op is not the first of its stage.
  ImportReport report;
  const OpGraph graph = build_op_graph(*clean.recording, report);
  Names first;
  for (const auto& chain : graph.compute_chain) first.insert(node_name(clean.recording->ops[chain.front()]));
  std::size_t candidates = 0;
  for (const auto& compute : graph.compute_of_receive) {
    if (compute && !first.contains(node_name(clean.recording->ops[*compute]))) ++candidates;
  }
  EXPECT_EQ(candidates, GetParam().posting_candidates);
}

// --- replay
// ------------------------------------------------------------------------------------------------------

TEST_P(ReferenceJob, ReplayWithoutDelaysIsThePeers) {
  constexpr double kRelative = 1e-6;
  const Json result = json_of("result", name());
  const Json& nodelay = result.at("step_t_nodelay");
  const Json& base = result.at("step_t_base");
  const ReplayResult off = replayed(LaunchDelays::Off);
  ASSERT_EQ(off.steps.size(), nodelay.size());
  double mean_nodelay = 0;
  double mean_base = 0;
  for (const ReplayedStep& step : off.steps) {
    const std::string number = std::to_string(step.step);
    EXPECT_NEAR(step.replayed_ns / 1e9 / nodelay.at(number).get<double>(), 1, kRelative) << "step " << number;
    EXPECT_NEAR(step.observed_ns / 1e9 / base.at(number).get<double>(), 1, kRelative) << "step " << number;
    mean_nodelay += nodelay.at(number).get<double>() / static_cast<double>(off.steps.size());
    mean_base += base.at(number).get<double>() / static_cast<double>(off.steps.size());
  }
  EXPECT_NEAR(off.mean_replayed_ns / 1e9 / mean_nodelay, 1, kRelative);
  EXPECT_NEAR(off.mean_observed_ns / 1e9 / mean_base, 1, kRelative);
  EXPECT_NEAR(100 * off.discrepancy(), GetParam().discrepancy, kRounding);
  EXPECT_NEAR(off.discrepancy(), json_of("extra", name()).at("discrepancy").get<double>(), kRelative);
}

TEST_P(ReferenceJob, ReplayWithRecordedDelaysIsExact) {
  for (const ReplayedStep& step : replayed(LaunchDelays::Raw).steps) {
    EXPECT_NEAR(step.error(), 0, 1e-5) << "step " << step.step;
  }
}

TEST_P(ReferenceJob, ReplayErrorIsThatOfTheTable) {
  constexpr double kPoints = 0.01;
  EXPECT_NEAR(mean_error_percent(replayed(LaunchDelays::None)), GetParam().error_none, kPoints);
  EXPECT_NEAR(mean_error_percent(replayed(LaunchDelays::Clean)), GetParam().error_clean, kPoints);
}

// --- effects
// -----------------------------------------------------------------------------------------------------

/// `value` is printed as `printed`.
void expect_printed(double value, double printed, double digit) {
  EXPECT_NEAR(std::round(value / digit) * digit, printed, digit / 100) << value;
}

void expect_range(std::string_view what, const std::vector<ClassComponents>& classes,
                  double FTests::*statistic, double FTests::*limit, const FRange& expected) {
  SCOPED_TRACE(what);
  std::vector<double> values;
  for (const ClassComponents& c : classes) {
    values.push_back(c.tests.*statistic);
    EXPECT_NEAR(c.tests.*limit, expected.limit, 0.1);
  }
  const auto [min, max] = std::ranges::minmax(values);
  EXPECT_NEAR(min / expected.computed.min, 1, 0.02);
  EXPECT_NEAR(max / expected.computed.max, 1, 0.02);
  expect_printed(min, expected.printed.min, expected.digit.min);
  expect_printed(max, expected.printed.max, expected.digit.max);
}

TEST_P(ReferenceJob, EffectsAreThoseOfTheTable) {
  const StepEffects effects = estimate_step_effects(model());
  const auto stages = static_cast<std::size_t>(model().recording->stages());
  ASSERT_EQ(effects.components.size(), 2 * stages);
  expect_range("step", effects.components, &FTests::step, &FTests::step_limit, GetParam().f_step);
  expect_range("rank", effects.components, &FTests::rank, &FTests::rank_limit, GetParam().f_rank);
  expect_range("cell", effects.components, &FTests::cell, &FTests::cell_limit, GetParam().f_cell);
  const auto [min, max] = std::ranges::minmax(effects.components, {}, &ClassComponents::residual_sd);
  expect_printed(100 * min.residual_sd, GetParam().residual_percent.min, GetParam().residual_digit);
  expect_printed(100 * max.residual_sd, GetParam().residual_percent.max, GetParam().residual_digit);
  EXPECT_NEAR(microbatch_coupling(model()), GetParam().coupling, 0.01);
}

/// a, estimated on the profiled steps whose index `is_kept`.
double share_on(const StepModel& model, const std::function<bool(std::size_t)>& is_kept) {
  std::vector<std::size_t> selected;
  for (std::size_t k = 0; k < model.step_count(); ++k) {
    if (is_kept(k)) selected.push_back(k);
  }
  return estimate_step_effects(with_steps(model, selected)).share;
}

// sampling.md section 4 prints 0.98, 0.96, 0.00 for the steps of even index (what alternating folds train on
// when they leave out the odd ones), and 0.31 for SE on the first three of four blocks. On all steps the
// formula gives 0.979, 0.967, 0.346 (NumPy).
TEST_P(ReferenceJob, ShareOfTheStepEffect) {
  constexpr double kTolerance = 0.02;
  const std::size_t steps = model().step_count();
  EXPECT_NEAR(estimate_step_effects(model()).share, GetParam().a_all, kTolerance);
  EXPECT_NEAR(share_on(model(), [](std::size_t k) { return k % 2 == 0; }), GetParam().a_even_steps,
              kTolerance);
  EXPECT_NEAR(share_on(model(), [&](std::size_t k) { return 4 * k / steps != 3; }),
              GetParam().a_three_quarters, kTolerance);
}

// --- validation
// --------------------------------------------------------------------------------------------------

void expect_scores(const ValidateResult& result, const Scores& expected) {
  for (const HierarchicalScore& e : expected.hierarchical) {
    SCOPED_TRACE("hierarchical, " + std::string(fold_name(e.folds)) + ", 2,000 samples, seed 1");
    const ModelScore& score = result.score("hierarchical", e.folds);
    EXPECT_NEAR(100 * score.p50_error, e.p50, e.p50_tolerance + kRounding);
    EXPECT_NEAR(100 * score.p95_error, e.p95, e.p95_tolerance + kRounding);
    EXPECT_NEAR(score.ks, e.ks, 0.03);
    EXPECT_NEAR(score.crps_ratio, e.crps, 0.02 + kRounding);
    EXPECT_LT(score.ks, score.ks_noise);
    EXPECT_LE(score.p95_low, score.p95_error);
    EXPECT_GE(score.p95_high, score.p95_error);
  }
  for (const Score& e : expected.others) {
    SCOPED_TRACE(std::string(e.model) + ", " + std::string(fold_name(e.folds)) + ", 2,000 samples, seed 1");
    const ModelScore& score = result.score(e.model, e.folds);
    EXPECT_NEAR(score.ks, e.ks, 0.03);
    EXPECT_NEAR(score.crps_ratio, e.crps, 0.03 + kRounding);
  }
  for (const BootstrapScore& e : expected.bootstrap) {
    SCOPED_TRACE("bootstrap, " + std::string(fold_name(e.folds)));
    const auto score = std::ranges::find(result.baseline, e.folds, &ModelScore::folds);
    ASSERT_NE(score, result.baseline.end());
    EXPECT_NEAR(score->ks, e.ks, 0.0006);
    EXPECT_DOUBLE_EQ(score->crps_ratio, 1);
    EXPECT_NEAR(100 * score->p50_error, e.p50, e.p50_tolerance);
    EXPECT_NEAR(100 * score->p95_error, e.p95, e.p95_tolerance);
  }
}

/// What the table says of every job: hierarchical beats what has no common step, by KS, on both fold kinds.
void expect_order_of_merit(const ValidateResult& result, std::size_t steps) {
  EXPECT_EQ(result.chosen, Sampling::Hierarchical);
  EXPECT_EQ(result.models.size(), 2 * kSamplingModels.size());
  for (const FoldKind folds : {kAlternating, kBlocks}) {
    SCOPED_TRACE(fold_name(folds));
    const ModelScore& best = result.score("hierarchical", folds);
    EXPECT_DOUBLE_EQ(best.ks_noise, 1.35 / std::sqrt(static_cast<double>(steps)));
    EXPECT_LT(best.ks, best.ks_noise);
    for (const std::string_view worse : {"regime", "iid", "iid-mixed"}) {
      EXPECT_LT(best.ks, result.score(worse, folds).ks) << worse;
      EXPECT_LT(best.crps_ratio, result.score(worse, folds).crps_ratio) << worse;
    }
    EXPECT_NEAR(result.score("iid", folds).ks, result.score("regime", folds).ks, 0.08 + 0.03);
  }
}

TEST_P(ReferenceJob, ScoresOfObservedStepsAreThoseOfTheTable) {
  const ValidateResult& result = scores_of(name(), Target::Observed);
  expect_scores(result, GetParam().observed);
  expect_order_of_merit(result, model().step_count());
}

TEST_P(ReferenceJob, ScoresOfReplayedStepsAreThoseOfTheTable) {
  const ValidateResult& result = scores_of(name(), Target::Replayed);
  expect_scores(result, GetParam().replayed);
  expect_order_of_merit(result, model().step_count());
}

INSTANTIATE_TEST_SUITE_P(Recorded, ReferenceJob,
                         ::testing::Values(reference_st(), reference_ar(), reference_se()),
                         [](const auto& tested) { return std::string(tested.param.name); });

// GoogleTest would print the bytes.
[[maybe_unused]] void PrintTo(const Reference& reference, std::ostream* out) {
  *out << reference.name;
}

// --- the job with one slow rank
// ----------------------------------------------------------------------------------

class SlowRankJob : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(trace_of("AR"))) GTEST_SKIP() << "NOT TESTED: there is no " << trace_of("AR").string();
  }
};

// Mixing the slow rank's durations with the others' makes a step that nobody has seen.
TEST_F(SlowRankJob, MixingRanksIsHopeless) {
  const ModelScore& mixed = scores_of("AR", Target::Observed).score("iid-mixed", kAlternating);
  EXPECT_GT(mixed.ks, 0.99);
  EXPECT_NEAR(mixed.crps_ratio / 137, 1, 0.03);
  EXPECT_NEAR(100 * mixed.p50_error, -36.3, 0.5);
  EXPECT_NEAR(100 * mixed.p95_error, -32.9, 0.5);
}

TEST_F(SlowRankJob, ForecastDoesNotDependOnThreads) {
  const StepModel& model = model_of("AR", LaunchDelays::Clean);
  const auto run = [&](unsigned threads) {
    return forecast(model, {.samples = 1000, .seed = 1}, {.threads = threads});
  };
  const ForecastResult one = run(1);
  const ForecastResult two = run(2);
  EXPECT_EQ(one.samples_ns, two.samples_ns);
  ASSERT_EQ(one.summary.quantiles.size(), kReportedQuantiles.size());
  ASSERT_EQ(one.input_intervals.size(), kReportedQuantiles.size());
  for (std::size_t i = 0; i < one.summary.quantiles.size(); ++i) {
    const QuantileEstimate& q = one.summary.quantiles[i];
    SCOPED_TRACE(q.p);
    ASSERT_TRUE(q.low_ns && q.high_ns);
    EXPECT_LE(*q.low_ns, q.value_ns);
    EXPECT_LE(q.value_ns, *q.high_ns);
    EXPECT_LE(one.input_intervals[i].low_ns, one.input_intervals[i].high_ns);
    EXPECT_EQ(q.value_ns, two.summary.quantiles[i].value_ns);
    EXPECT_EQ(one.input_intervals[i].low_ns, two.input_intervals[i].low_ns);
    EXPECT_EQ(one.input_intervals[i].high_ns, two.input_intervals[i].high_ns);
    if (q.p == 0.95) {
      EXPECT_GT(q.value_ns, 46e9);
      EXPECT_LT(q.value_ns, 48e9);
    }
  }
}

}  // namespace
}  // namespace prism
