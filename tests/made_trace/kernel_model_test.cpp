// SPDX-License-Identifier: Apache-2.0
// From what a profiler recorded of a made-up job to the step model: step times and dependencies against the
// generator's truth.
#include <algorithm>
#include <cmath>
#include <cstdio>
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
  const MadeTraceSpec fsdp{.dp = 4,
                           .layers = 3,
                           .data_parallelism = DataParallelism::Fsdp,
                           .exit_skew_us = 0,
                           .step_sd = 0.05};
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
      std::printf("%-34s step %d truth %.3f us observed %+.1f ns replayed %+.1f ns\n", c.name.c_str(), step.step, truth_ns / 1e3, step.observed_ns - truth_ns, step.replayed_ns - truth_ns);
      EXPECT_EQ(step.step, c.spec.first_step + static_cast<int>(k));
      EXPECT_NEAR(step.observed_ns, truth_ns, std::max(1e-6 * truth_ns, 1e3 * c.clock_error_us)) << k;
      EXPECT_NEAR(step.replayed_ns, step.observed_ns, 1e-3 * step.observed_ns) << k;
    }
    for (const ImportEntry& e : model.report.entries()) std::printf("   report: %s x%zu %s\n", e.reason.c_str(), e.count, e.places.empty() ? "" : e.places[0].c_str());
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

TEST(KernelModel, DependenciesAreTheTrueOnes) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const MadeTrace made = make_trace(c.spec);
    ImportReport report;
    const KernelRecording job = record_ranks(reread(made.ranks, report), {}, report);
    const Comparison got = compare(made, job);
    std::printf("%-34s", c.name.c_str());
    for (const auto& [kind, n] : got.found) std::printf("  true %d: %zu/%zu", static_cast<int>(kind), n.first, n.second);
    for (const auto& [kind, n] : got.right) std::printf("  %s %zu/%zu", std::string(dependency_name(kind)).c_str(), n.first, n.second);
    std::printf("  contradicting %zu\n", got.contradicting);
  }
}

TEST(KernelModel, Matches) {
  for (const Case& c : cases()) {
    const MadeTrace made = make_trace(c.spec);
    ImportReport report;
    const KernelRecording job = record_ranks(reread(made.ranks, report), {}, report);
    std::set<std::set<std::pair<int, std::size_t>>> truth, got;
    for (const MadeCollective& m : made.truth.collectives) {
      std::set<std::pair<int, std::size_t>> members;
      bool whole = true;
      for (const MadeOpId id : m.members) { const MadeOp& op = made.truth.ops[id]; whole = whole && op.recorded; members.emplace(op.rank, op.recorded.value_or(0)); }
      if (whole) truth.insert(members);
    }
    for (const MatchedCollective& m : job.matching.matched) {
      std::set<std::pair<int, std::size_t>> members;
      for (const CommMember& x : m.members) members.emplace(static_cast<int>(x.trace), job.communication[x.trace].ops[x.op].gpu_op);
      got.insert(members);
    }
    std::size_t right = 0; for (const auto& m : got) right += truth.contains(m);
    std::printf("%-34s truth %zu got %zu right %zu\n", c.name.c_str(), truth.size(), got.size(), right);
  }
}

TEST(KernelModel, AcrossSteps) {
  for (Case c : cases()) {
    c.spec.kernel_sd = 0; c.spec.host_cv = 0; c.spec.launch_jitter_us = 0; c.spec.exit_skew_us = 0;
    for (double sd : {0.0, 0.05}) {
    c.spec.step_sd = sd;
    const MadeTrace made = make_trace(c.spec);
    ImportReport report;
    const KernelRecording job = record_ranks(reread(made.ranks, report), {}, report);
    const StepModel model = build_kernel_model(job, report);
    const ReplayResult replayed = replay(model, {});
    double all=0,gpu=0,lags=0,dev=0;
    for (const CrossStep& x : replayed.across_steps) { if (x.from==10||x.to==10) continue; all=std::max(all,std::abs(x.error-x.observed_change)); gpu=std::max(gpu,std::abs(x.gpu_error-x.observed_change)); lags=std::max(lags,std::abs(x.lags_error)); dev=std::max(dev,std::abs(x.observed_change));}
    std::printf("%-34s sd %.2f: all-change %.6f gpu-change %.6f lags %.6f change %.6f unexplained %.5f\n", c.name.c_str(), sd, all, gpu, lags, dev, replayed.unexplained_share.value_or(-1));
    }
  }
}

}  // namespace
}  // namespace prism
