// SPDX-License-Identifier: Apache-2.0
// From what a profiler recorded of a made-up job to the step model: step times and dependencies against the
// generator's truth.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "prism/analysis/replay.hpp"
#include "prism/kernels/build_kernel_model.hpp"
#include "tests/made_trace/made_trace.hpp"
#include "tests/made_trace/reread.hpp"

namespace prism {
namespace {

struct Case {
  std::string name;
  MadeTraceSpec spec;
  double clock_error_us = 0;  ///< by which ends of steps may be off
};

/// Small jobs of every kind that the generator knows. On one host, with members that leave their communication
/// together, nothing blurs the clocks.
std::vector<Case> cases() {
  std::vector<Case> all;
  const MadeTraceSpec pipeline{.dp = 2, .pp = 3, .microbatches = 4, .exit_skew_us = 0, .step_sd = 0.05};
  const MadeTraceSpec fsdp{
      .dp = 4, .layers = 3, .data_parallelism = DataParallelism::Fsdp, .exit_skew_us = 0, .step_sd = 0.05};
  const MadeTraceSpec ddp{.dp = 4, .microbatches = 2, .exit_skew_us = 0, .step_sd = 0.05};
  const MadeTraceSpec tensor{.tp = 4, .exit_skew_us = 0, .step_sd = 0.05};
  const auto add = [&](std::string name, const MadeTraceSpec& spec, auto... changes) {
    Case c{std::move(name), spec};
    (changes(c), ...);
    all.push_back(std::move(c));
  };
  const auto sync = [](Case& c) { c.spec.sync_records = true; };
  const auto names = [](Case& c) { c.spec.metadata = Metadata::Names; };
  const auto position = [](Case& c) { c.spec.metadata = Metadata::Position; };
  const auto three_hosts = [](Case& c) {
    c.spec.ranks_per_host = 2;
    c.spec.clock_offset_us = {{1, 300}, {2, -150}};
    c.spec.clock_drift_ppm = {{1, 15}};
    c.clock_error_us = 1;
  };
  const auto skewed = [](Case& c) {
    c.spec.exit_skew_us = 4;
    c.clock_error_us = std::max(c.clock_error_us, 4.0);
  };
  add("lone rank", {.step_sd = 0.05});
  add("pipeline", pipeline);
  add("pipeline, cuda_sync", pipeline, sync);
  add("pipeline, coalesced", pipeline, [](Case& c) { c.spec.coalesced_p2p = true; });
  add("pipeline on three hosts", pipeline, three_hosts);
  add("pipeline on three hosts, skewed", pipeline, three_hosts, skewed);
  add("FSDP", fsdp);
  add("FSDP, cuda_sync", fsdp, sync);
  add("FSDP, names", fsdp, names);
  add("FSDP, position", fsdp, position);
  add("FSDP, skewed", fsdp, skewed);
  add("DDP", ddp);
  add("DDP, cuda_sync", ddp, sync);
  add("DDP, CUDA graphs", ddp, [](Case& c) {
    c.spec.cuda_graphs = true;
    c.spec.step_end = StepEnd::DeviceSync;
  });
  add("tensor parallel", tensor);
  add("tensor parallel, names", tensor, names);
  add("tensor parallel, position", tensor, position);
  add("collectives on the compute stream", tensor, [](Case& c) { c.spec.shared_stream = true; });
  add("host far ahead", tensor, [](Case& c) { c.spec.step_end = StepEnd::Nothing; });
  return all;
}

// Of the first step the begin is not recorded: the work before it started before the window.
TEST(KernelModel, StepTimesAreTheTruth) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const MadeTrace made = make_trace(c.spec);
    ImportReport report;
    const KernelRecording job = record_ranks(reread(made.ranks, report), {}, report);
    const StepModel model = build_kernel_model(job, report);
    const ReplayResult replayed = replay(model, {});
    ASSERT_EQ(replayed.steps.size(), static_cast<std::size_t>(c.spec.steps));
    for (std::size_t k = 1; k < replayed.steps.size(); ++k) {
      const ReplayedStep& step = replayed.steps[k];
      const std::size_t number = static_cast<std::size_t>(c.spec.unprofiled_steps) + k;
      const auto truth_ns = static_cast<double>(made.truth.steps[number].time_ns);
      EXPECT_EQ(step.step, c.spec.first_step + static_cast<int>(k));
      EXPECT_NEAR(step.observed_ns, truth_ns, std::max(1e-6 * truth_ns, 1e3 * c.clock_error_us)) << k;
      EXPECT_NEAR(step.replayed_ns, step.observed_ns, 1e-3 * step.observed_ns) << k;
    }
  }
}

/// Which activities of a rank come before which, whether directly or through others.
class Reach {
 public:
  explicit Reach(std::size_t activities) : before_(activities) {}
  void add(std::size_t before, std::size_t after) { before_[after].push_back(before); }
  [[nodiscard]] bool has(std::size_t before, std::size_t after) const {
    std::vector<bool> seen(before_.size(), false);
    std::vector<std::size_t> todo = {after};
    while (!todo.empty()) {
      const std::size_t at = todo.back();
      todo.pop_back();
      for (const std::size_t b : before_[at]) {
        if (b == before) return true;
        if (!seen[b]) todo.push_back(b);
        seen[b] = true;
      }
    }
    return false;
  }

 private:
  std::vector<std::vector<std::size_t>> before_;
};

/// How found dependencies of one job compare with the true ones.
struct Comparison {
  std::map<MadeDependency::Kind, std::pair<std::size_t, std::size_t>> found;  // (found, all) by true kind
  std::map<DependencyKind, std::pair<std::size_t, std::size_t>> right;        // (true, all) by kind found
  std::size_t contradicting = 0;
};

Comparison compare(const MadeTrace& made, const KernelRecording& job) {
  Comparison result;
  for (std::size_t r = 0; r < job.ranks.size(); ++r) {
    const RankDependencies& found = job.ranks[r].dependencies;
    Reach found_reach(found.gpu_ops + 2 * std::size_t{found.calls});
    for (const Dependency& d : found.edges) found_reach.add(d.before, d.after);
    Reach true_reach(found.gpu_ops);
    for (const MadeDependency& d : made.truth.dependencies) {
      const MadeOp& before = made.truth.ops[d.before];
      const MadeOp& after = made.truth.ops[d.after];
      if (before.rank != static_cast<int>(r) || !before.recorded || !after.recorded) continue;
      true_reach.add(*before.recorded, *after.recorded);
      auto& [has, all] = result.found[d.kind];
      ++all;
      if (found_reach.has(*before.recorded, *after.recorded)) ++has;
    }
    for (const Dependency& d : found.edges) {
      if (d.before >= found.gpu_ops || d.after >= found.gpu_ops) continue;
      auto& [right, all] = result.right[d.kind];
      ++all;
      if (true_reach.has(d.before, d.after)) ++right;
      if (true_reach.has(d.after, d.before)) ++result.contradicting;
    }
  }
  return result;
}

using Members = std::set<std::pair<int, std::size_t>>;  // (rank, GPU op)

// Communication that all members recorded is matched, and nothing else.
TEST(KernelModel, MatchesAreTheTrueOnes) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const MadeTrace made = make_trace(c.spec);
    ImportReport report;
    const KernelRecording job = record_ranks(reread(made.ranks, report), {}, report);
    std::set<Members> expected;
    for (const MadeCollective& collective : made.truth.collectives) {
      Members members;
      for (const MadeOpId id : collective.members) {
        const MadeOp& op = made.truth.ops[id];
        if (op.recorded) members.emplace(op.rank, *op.recorded);
      }
      if (members.size() == collective.members.size()) expected.insert(members);
    }
    std::set<Members> got;
    for (const MatchedCollective& match : job.matching.matched) {
      Members members;
      for (const CommMember& m : match.members) {
        members.emplace(static_cast<int>(m.trace), job.communication[m.trace].ops[m.op].gpu_op);
      }
      got.insert(members);
    }
    EXPECT_EQ(got, expected);
    EXPECT_GE(got.size(), c.name == "lone rank" ? 0U : 9U);
  }
}

// Records of what streams waited for give all dependencies and no others. Without them, every dependency that bound a
// host or a stream is still implied, but for a few that did not bind, and at most a fifth of those found between
// streams are further ones: true in time, for instance of a send behind the receive before it.
TEST(KernelModel, DependenciesAreTheTrueOnes) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const MadeTrace made = make_trace(c.spec);
    ImportReport report;
    const KernelRecording job = record_ranks(reread(made.ranks, report), {}, report);
    const Comparison got = compare(made, job);
    EXPECT_EQ(got.contradicting, 0U);
    using enum MadeDependency::Kind;
    for (const auto& [kind, count] : got.found) {
      const auto& [found, all] = count;
      const bool recorded = kind == Stream || c.spec.sync_records;
      EXPECT_GE(static_cast<double>(found), (recorded ? 1 : 0.94) * static_cast<double>(all))
          << "true dependencies of kind " << static_cast<int>(kind) << ", " << all << " of them";
    }
    EXPECT_GT(got.found.at(Stream).second, 50U);
    for (const auto& [kind, count] : got.right) {
      const auto& [right, all] = count;
      EXPECT_GE(static_cast<double>(right), (is_inferred(kind) ? 0.8 : 1) * static_cast<double>(all))
          << dependency_name(kind) << ", " << all << " of them";
    }
    const bool has_waits = got.right.contains(DependencyKind::RecordedWait);
    EXPECT_EQ(has_waits, c.spec.sync_records);
  }
}

// Without noise the graph with the values of one step gives the time of another, if it misses nothing; also when all
// kernels of the steps differ by a factor. The first step is left out, as its begin is not recorded.
TEST(KernelModel, WithoutNoiseReplayAcrossStepsIsExact) {
  for (Case c : cases()) {
    for (const double step_sd : {0.0, 0.05}) {
      SCOPED_TRACE(c.name + ", step_sd " + std::to_string(step_sd));
      c.spec.step_sd = step_sd;
      c.spec.steps = 5;
      c.spec.kernel_sd = c.spec.host_cv = c.spec.launch_jitter_us = c.spec.exit_skew_us = 0;
      const MadeTrace made = make_trace(c.spec);
      ImportReport report;
      const KernelRecording job = record_ranks(reread(made.ranks, report), {}, report);
      const ReplayResult replayed = replay(build_kernel_model(job, report), {});
      std::size_t pairs = 0;
      for (const CrossStep& pair : replayed.across_steps) {
        if (std::min(pair.from, pair.to) == c.spec.first_step) continue;
        ++pairs;
        const double most = c.clock_error_us > 0 ? 1e-4 : 1e-6;
        EXPECT_NEAR(pair.lags_error, 0, most) << pair.from << " to " << pair.to;
        EXPECT_NEAR(pair.gpu_error, pair.observed_change, most) << pair.from << " to " << pair.to;
        EXPECT_NEAR(pair.error, pair.observed_change, most) << pair.from << " to " << pair.to;
      }
      EXPECT_EQ(pairs, 12U);
      EXPECT_LT(replayed.unexplained_share.value_or(1), 1e-3);
    }
  }
}

}  // namespace
}  // namespace prism
