// SPDX-License-Identifier: Apache-2.0
// Work and waiting told apart, on jobs of a few ops whose times are set, and whose splits are worked out, by
// hand. Times are in milliseconds.
#include "prism/model/split_times.hpp"

#include <cmath>
#include <functional>

#include <gtest/gtest.h>

namespace prism {
namespace {

using enum OpType;

struct Interval {
  double start_ms = 0;
  double end_ms = 0;
};

/// A recorded job and its graph, op by op.
struct HandMade {
  RecordedJob job;
  OpGraph graph;
  ImportReport report;

  HandMade(int steps, int replicas, int stages) {
    for (int k = 0; k < steps; ++k) job.steps.push_back(k);
    job.mesh.size(Axis::Dp) = replicas;
    job.mesh.size(Axis::Pp) = stages;
  }

  /// Adds an op that ran as `times(step, replica)` says.
  OpId add(OpType type, int stage, const std::function<Interval(int, int)>& times,
           std::vector<OpId> depends_on = {}) {
    for (std::size_t k = 0; k < job.step_count(); ++k) {
      for (std::size_t d = 0; d < job.replicas(); ++d) {
        const Interval t = times(static_cast<int>(k), static_cast<int>(d));
        job.start_ns.push_back(std::round(t.start_ms * 1e6));
        job.end_ns.push_back(std::round(t.end_ms * 1e6));
      }
    }
    graph.depends_on.push_back(std::move(depends_on));
    graph.group_of.push_back(std::nullopt);
    graph.compute_of_receive.push_back(std::nullopt);
    return job.ops.push_back({.type = type, .stage = stage});
  }
  /// The same in all steps and replicas.
  OpId add(OpType type, int stage, Interval time, std::vector<OpId> depends_on = {}) {
    return add(
        type, stage, [time](int, int) { return time; }, std::move(depends_on));
  }

  GroupId group(std::vector<OpId> members, bool spans_replicas) {
    const GroupId id = graph.groups.push_back({members, spans_replicas});
    for (const OpId op : members) graph.group_of[op] = id;
    return id;
  }

  SplitTimes split(LaunchDelays mode = LaunchDelays::Clean) {
    report = {};
    return split_times(job, graph, mode, report);
  }
};

/// In milliseconds, to compare with what was written.
std::vector<double> ms(const CellValues& cells) {
  std::vector<double> values;
  for (const double ns : cells) values.push_back(ns / 1e6);
  return values;
}

using Values = std::vector<double>;

//   stage 0   F [0, 10]   send [11, 16]
//   stage 1   receive [4, 17] -------------> F [17.5, 30]
HandMade transfer(Interval receive = {4, 17}) {
  HandMade made(1, 1, 2);
  const OpId first = made.add(ForwardCompute, 0, {0, 10});
  const OpId send = made.add(ForwardSend, 0, {11, 16}, {first});
  const OpId recv = made.add(ForwardRecv, 1, receive);
  made.add(ForwardCompute, 1, {17.5, 30}, {recv});
  made.group({send, recv}, false);
  return made;
}

TEST(SplitTimes, TransferBeginsWhenTheLastSideIsThere) {
  const SplitTimes split = transfer().split();
  EXPECT_EQ(ms(split.work_ns[OpId(0)]), Values{10});
  EXPECT_EQ(ms(split.work_ns[OpId(1)]), Values{5}) << "from the send's start, as it came last";
  EXPECT_EQ(ms(split.work_ns[OpId(2)]), Values{6}) << "the seven milliseconds before were waiting";
  EXPECT_EQ(ms(split.work_ns[OpId(3)]), Values{12.5});
}

TEST(SplitTimes, DelayOfAPairIsThatOfItsSend) {
  const SplitTimes split = transfer().split();
  EXPECT_EQ(ms(split.delay_before_ns[OpId(0)]), Values{0});
  EXPECT_EQ(ms(split.delay_before_ns[OpId(1)]), Values{1});
  EXPECT_TRUE(split.delay_before_ns[OpId(2)].empty()) << "a receive's own delay is waiting";
  EXPECT_EQ(ms(split.delay_before_ns[OpId(3)]), Values{0.5});
  EXPECT_TRUE(split.delay_after_ns[GroupId(0)].empty());
}

TEST(SplitTimes, SmallNegativeTransfersStayAndLargeOnesAreClockErrors) {
  struct Case {
    double receive_end_ms;
    double work_ms;
    std::size_t reported;
  };
  for (const Case c : {Case{10.9, -0.1, 0}, {1.000001, -9.999999, 0}, {1, 0, 1}, {0.5, 0, 1}}) {
    HandMade made = transfer({0.2, c.receive_end_ms});
    const SplitTimes split = made.split();
    ASSERT_EQ(split.work_ns[OpId(2)].size(), 1U);
    EXPECT_NEAR(split.work_ns[OpId(2)][0] / 1e6, c.work_ms, 1e-9);
    ASSERT_EQ(made.report.entries().size(), c.reported) << c.receive_end_ms;
    if (c.reported == 0) continue;
    EXPECT_EQ(made.report.entries()[0].severity, Severity::Repaired);
    EXPECT_EQ(made.report.entries()[0].places[0], "forward-recv 0 of stage 1");
  }
}

//   replica 0   stage 0  B [0, 19]   clip [20, 41]      replica 1   B [0, 20]   clip [21, 43]
//               stage 1  B [0, 22]   clip [22, 42]                  B [0, 28]   clip [30, 44]
TEST(SplitTimes, CollectiveHasOneDelayAfterAllHaveArrived) {
  HandMade made(1, 2, 2);
  const auto by_replica = [](Interval a, Interval b) { return [=](int, int d) { return d == 0 ? a : b; }; };
  const OpId b0 = made.add(BackwardCompute, 0, by_replica({0, 19}, {0, 20}));
  const OpId b1 = made.add(BackwardCompute, 1, by_replica({0, 22}, {0, 28}));
  const OpId clip0 = made.add(OptimizerClipMainGrad, 0, by_replica({20, 41}, {21, 43}), {b0});
  const OpId clip1 = made.add(OptimizerClipMainGrad, 1, by_replica({22, 42}, {30, 44}), {b1});
  const GroupId group = made.group({clip0, clip1}, true);
  const SplitTimes split = made.split();
  // All have arrived at 28, the last has started at 30.
  EXPECT_EQ(ms(split.delay_after_ns[group]), (Values{2, 2}));
  EXPECT_EQ(ms(split.work_ns[clip0]), (Values{11, 13}));
  EXPECT_EQ(ms(split.work_ns[clip1]), (Values{12, 14}));
  EXPECT_TRUE(split.delay_before_ns[clip0].empty());
  EXPECT_TRUE(split.delay_before_ns[clip1].empty());

  // The same group inside each replica alone: arrivals 22 and 28, starts 22 and 30.
  made.graph.groups[group].spans_replicas = false;
  const SplitTimes inside = made.split();
  EXPECT_EQ(ms(inside.delay_after_ns[group]), (Values{0, 2}));
  EXPECT_EQ(ms(inside.work_ns[clip0]), (Values{19, 13}));
  EXPECT_EQ(ms(inside.work_ns[clip1]), (Values{20, 14}));
}

// The delay counts from the latest dependency, from the step's first start if there is none, and never below
// 0.
TEST(SplitTimes, DelayCountsFromTheLastArrival) {
  HandMade made(1, 1, 1);
  const OpId a = made.add(ForwardCompute, 0, {3, 10});
  const OpId b = made.add(ForwardCompute, 0, {5, 20});
  const OpId c = made.add(BackwardCompute, 0, {24, 30}, {a, b});
  const OpId early = made.add(BackwardCompute, 0, {29.9, 40}, {c});
  const SplitTimes split = made.split();
  EXPECT_EQ(ms(split.delay_before_ns[a]), Values{0});
  EXPECT_EQ(ms(split.delay_before_ns[b]), Values{2});
  EXPECT_EQ(ms(split.delay_before_ns[c]), Values{4});
  EXPECT_EQ(ms(split.delay_before_ns[early]), Values{0});
}

// --- hidden waits
// -------------------------------------------------------------------------------------------------

//   replica 0   B [0, 10]   layer norm from 30 on        replica 1   B [0, 30]   layer norm from 30.25 on
//
// In `early_steps` of 20 steps, replica 0 does not wait.
HandMade barrier(double first_arrival_ms, double start_ms, int early_steps) {
  HandMade made(20, 2, 1);
  const OpId b = made.add(BackwardCompute, 0, [=](int, int d) {
    return Interval{0, d == 0 ? first_arrival_ms : 30};
  });
  made.add(LayernormGradsAllReduce, 0,
           [=](int k, int d) {
             const double waited = d == 0 ? start_ms : 30.25;
             const double start = d == 0 && k < early_steps ? first_arrival_ms : waited;
             return Interval{start, start + 1};
           },
           {b});
  return made;
}

TEST(HiddenWaits, LocalOpThatWaitsForAllReplicasIsABarrier) {
  const SplitTimes split = barrier(10, 30, 0).split();
  EXPECT_EQ(split.barrier[OpId(1)], 1);
  EXPECT_EQ(split.barrier[OpId(0)], 0);
  ASSERT_EQ(split.inferences.size(), 1U);
  EXPECT_EQ(split.inferences[0],
            (Inference{"barrier over replicas", "layernorm-grads-all-reduce 0 of stage 0"}));
  for (std::size_t k = 0; k < 20; ++k) {
    EXPECT_EQ(split.delay_before_ns[OpId(1)][2 * k], 0);
    EXPECT_EQ(split.delay_before_ns[OpId(1)][2 * k + 1], 0.25e6) << "own delay after the latest arrival";
  }
}

// 200 us before the latest arrival still agrees, 201 us does not.
TEST(HiddenWaits, BarrierToleratesClockScatter) {
  const SplitTimes agrees = barrier(10, 29.8, 0).split();
  EXPECT_EQ(agrees.barrier[OpId(1)], 1);
  EXPECT_EQ(agrees.delay_before_ns[OpId(1)][0], 0) << "never negative";
  const SplitTimes differs = barrier(10, 29.799, 0).split();
  EXPECT_EQ(differs.barrier[OpId(1)], 0);
  EXPECT_EQ(differs.delay_before_ns[OpId(1)][0], 19.799e6) << "then all of it is a delay";
}

TEST(HiddenWaits, BarrierNeedsNineteenOfTwentySteps) {
  EXPECT_EQ(barrier(10, 30, 1).split().barrier[OpId(1)], 1);
  EXPECT_EQ(barrier(10, 30, 2).split().barrier[OpId(1)], 0);
}

// Replicas that arrive together cannot show who waited for whom.
TEST(HiddenWaits, BarrierNeedsArrivalsThatDiffer) {
  EXPECT_EQ(barrier(28.9, 30, 0).split().barrier[OpId(1)], 1);
  EXPECT_EQ(barrier(29.0, 30, 0).split().barrier[OpId(1)], 0) << "1 ms on average is not more than 1 ms";
}

TEST(HiddenWaits, ComputeIsNeverABarrier) {
  HandMade made = barrier(10, 30, 0);
  made.job.ops[OpId(1)].type = ForwardCompute;
  const SplitTimes split = made.split();
  EXPECT_EQ(split.barrier[OpId(1)], 0);
  EXPECT_TRUE(split.inferences.empty());
  EXPECT_EQ(split.delay_before_ns[OpId(1)][0], 20e6);
}

//   stage 0   B [0, 10]   gc     in replica 1 both gc start once both stages have arrived, at 30.5 and 31
//   stage 1   B [0, 30]   gc     in replica 0 they start 1 ms after their own stage has arrived
TEST(HiddenWaits, WaitForAllStagesOfOneReplicaIsTakenOutOfItsDelays) {
  HandMade made(20, 2, 2);
  const OpId b0 = made.add(BackwardCompute, 0, {0, 10});
  const OpId b1 = made.add(BackwardCompute, 1, {0, 30});
  const OpId gc0 = made.add(Gc, 0,
                            [](int, int d) {
                              return d == 0 ? Interval{11, 12} : Interval{30.5, 31};
                            },
                            {b0});
  const OpId gc1 = made.add(Gc, 1,
                            [](int, int d) {
                              return d == 0 ? Interval{31, 32} : Interval{31, 31};
                            },
                            {b1});
  const SplitTimes split = made.split();
  ASSERT_EQ(split.inferences.size(), 1U);
  EXPECT_EQ(split.inferences[0], (Inference{"wait for all stages", "gc 0 of replica 1"}));
  EXPECT_EQ(split.barrier[gc0], 0);
  for (std::size_t k = 0; k < 20; ++k) {
    EXPECT_EQ(split.delay_before_ns[gc0][2 * k], 1e6);
    EXPECT_EQ(split.delay_before_ns[gc0][2 * k + 1], 0.5e6) << "from 30, not from its own 10";
    EXPECT_EQ(split.delay_before_ns[gc1][2 * k], 1e6);
    EXPECT_EQ(split.delay_before_ns[gc1][2 * k + 1], 1e6);
  }
}

// --- modes
// ------------------------------------------------------------------------------------------------------

TEST(SplitTimes, RawKeepsEveryRecordedDelay) {
  HandMade made = transfer();
  made.add(BackwardCompute, 1, {29.99, 40}, {OpId(3)});  // 10 us before what it depends on has ended
  made.add(BackwardCompute, 1, {20, 41}, {OpId(3)});     // 10 ms before: clocks disagree
  const SplitTimes split = made.split(LaunchDelays::Raw);
  EXPECT_EQ(ms(split.delay_before_ns[OpId(1)]), Values{1});
  EXPECT_EQ(ms(split.delay_before_ns[OpId(2)]), Values{4}) << "a receive's too: after the step's first start";
  EXPECT_EQ(ms(split.delay_before_ns[OpId(4)]), Values{-0.01});
  EXPECT_EQ(ms(split.delay_before_ns[OpId(5)]), Values{0});
  ASSERT_EQ(made.report.entries().size(), 1U);
  EXPECT_EQ(made.report.entries()[0].count, 1U);
  EXPECT_TRUE(split.delay_after_ns[GroupId(0)].empty());
  EXPECT_TRUE(split.inferences.empty());
}

TEST(SplitTimes, NoneKeepsTheInferencesAndDropsTheDelays) {
  HandMade made = barrier(10, 30, 0);
  const SplitTimes split = made.split(LaunchDelays::None);
  EXPECT_EQ(split.barrier[OpId(1)], 1);
  EXPECT_EQ(split.inferences.size(), 1U);
  for (const CellValues& delays : split.delay_before_ns) EXPECT_TRUE(delays.empty());
  EXPECT_EQ(split.work_ns, made.split(LaunchDelays::Clean).work_ns);
}

TEST(SplitTimes, OffInfersNothing) {
  HandMade made = barrier(10, 30, 0);
  const SplitTimes split = made.split(LaunchDelays::Off);
  EXPECT_EQ(split.barrier[OpId(1)], 0);
  EXPECT_TRUE(split.inferences.empty());
  for (const CellValues& delays : split.delay_before_ns) EXPECT_TRUE(delays.empty());
  EXPECT_EQ(split.work_ns, made.split(LaunchDelays::Clean).work_ns);
}

}  // namespace
}  // namespace prism
