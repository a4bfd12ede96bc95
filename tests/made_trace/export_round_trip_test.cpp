// SPDX-License-Identifier: Apache-2.0
// Steps of a model, written as profiler traces, read and modelled again: the same step times and the same starts.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "prism/analysis/open_model.hpp"
#include "prism/analysis/replay.hpp"
#include "prism/analysis/simulated_trace.hpp"
#include "prism/kernels/build_kernel_model.hpp"
#include "prism/model/build_step_model.hpp"
#include "prism/model/extend_replicas.hpp"
#include "tests/made_job/made_job.hpp"
#include "tests/made_trace/made_trace.hpp"
#include "tests/made_trace/reread.hpp"

namespace prism {
namespace {

StepModel modelled(std::span<const RankTrace> traces) {
  ImportReport report;
  const KernelRecording job = record_ranks(reread(traces, report), {}, report);
  StepModel model = build_kernel_model(job, report);
  model.report = report;
  return model;
}

/// Starts of GPU ops against the begin of their step, ascending, by (rank, stream). Transfers start when the last
/// member is there.
using Starts = std::map<std::pair<std::int32_t, std::int64_t>, std::vector<double>>;

bool is_gpu_op(const StepModel& model, const Node& node) {
  return node.kind == NodeKind::Op && model.pools.classes[node.duration_class].category != Category::HostWork;
}

Starts simulated_starts(const StepModel& model, const NodeTimes& times) {
  Starts starts;
  for (std::size_t i = 0; i < model.nodes.size(); ++i) {
    const Node& node = model.nodes[NodeId(i)];
    for (std::uint32_t d = 0; d < model.replicas && is_gpu_op(model, node); ++d) {
      const std::size_t at = i * model.replicas + d;
      if (!did_run(times.duration_ns[at])) continue;
      const std::uint32_t rank = d * model.template_ranks + static_cast<std::uint32_t>(node.rank);
      starts[{rank, node.lane}].push_back(times.start_ns[at] - model.lead_ns);
    }
  }
  for (auto& [lane, of_lane] : starts) std::ranges::sort(of_lane);
  return starts;
}

Starts recorded_starts(const StepModel& model, std::size_t step) {
  Starts starts;
  for (std::size_t i = 0; i < model.nodes.size(); ++i) {
    const double start = model.recorded_start_ns[i * model.step_count() + step];
    const Node& node = model.nodes[NodeId(i)];
    if (!std::isnan(start)) starts[{node.rank, node.lane}].push_back(start);
  }
  for (auto& [lane, of_lane] : starts) std::ranges::sort(of_lane);
  return starts;
}

void expect_starts(const Starts& expected, const Starts& got) {
  ASSERT_EQ(got.size(), expected.size()) << "streams";
  for (const auto& [lane, starts] : expected) {
    ASSERT_TRUE(got.contains(lane)) << "rank " << lane.first << " stream " << lane.second;
    const std::vector<double>& others = got.at(lane);
    ASSERT_EQ(others.size(), starts.size()) << "rank " << lane.first << " stream " << lane.second;
    for (std::size_t i = 0; i < starts.size(); ++i) {
      ASSERT_NEAR(others[i], starts[i], 1)
          << "op " << i << " of rank " << lane.first << " stream " << lane.second;
    }
  }
}

std::vector<RankTrace> exported(const StepModel& model, std::span<const SimulatedStep> steps) {
  const SimulatedTraces traces(model, steps);
  std::vector<RankTrace> all;
  for (std::size_t i = 0; i < traces.rank_count(); ++i) all.push_back(traces.rank(i));
  return all;
}

/// What reading had to say, hints aside.
/// All but how much was matched.
std::string entries(const ImportReport& report) {
  std::string text;
  for (const ImportEntry& e : report.entries()) {
    if (e.reason.starts_with("communication matched across ranks")) continue;
    text += e.reason + ": " + std::to_string(e.count) + "\n";
  }
  return text;
}

/// Exports the steps, reads them, and compares step times, and starts where the model says on which streams ops run.
StepModel expect_round_trip(const StepModel& model, const std::vector<SimulatedStep>& steps) {
  StepModel again = modelled(exported(model, steps));
  EXPECT_EQ(again.step_count(), steps.size());
  if (again.step_count() != steps.size()) return again;
  const ReplayResult replayed = replay(again, {});
  for (std::size_t k = 0; k < steps.size(); ++k) {
    const double step_ns = steps[k].times.step_ns;
    EXPECT_EQ(again.steps[k], steps[k].number);
    EXPECT_NEAR(again.observed_ns[k], step_ns, 2) << "step " << steps[k].number;
    EXPECT_NEAR(replayed.steps[k].replayed_ns, step_ns, 2) << "step " << steps[k].number;
    if (has_lanes(model)) {
      expect_starts(simulated_starts(model, steps[k].times), recorded_starts(again, k));
      if (testing::Test::HasFatalFailure()) return again;
    }
  }
  return again;
}

std::vector<std::pair<std::string, MadeTraceSpec>> jobs() {
  MadeTraceSpec graphs{.dp = 2, .microbatches = 2, .cuda_graphs = true, .step_sd = 0.05};
  graphs.step_end = StepEnd::DeviceSync;
  return {{"lone rank", {.step_sd = 0.05}},
          {"pipeline", {.dp = 2, .pp = 3, .microbatches = 4, .step_sd = 0.05}},
          {"FSDP", {.dp = 4, .layers = 3, .data_parallelism = DataParallelism::Fsdp, .step_sd = 0.05}},
          {"tensor parallel on two hosts",
           {.tp = 2, .dp = 2, .ranks_per_host = 2, .step_sd = 0.05, .clock_offset_us = {{1, 300}}}},
          {"recorded waits", {.tp = 2, .pp = 2, .microbatches = 3, .sync_records = true, .step_sd = 0.05}},
          {"CUDA graphs", graphs},
          {"host far ahead", {.tp = 2, .step_end = StepEnd::Nothing, .step_sd = 0.05}}};
}

TEST(ExportRoundTrip, RecordedStepsOfKernelLevelModels) {
  for (const auto& [name, spec] : jobs()) {
    SCOPED_TRACE(name);
    const StepModel model = modelled(make_trace(spec).ranks);
    const StepModel again =
        expect_round_trip(model, simulate_steps(model, {.recorded_steps = std::pair(0, 100)}, {}));
    EXPECT_EQ(entries(again.report), "");
    EXPECT_EQ(again.mesh, model.mesh);
    EXPECT_EQ(again.cells, model.cells);
  }
}

TEST(ExportRoundTrip, SamplesOfKernelLevelModels) {
  for (const auto& [name, spec] : jobs()) {
    SCOPED_TRACE(name);
    const StepModel model = modelled(make_trace(spec).ranks);
    const StepModel again = expect_round_trip(model, simulate_steps(model, {.samples = {3, 6}}, {}));
    EXPECT_EQ(entries(again.report), "");
  }
}

// Single steps too: where a step begins is known without the step before it.
TEST(ExportRoundTrip, OneStep) {
  for (const auto& [name, spec] : jobs()) {
    SCOPED_TRACE(name);
    const StepModel model = modelled(make_trace(spec).ranks);
    expect_round_trip(model, simulate_steps(model, {.recorded_steps = std::pair(11, 11)}, {}));
  }
}

// Ranks that were not traced: what is waited for them stays a wait, or, with all replicas simulated, becomes one for
// simulated ranks.
TEST(ExportRoundTrip, OneRankOfFourAndAllReplicas) {
  const MadeTrace made = make_trace({.dp = 4, .microbatches = 2, .step_sd = 0.05});
  const StepModel model = modelled(std::span(made.ranks).first(1));
  expect_round_trip(model, simulate_steps(model, {.recorded_steps = std::pair(0, 100)}, {}));
  ASSERT_EQ(replicas_of_whole_job(model), 4U);
  const StepModel whole = extend_replicas(model, {.replicas = 4, .spatial_cv = 0.03});
  const StepModel again = expect_round_trip(whole, simulate_steps(whole, {.samples = {0, 2}}, {}));
  EXPECT_EQ(again.template_ranks, 4U);
  EXPECT_EQ(again.mesh.size(Axis::Dp), 4);
}

// Parts of the step that ops belong to are said by annotations.
TEST(ExportRoundTrip, PhasesAreKept) {
  const StepModel model = modelled(make_trace({.pp = 2, .microbatches = 3}).ranks);
  const StepModel again =
      expect_round_trip(model, simulate_steps(model, {.recorded_steps = std::pair(0, 100)}, {}));
  const auto phases = [](const StepModel& m) {
    std::map<Phase, std::size_t> count;
    for (const Node& node : m.nodes) {
      if (is_gpu_op(m, node)) ++count[node.phase];
    }
    return count;
  };
  EXPECT_EQ(phases(again), phases(model));
  EXPECT_GT(phases(again)[Phase::Forward], 10U);
  EXPECT_GT(phases(again)[Phase::Optimizer], 1U);
}

TEST(ExportRoundTrip, OpLevelModels) {
  ImportReport report;
  const MadeJob job =
      make_job({.dp = 2, .pp = 3, .microbatches = 4, .steps = 4, .step_sd = 0.05, .residual_sd = 0.05});
  const auto recorded = std::make_shared<const RecordedJob>(align(job.timeline, report));
  for (const LaunchDelays delays : {LaunchDelays::Clean, LaunchDelays::Off}) {
    const StepModel model = build_step_model(recorded, delays, report);
    expect_round_trip(model, simulate_steps(model, {.recorded_steps = std::pair(0, 1000)}, {}));
    expect_round_trip(model, simulate_steps(model, {.samples = {0, 3}}, {}));
  }
}

TEST(ExportRoundTrip, RealJobs) {
  const std::filesystem::path data = std::filesystem::path(PRISM_SOURCE_DIR) / "../shared/data/kineto/multi";
  if (!std::filesystem::exists(data)) GTEST_SKIP() << "NOT TESTED: no real traces at " << data;
  for (const char* name : {"nanogpt-h100-8rank", "megatron-tp8-a100-8rank"}) {
    SCOPED_TRACE(name);
    const StepModel model = open_model(data / name);
    expect_round_trip(model, simulate_steps(model, {.recorded_steps = std::pair(0, 1000)}, {}));
    expect_round_trip(model, simulate_steps(model, {.samples = {0, 0}}, {}));
  }
}

}  // namespace
}  // namespace prism
