// SPDX-License-Identifier: Apache-2.0
// The generator's own promises: closed forms for small jobs, and what must hold in any job.
#include "tests/made_trace/made_trace.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "tests/made_trace/damage.hpp"

namespace prism {
namespace {

/// No noise and no lag but those set.
MadeTraceSpec bare() {
  return {.steps = 2,
          .unprofiled_steps = 0,
          .kernel_us = 100,
          .collective_us = 40,
          .p2p_us = 10,
          .call_us = 1,
          .gap_us = 0,
          .launch_lag_us = 0,
          .launch_jitter_us = 0,
          .kernel_gap_us = 0,
          .wake_us = 0,
          .exit_skew_us = 0,
          .kernel_sd = 0,
          .host_cv = 0};
}

MadeTraceSpec mixed() {
  return {.tp = 2,
          .dp = 2,
          .pp = 2,
          .ranks_per_host = 4,
          .microbatches = 3,
          .step_sd = 0.05,
          .rank_sd = 0.03,
          .clock_offset_us = {{1, 350}},
          .clock_drift_ppm = {{1, 20}}};
}

std::vector<MadeTraceSpec> many_jobs() {
  MadeTraceSpec graphs = mixed();
  graphs.cuda_graphs = true;
  graphs.step_end = StepEnd::DeviceSync;
  MadeTraceSpec fsdp = mixed();
  fsdp.data_parallelism = DataParallelism::Fsdp;
  fsdp.step_end = StepEnd::Nothing;
  fsdp.shared_stream = true;
  fsdp.slow_ranks = {{3, 1.5}};
  MadeTraceSpec deep{.pp = 4, .microbatches = 8, .coalesced_p2p = true};
  return {{}, {.dp = 4}, {.tp = 4}, deep, mixed(), graphs, fsdp};
}

// Kernels of a lone rank run back to back, as the host is much faster: 2 us copy, 2 us fill, 2 layers of 3
// forward kernels of 100 us and 3 backward of 200 us, 10 us norm, 2 us copy, for which the host waits. It then
// launches 2 optimizer kernels of 50 us and, while they run, the next step.
TEST(MadeTrace, LoneRankTakesTheSumOfItsKernels) {
  const MadeTrace made = make_trace(bare());
  const std::int64_t expected_ns = (2 + 2 + 2 * 3 * (100 + 200) + 10 + 2 + 2 * 50) * 1000;
  ASSERT_EQ(made.truth.steps.size(), 2U);
  EXPECT_EQ(made.truth.steps[0].time_ns, expected_ns);
  EXPECT_EQ(made.truth.steps[1].time_ns, expected_ns);
}

// A host that is slower than its GPU decides the step: calls of 50 us for kernels of 1 us.
TEST(MadeTrace, SlowHostDecidesTheStep) {
  MadeTraceSpec spec = bare();
  spec.kernel_us = 1;
  spec.call_us = 50;
  const MadeTrace once = make_trace(spec);
  spec.observer_tax = 2;
  const MadeTrace taxed = make_trace(spec);
  // Two copies, a fill, 12 kernels of layers, the norm, 2 of the optimizer, and the synchronisation: 19 calls.
  EXPECT_NEAR(static_cast<double>(once.truth.steps[1].time_ns), 19 * 50e3, 2e3);
  EXPECT_NEAR(static_cast<double>(taxed.truth.steps[1].time_ns), 19 * 100e3, 2e3);
}

// The known makespan of the schedule: (m + p - 1) times forward and backward of one microbatch.
TEST(MadeTrace, PipelineTakesTheKnownMakespan) {
  MadeTraceSpec spec = bare();
  spec.pp = 4;
  spec.microbatches = 8;
  spec.layers = 1;
  spec.kernels_per_layer = 1;
  spec.kernel_us = 10'000;
  spec.p2p_us = 0;
  spec.steps = 1;
  const double expected_ns = (8 + 4 - 1) * 3 * 10e6;
  // Beside it: the norm and the optimizer kernel (0.1 and 0.5 of a kernel), and some us of copies and calls.
  const auto time_ns = static_cast<double>(make_trace(spec).truth.steps[0].time_ns);
  EXPECT_NEAR(time_ns, expected_ns + 0.6 * 10e6, 200e3);
}

// Synchronous reductions stand on the critical path: 40 us after each of 2 layers, forward and backward.
TEST(MadeTrace, TensorParallelReductionsAddTheirTransfers) {
  MadeTraceSpec spec = bare();
  spec.steps = 1;
  const std::int64_t alone_ns = make_trace(spec).truth.steps[0].time_ns;
  spec.tp = 2;
  const std::int64_t with_ns = make_trace(spec).truth.steps[0].time_ns;
  EXPECT_EQ(with_ns - alone_ns, (4 * 40 + 10) * 1000) << "10 us: the norm of all ranks";
}

// A slow rank makes the others wait in collectives, by the whole difference.
TEST(MadeTrace, SlowRankMakesOthersWait) {
  MadeTraceSpec spec = bare();
  spec.tp = 2;
  spec.slow_ranks = {{1, 2.0}};
  const MadeTrace made = make_trace(spec);
  const MadeCollective& second = made.truth.collectives[1];
  ASSERT_EQ(second.members.size(), 2U);
  const MadeOp& early = made.truth.ops[second.members[0]];
  const MadeOp& late = made.truth.ops[second.members[1]];
  EXPECT_EQ(late.start_ns - early.start_ns, 300'000);  // 3 kernels of 100 us more since the first collective
  EXPECT_EQ(early.end_ns, late.end_ns);
  EXPECT_EQ(late.end_ns - late.start_ns, 40'000);
}

TEST(MadeTrace, NothingStartsBeforeWhatItWaitsFor) {
  for (const MadeTraceSpec& spec : many_jobs()) {
    const MadeTruth truth = make_trace(spec).truth;
    std::map<MadeDependency::Kind, int> checked;
    for (const MadeDependency& d : truth.dependencies) {
      const MadeOp& before = truth.ops[d.before];
      const MadeOp& after = truth.ops[d.after];
      ++checked[d.kind];
      EXPECT_EQ(before.rank, after.rank);
      EXPECT_LE(before.end_ns, d.kind == MadeDependency::Kind::HostWait ? after.call_ns : after.start_ns)
          << before.name << " -> " << after.name;
      EXPECT_TRUE(d.kind != MadeDependency::Kind::Stream || before.stream == after.stream);
    }
    EXPECT_GT(checked[MadeDependency::Kind::Stream], 0);
  }
}

// Every start is explained: by the launch, or by one of its dependencies and the gap after it.
TEST(MadeTrace, EveryStartHasACause) {
  for (const MadeTraceSpec& spec : many_jobs()) {
    const MadeTruth truth = make_trace(spec).truth;
    IdVector<MadeOpId, std::int64_t> allowed(truth.ops.size());
    for (std::size_t i = 0; i < truth.ops.size(); ++i)
      allowed[MadeOpId(i)] = truth.ops[MadeOpId(i)].queued_ns;
    for (const MadeDependency& d : truth.dependencies) {
      if (d.kind == MadeDependency::Kind::HostWait) continue;
      allowed[d.after] = std::max(allowed[d.after], truth.ops[d.before].end_ns + 1200);
    }
    for (std::size_t i = 0; i < truth.ops.size(); ++i) {
      const MadeOp& op = truth.ops[MadeOpId(i)];
      ASSERT_EQ(op.start_ns, allowed[MadeOpId(i)]) << op.name;
      EXPECT_GE(op.lag_ns(), 5000) << op.name;
    }
  }
}

TEST(MadeTrace, CollectivesTransferOnceAllMembersAreThere) {
  for (const MadeTraceSpec& spec : many_jobs()) {
    const MadeTruth truth = make_trace(spec).truth;
    for (const MadeCollective& c : truth.collectives) {
      ASSERT_GE(c.members.size(), 2U);
      std::set<int> ranks;
      std::int64_t last_start = 0;
      for (std::size_t m = 0; m < c.members.size(); ++m) {
        const MadeOp& op = truth.ops[c.members[m]];
        ranks.insert(op.rank);
        last_start = std::max(last_start, op.start_ns);
        EXPECT_EQ(op.end_ns, c.arrival_ns + c.transfer_ns + c.exit_skew_ns[m]);
        EXPECT_GE(c.exit_skew_ns[m], 0);
        EXPECT_EQ(op.step, c.step);
      }
      EXPECT_EQ(c.arrival_ns, last_start);
      EXPECT_EQ(ranks.size(), c.members.size());
    }
  }
}

// A step's time is counted from the last GPU end of the one before, so the times add up to the whole.
TEST(MadeTrace, StepTimesAddUp) {
  for (const MadeTraceSpec& spec : many_jobs()) {
    const MadeTruth truth = make_trace(spec).truth;
    std::int64_t last_end = 0;
    for (const MadeOp& op : truth.ops) last_end = std::max(last_end, op.end_ns);
    std::int64_t sum = truth.start_ns;
    for (const MadeStep& step : truth.steps) sum += step.time_ns;
    EXPECT_EQ(sum, last_end);
  }
}

/// A rank's recorded times taken back to the job's clock must be the truth.
TEST(MadeTrace, RecordsInTheHostsClock) {
  MadeTraceSpec spec = mixed();
  const MadeTrace made = make_trace(spec);
  EXPECT_EQ(made.truth.clock_offset_ns,
            (std::vector<std::int64_t>{0, 0, 0, 0, 350'000, 350'000, 350'000, 350'000}));
  int drifted = 0;
  for (const MadeOp& op : made.truth.ops) {
    if (!op.recorded) continue;
    const auto rank = static_cast<std::size_t>(op.rank);
    const GpuOp& seen = made.ranks[rank].gpu_ops[*op.recorded];
    EXPECT_EQ(made.ranks[rank].name(seen.name), op.name);
    EXPECT_EQ(seen.stream, op.stream);
    const double since = static_cast<double>(op.start_ns - made.truth.start_ns);
    const double drift_ns = since * made.truth.clock_drift_ppm[rank] * 1e-6;
    EXPECT_NEAR(static_cast<double>(seen.start_ns - op.start_ns - made.truth.clock_offset_ns[rank]), drift_ns,
                1);
    EXPECT_NEAR(static_cast<double>(seen.duration_ns - (op.end_ns - op.start_ns)), 0, 60);
    if (drift_ns > 10) ++drifted;
  }
  EXPECT_GT(drifted, 100);
}

TEST(MadeTrace, WindowHasABacklogWithoutLaunches) {
  // The host of this job runs ahead, so the device is still busy with the step before.
  const MadeTrace made = make_trace({.step_end = StepEnd::Nothing});
  const RankTrace& trace = made.ranks[0];
  std::set<std::int64_t> launches;
  for (const HostCall& call : trace.calls) launches.insert(call.correlation);
  const auto orphans = std::ranges::count_if(
      trace.gpu_ops, [&](const GpuOp& op) { return !launches.contains(op.correlation); });
  EXPECT_GT(orphans, 0);
  EXPECT_LT(orphans, std::ssize(trace.gpu_ops) / 2);
  const std::int64_t window_ns = trace.annotations.front().start_ns;
  EXPECT_EQ(trace.name(trace.annotations.front().name), "ProfilerStep#10");
  for (const GpuOp& op : trace.gpu_ops) EXPECT_GE(op.start_ns, window_ns);
}

TEST(MadeTrace, MetadataFollowsTheVersion) {
  MadeTraceSpec spec{.dp = 2, .pp = 2, .steps = 1};
  const auto records = [&](Metadata metadata) {
    spec.metadata = metadata;
    const RankTrace trace = make_trace(spec).ranks[3];
    return std::tuple(
        std::ranges::count_if(trace.cpu_ops, [](const CpuOp& op) { return op.comm.has_value(); }),
        std::ranges::count_if(trace.gpu_ops, [](const GpuOp& op) { return op.comm.has_value(); }),
        std::ranges::count_if(trace.comms, [](const CommRecord& c) { return c.comms_id.has_value(); }),
        trace.groups.size());
  };
  // Of the last stage: a receive and a send, 2 layers' all-reduces, the norm; all but the send are awaited.
  EXPECT_EQ(records(Metadata::None), std::tuple(0, 0, 0, 0U));
  EXPECT_EQ(records(Metadata::Position), std::tuple(9, 0, 0, 0U));
  EXPECT_EQ(records(Metadata::Names), std::tuple(9, 5, 0, 3U));
  EXPECT_EQ(records(Metadata::Full), std::tuple(9, 5, 10, 3U));
}

// A coalesced send or receive is launched behind its record, inside the coalescing scope.
TEST(MadeTrace, CoalescedPairsAreLaunchedOutsideTheirRecords) {
  const MadeTrace made = make_trace({.pp = 2, .coalesced_p2p = true});
  int pairs = 0;
  for (const RankTrace& trace : made.ranks) {
    for (const GpuOp& op : trace.gpu_ops) {
      if (trace.name(op.name).find("SendRecv") == std::string::npos) continue;
      EXPECT_FALSE(op.comm);
      const auto call = std::ranges::find(trace.calls, op.correlation, &HostCall::correlation);
      if (call == trace.calls.end()) continue;
      ++pairs;
      const auto around = [&](const auto& range) {
        return range.start_ns <= call->start_ns && call->end_ns() <= range.end_ns();
      };
      EXPECT_TRUE(std::ranges::none_of(trace.cpu_ops, around));
      EXPECT_TRUE(std::ranges::any_of(trace.annotations, [&](const Annotation& a) {
        return trace.name(a.name) == "nccl:coalesced" && around(a);
      }));
    }
  }
  EXPECT_EQ(pairs, 3 * 2 * 2);
}

// Members of a collective share the Comms Id, different ones never do.
TEST(MadeTrace, CommsIdsNameCollectives) {
  const MadeTrace made = make_trace({.tp = 2, .dp = 2, .steps = 2, .unprofiled_steps = 0});
  std::map<std::size_t, std::set<std::uint64_t>> ids;
  std::set<std::uint64_t> all;
  for (const MadeOp& op : made.truth.ops) {
    if (!op.collective) continue;
    const RankTrace& trace = made.ranks[static_cast<std::size_t>(op.rank)];
    const std::uint64_t id = *trace.comms[trace.gpu_ops[*op.recorded].comm->value].comms_id;
    ids[*op.collective].insert(id);
    all.insert(id);
  }
  EXPECT_EQ(ids.size(), made.truth.collectives.size());
  EXPECT_EQ(all.size(), ids.size());
  for (const auto& [collective, own] : ids) EXPECT_EQ(own.size(), 1U) << collective;
}

TEST(MadeTrace, GraphIsOneLaunchOfManyKernels) {
  const MadeTrace made = make_trace({.kernels_per_layer = 5, .cuda_graphs = true});
  std::map<std::int64_t, int> kernels;
  for (const GpuOp& op : made.ranks[0].gpu_ops) {
    if (op.graph != 0) ++kernels[op.correlation];
  }
  ASSERT_FALSE(kernels.empty());
  int most = 0;
  for (const auto& [correlation, count] : kernels) most = std::max(most, count);
  EXPECT_EQ(most, 5);
}

TEST(MadeTrace, LateProfilerCountsFromItsOwnStart) {
  const MadeTrace made = make_trace({.dp = 2, .steps = 3, .late_by = {{1, 1}}});
  const auto steps = [](const RankTrace& trace) {
    std::vector<std::string> names;
    for (const Annotation& a : trace.annotations) {
      if (trace.name(a.name).starts_with("ProfilerStep")) names.push_back(trace.name(a.name));
    }
    return names;
  };
  EXPECT_EQ(steps(made.ranks[0]),
            (std::vector<std::string>{"ProfilerStep#10", "ProfilerStep#11", "ProfilerStep#12"}));
  EXPECT_EQ(steps(made.ranks[1]), (std::vector<std::string>{"ProfilerStep#10", "ProfilerStep#11"}));
}

TEST(MadeTrace, EventsAreSortedByStart) {
  for (const MadeTraceSpec& spec : many_jobs()) {
    for (const RankTrace& trace : make_trace(spec).ranks) {
      EXPECT_TRUE(std::ranges::is_sorted(trace.gpu_ops, {}, &GpuOp::start_ns));
      EXPECT_TRUE(std::ranges::is_sorted(trace.calls, {}, &HostCall::start_ns));
      EXPECT_TRUE(std::ranges::is_sorted(trace.cpu_ops, {}, &CpuOp::start_ns));
    }
  }
}

TEST(MadeTrace, DependsOnItsSeedAlone) {
  MadeTraceSpec spec = mixed();
  const auto times = [&] {
    std::vector<std::int64_t> ns;
    for (const MadeStep& step : make_trace(spec).truth.steps) ns.push_back(step.time_ns);
    return ns;
  };
  const auto once = times();
  EXPECT_EQ(once, times());
  spec.seed = 2;
  EXPECT_NE(once, times());
}

TEST(MadeTrace, RefusesImpossibleSizes) {
  EXPECT_THROW(make_trace({.tp = 0}), std::invalid_argument);
  EXPECT_THROW(make_trace({.steps = 0}), std::invalid_argument);
}

TEST(Damage, DoesWhatItCounts) {
  const RankTrace whole = make_trace({.dp = 2, .steps = 6}).ranks[1];
  const std::size_t n = whole.gpu_ops.size();

  RankTrace trace = whole;
  EXPECT_EQ(lose_first_gpu_ops(trace, 5), 5U);
  ASSERT_EQ(trace.gpu_ops.size(), n - 5);
  EXPECT_EQ(trace.gpu_ops[0].start_ns, whole.gpu_ops[5].start_ns);

  trace = whole;
  const std::size_t lost = lose_gpu_ops_at_random(trace, 0.3, 1);
  EXPECT_EQ(trace.gpu_ops.size(), n - lost);
  EXPECT_NEAR(static_cast<double>(lost) / static_cast<double>(n), 0.3, 0.15);

  trace = whole;
  const std::size_t zeroed = zero_gpu_times(trace, 0.5, 1);
  EXPECT_GT(zeroed, 0U);
  EXPECT_EQ(trace.gpu_ops[zeroed - 1].start_ns, *trace.base_time_ns);
  EXPECT_GT(trace.gpu_ops[zeroed].start_ns, *trace.base_time_ns);

  trace = whole;
  const std::size_t stretched = stretch_gpu_durations(trace, 0.2, 1);
  EXPECT_GT(stretched, 0U);
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(trace.gpu_ops, 1'600'000'000, &GpuOp::duration_ns)),
            stretched);
}

}  // namespace
}  // namespace prism
