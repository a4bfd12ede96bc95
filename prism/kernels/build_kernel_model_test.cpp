// SPDX-License-Identifier: Apache-2.0
// From small traces to nodes and pools, with values worked out by hand.
#include "prism/kernels/build_kernel_model.hpp"

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trace_builder.hpp"

namespace prism {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::int64_t kUs = 1'000;

class Built {
 public:
  explicit Built(std::vector<RankTrace> traces) {
    ImportReport report;
    const KernelRecording job = record_ranks(std::move(traces), {}, report);
    model_ = build_kernel_model(job, std::move(report));
  }

  [[nodiscard]] const StepModel& model() const { return model_; }
  [[nodiscard]] NodeId node(const std::string& name) const {
    for (std::size_t i = 0; i < model_.nodes.size(); ++i) {
      if (model_.nodes[NodeId(i)].name == name) return NodeId(i);
    }
    ADD_FAILURE() << "no node " << name;
    return NodeId(0);
  }
  /// What a node took in each step, in microseconds.
  [[nodiscard]] std::vector<double> us(const std::string& name) const {
    const Node& of = model_.nodes[node(name)];
    const DurationClass& pool = model_.pools.classes[of.duration_class];
    std::vector<double> values;
    for (std::size_t k = 0; k < model_.step_count(); ++k) {
      values.push_back(model_.pools.pool(of.duration_class, 0)[k * pool.members + of.member] / 1e3);
    }
    return values;
  }
  [[nodiscard]] Category category(const std::string& name) const {
    return model_.pools.classes[model_.nodes[node(name)].duration_class].category;
  }
  [[nodiscard]] std::vector<std::string> before(const std::string& name) const {
    std::vector<std::string> names;
    for (const NodeId id : model_.graph.predecessors(node(name))) names.push_back(model_.nodes[id].name);
    return names;
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Node& of : model_.nodes) names.push_back(of.name);
    return names;
  }

 private:
  StepModel model_;
};

Built built(TraceBuilder& b) {
  std::vector<RankTrace> traces;
  traces.push_back(b.finish());
  return Built(std::move(traces));
}

void step(TraceBuilder& b, int number, std::int64_t start_us, std::int64_t length_us) {
  b.annotation("ProfilerStep#" + std::to_string(number), start_us * kUs, length_us * kUs);
}

void launch(TraceBuilder& b, const std::string& name, std::int64_t call_us, std::int64_t start_us,
            std::int64_t length_us, std::uint64_t stream = 7) {
  b.launch(name, call_us * kUs, start_us * kUs, length_us * kUs, stream);
}

CommRecord record(TraceBuilder& b, const char* collective, std::int32_t size) {
  CommRecord result;
  result.collective = b.name(collective);
  result.group = b.name("0");
  result.in_elements = result.out_elements = 100;
  result.group_size = size;
  for (std::int32_t r = 0; r < size; ++r) result.members.push_back(r);
  return result;
}

// ---- one rank -------------------------------------------------------------------------------------------

TEST(KernelModel, AKernelIsHostWorkLaunchGapAndTheKernelItself) {
  TraceBuilder b(0);
  step(b, 1, 100, 100);
  step(b, 2, 200, 100);
  launch(b, "a", 110, 117, 5);  // idle stream
  launch(b, "b", 113, 123, 5);  // a microsecond after a
  launch(b, "a", 220, 227, 6);
  launch(b, "b", 224, 240, 7);  // 7 us after a
  const Built of = built(b);
  // Too few launches on an idle stream to measure: 5 us; too few queued kernels for a gap: 0.
  EXPECT_THAT(of.model().steps, ElementsAre(1, 2));
  EXPECT_THAT(of.model().observed_ns, ElementsAre(28e3, 119e3));  // 100 -> 128 -> 247
  EXPECT_EQ(of.model().lead_ns, 0);
  EXPECT_THAT(of.us("start of a thread of rank 0"), ElementsAre(10, 92));  // 110 - 100, 220 - 128
  EXPECT_THAT(of.us("host to cudaLaunchKernel 0 of rank 0"), ElementsAre(0, 0));
  EXPECT_THAT(of.us("launch of a 0 of rank 0"), ElementsAre(5, 5));
  EXPECT_THAT(of.us("gap before a 0 of rank 0"), ElementsAre(2, 2));
  EXPECT_THAT(of.us("a 0 of rank 0"), ElementsAre(5, 6));
  EXPECT_THAT(of.us("gap before b 0 of rank 0"), ElementsAre(1, 7));
  EXPECT_THAT(of.us("b 0 of rank 0"), ElementsAre(5, 7));
  EXPECT_EQ(of.category("a 0 of rank 0"), Category::Compute);
  EXPECT_EQ(of.category("gap before b 0 of rank 0"), Category::QueueLag);
  EXPECT_EQ(of.category("host to cudaLaunchKernel 0 of rank 0"), Category::HostWork);
  EXPECT_EQ(of.category("start of a thread of rank 0"), Category::StepStart);
  EXPECT_EQ(of.model().nodes[of.node("b 0 of rank 0")].lane, 7);
}

TEST(KernelModel, ALateStartThatNothingExplainsIsUnexplained) {
  TraceBuilder b(0);
  step(b, 1, 100, 200);
  launch(b, "a", 110, 117, 5);
  launch(b, "b", 113, 200, 5);
  const Built of = built(b);
  EXPECT_EQ(of.category("gap before b 0 of rank 0"), Category::Unexplained);
  EXPECT_THAT(of.us("gap before b 0 of rank 0"), ElementsAre(78));  // 200 - 122
}

TEST(KernelModel, ALongLaunchCallIsHostWorkUpToItsEnd) {
  TraceBuilder b(0);
  step(b, 1, 0, 1'000);
  launch(b, "a", 10, 17, 5);
  b.call("cudaLaunchKernel", 50 * kUs, 300 * kUs, 1);  // loads a module
  b.kernel("b", 355 * kUs, 5 * kUs, 1);
  const Built of = built(b);
  EXPECT_EQ(of.category("launch of b 0 of rank 0"), Category::HostWork);
  EXPECT_THAT(of.us("launch of b 0 of rank 0"), ElementsAre(305));
  EXPECT_THAT(of.us("gap before b 0 of rank 0"), ElementsAre(0));
}

TEST(KernelModel, AnOpThatOnlyOneStepRanTakesNothingInTheOthers) {
  TraceBuilder b(0);
  for (int k = 0; k < 3; ++k) {
    step(b, k, 100 * k, 100);
    launch(b, "a", 100 * k + 10, 100 * k + 20, 5);
    if (k == 2) launch(b, "logged", 100 * k + 15, 100 * k + 26, 5);
    launch(b, "b", 100 * k + 20, 100 * k + 32, 5);
  }
  const Built of = built(b);
  EXPECT_THAT(of.us("logged 0 of rank 0"), ElementsAre(0, 0, 5));
  EXPECT_THAT(of.us("a 0 of rank 0"), ElementsAre(5, 5, 5));
  EXPECT_THAT(of.model().step_kinds, ElementsAre(0, 0, 1));  // one op of three is more than 1 %
  const std::size_t starts = of.node("logged 0 of rank 0").value * 3;
  EXPECT_TRUE(std::isnan(of.model().recorded_start_ns[starts + 1]));
  EXPECT_EQ(of.model().recorded_start_ns[starts + 2], 226e3 - 137e3);  // step 1 ended at 137
}

TEST(KernelModel, AnOpOfAnotherStepDoesNotOutlastAStepWhoseHostReturnsLate) {
  TraceBuilder b(0);
  for (int k = 0; k < 2; ++k) {
    step(b, k, 1'000 * k, 1'000);
    launch(b, "a", 1'000 * k + 10, 1'000 * k + 20, 50);
    // Returns 30 us after the kernel; only then the last one is launched, in the second step.
    b.call(HostCallKind::DeviceSync, "sync", (1'000 * k + 30) * kUs, 70 * kUs);
    if (k == 1) launch(b, "last", 1'110, 1'120, 5);
  }
  const Built of = built(b);
  EXPECT_THAT(of.model().observed_ns, ElementsAre(70e3, 1'055e3));
  // Without: the call returns at 100 us, the step ends at 70.
  EXPECT_THAT(of.us("gap before last 0 of rank 0"), ElementsAre(-30, 5));
}

std::vector<std::string> reasons(const StepModel& model) {
  std::vector<std::string> result;
  for (const ImportEntry& entry : model.report.entries()) result.push_back(entry.reason);
  return result;
}

TEST(KernelModel, StepsThatOrderOpsDifferentlyMakeNoCycle) {
  TraceBuilder b(0);
  // Stream 7: a, x. Stream 8: y, b, where y waits for x.
  step(b, 1, 0, 1'000);
  launch(b, "a", 0, 20, 5, 7);
  launch(b, "x", 3, 26, 74, 7);
  launch(b, "y", 6, 101, 4, 8);
  launch(b, "b", 9, 106, 4, 8);
  // Stream 8: b, v. Stream 7: u, a, where u waits for v. Together: x -> y -> b -> v -> u -> a -> x.
  step(b, 2, 1'000, 1'000);
  launch(b, "b", 1'000, 1'020, 5, 8);
  launch(b, "v", 1'003, 1'026, 74, 8);
  launch(b, "u", 1'006, 1'101, 4, 7);
  launch(b, "a", 1'009, 1'106, 4, 7);
  const Built of = built(b);
  EXPECT_EQ(of.model().step_count(), 2U);
  EXPECT_THAT(reasons(of.model()), Contains(HasSubstr("order differently")));
}

TEST(KernelModel, TheOpThatEndsAStepCountsThoughTheNextOneEndsBeforeIt) {
  TraceBuilder b(0);
  step(b, 1, 0, 100);
  launch(b, "long", 10, 20, 50);
  launch(b, "overlapping", 15, 21, 2);  // programmatic dependent launch
  const Built of = built(b);
  EXPECT_THAT(of.model().observed_ns, ElementsAre(70e3));
  EXPECT_THAT(of.before("end of the step"), ElementsAre("long 0 of rank 0"));
}

TEST(KernelModel, MoreCallsThanOpsAreFine) {
  TraceBuilder b(0);
  step(b, 1, 0, 1'000);
  launch(b, "a", 10, 20, 50);
  for (int i = 0; i < 5; ++i)
    b.call(HostCallKind::StreamSync, "sync", (30 + 20 * i) * kUs, (i == 0 ? 42 : 1) * kUs);
  launch(b, "b", 300, 310, 5);
  const Built of = built(b);
  EXPECT_THAT(of.us("return of sync 0 of rank 0"), ElementsAre(2));  // woken up 2 us after a ended
  EXPECT_EQ(of.category("return of sync 0 of rank 0"), Category::QueueLag);
}

TEST(KernelModel, DevicesOfOneProcessKeepTheirStreamsApart) {
  TraceBuilder b(0);
  step(b, 1, 0, 100);
  launch(b, "a", 10, 20, 50);
  b.launch("b", 12 * kUs, 22 * kUs, 5 * kUs).device = 1;
  const Built of = built(b);
  EXPECT_THAT(of.before("gap before b 0 of rank 0"), Not(Contains("a 0 of rank 0")));
}

TEST(KernelModel, WhatTimesRuleOutIsReported) {
  TraceBuilder b(0);
  step(b, 1, 0, 1'000);
  launch(b, "a", 10, 20, 50);
  b.record(15 * kUs, 10 * kUs, record(b, "allreduce", 2));
  b.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 20 * kUs, 30 * kUs, 20 * kUs, 20);  // beside a
  const Built of = built(b);
  EXPECT_THAT(reasons(of.model()), Contains(HasSubstr("recorded times rule out")));
}

// ---- communication --------------------------------------------------------------------------------------

const std::string kAllReduce = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)";

/// A step from 0 to 1 ms: "a", then an all-reduce that the rank reaches at `arrives_us` and all leave at 400 us.
RankTrace reducing(int rank, int world, std::int64_t arrives_us, std::int64_t clock_us = 0) {
  TraceBuilder b(rank);
  b.trace().world_size = world;
  step(b, 1, clock_us, 1'000);
  launch(b, "a", clock_us + 10, clock_us + 20, arrives_us - 20);
  const CommRecord content = record(b, "allreduce", world);
  b.record((clock_us + 15) * kUs, 10 * kUs, content);
  b.launch(kAllReduce, (clock_us + 18) * kUs, (clock_us + arrives_us) * kUs, (400 - arrives_us) * kUs, 20)
      .comm = b.comm(content);
  return b.finish();
}

TEST(KernelModel, MembersOfACollectiveMeetAndTransferFromTheLastArrivalOn) {
  std::vector<RankTrace> traces;
  traces.push_back(reducing(0, 2, 100));
  traces.push_back(reducing(1, 2, 300));
  const Built of(std::move(traces));
  EXPECT_THAT(of.before("join of ncclDevKernel_AllReduce_Sum_f32_RING_LL 0 of rank 0"),
              ElementsAre("gap before ncclDevKernel_AllReduce_Sum_f32_RING_LL 0 of rank 0",
                          "gap before ncclDevKernel_AllReduce_Sum_f32_RING_LL 0 of rank 1"));
  EXPECT_THAT(of.us("ncclDevKernel_AllReduce_Sum_f32_RING_LL 0 of rank 0"), ElementsAre(100));
  EXPECT_THAT(of.us("ncclDevKernel_AllReduce_Sum_f32_RING_LL 0 of rank 1"), ElementsAre(100));
  EXPECT_EQ(of.category("ncclDevKernel_AllReduce_Sum_f32_RING_LL 0 of rank 0"), Category::Collective);
  // Both ranks draw the same step's transfer.
  EXPECT_EQ(of.model().nodes[of.node("ncclDevKernel_AllReduce_Sum_f32_RING_LL 0 of rank 0")].draw_id,
            of.model().nodes[of.node("ncclDevKernel_AllReduce_Sum_f32_RING_LL 0 of rank 1")].draw_id);
  EXPECT_TRUE(
      of.model().nodes[of.node("join of ncclDevKernel_AllReduce_Sum_f32_RING_LL 0 of rank 0")].over_replicas);
  EXPECT_EQ(of.model().cells, 2U);  // data-parallel: each rank a cell
  // Rank 0 computes 80 us of 400, waits 200 and transfers 100; the other 20 us it waits for the host.
  const RankActivity& activity = of.model().activity[0];
  EXPECT_DOUBLE_EQ(activity.busy, 0.2);
  EXPECT_DOUBLE_EQ(activity.waiting_ranks, 0.5);
  EXPECT_DOUBLE_EQ(activity.communicating, 0.25);
  EXPECT_DOUBLE_EQ(activity.waiting_host, 0.05);
  EXPECT_DOUBLE_EQ(of.model().activity[1].busy, 0.7);
  EXPECT_DOUBLE_EQ(of.model().activity[1].waiting_ranks, 0);
}

TEST(KernelModel, ClocksOfRanksAreAlignedBeforeTimesAreCompared) {
  std::vector<RankTrace> traces;
  traces.push_back(reducing(0, 2, 100));
  traces.push_back(reducing(1, 2, 300, 850));  // its clock is 850 us ahead
  const Built of(std::move(traces));
  EXPECT_THAT(of.model().clock_offsets_ns, ElementsAre(0, 850e3));
  EXPECT_THAT(of.us("ncclDevKernel_AllReduce_Sum_f32_RING_LL 0 of rank 0"), ElementsAre(100));
  EXPECT_THAT(of.model().observed_ns, ElementsAre(400e3));
}

TEST(KernelModel, WhatACommunicationTookBeyondTheShortestOfItsKindWasWaitingForUntracedMembers) {
  TraceBuilder b(0);
  b.trace().world_size = 8;
  const CommRecord content = record(b, "allreduce", 8);
  for (int k = 0; k < 3; ++k) {
    const std::int64_t t = 1'000 * k;
    step(b, k, t, 1'000);
    b.record((t + 10) * kUs, 10 * kUs, content);
    b.launch(kAllReduce, (t + 15) * kUs, (t + 25) * kUs, (60 + 100 * k) * kUs, 20).comm = b.comm(content);
  }
  const Built of = built(b);
  EXPECT_THAT(of.us("untraced members of ncclDevKernel_AllReduce_Sum_f32_RING_LL 0 of rank 0"),
              ElementsAre(0, 100, 200));
  EXPECT_THAT(of.us("ncclDevKernel_AllReduce_Sum_f32_RING_LL 0 of rank 0"), ElementsAre(60, 60, 60));
  EXPECT_EQ(of.category("untraced members of ncclDevKernel_AllReduce_Sum_f32_RING_LL 0 of rank 0"),
            Category::Waiting);
}

TEST(KernelModel, AGroupTracedInPartJoinsThoseAndWaitsForTheRest) {
  std::vector<RankTrace> traces;
  traces.push_back(reducing(0, 4, 100));
  traces.push_back(reducing(1, 4, 300));
  const Built of(std::move(traces));
  EXPECT_THAT(of.before("untraced members of ncclDevKernel_AllReduce_Sum_f32_RING_LL 0 of rank 0"),
              ElementsAre("join of ncclDevKernel_AllReduce_Sum_f32_RING_LL 0 of rank 0"));
  // The only one of its kind, so its 100 us since the last arrival are transfer.
  EXPECT_THAT(of.us("untraced members of ncclDevKernel_AllReduce_Sum_f32_RING_LL 0 of rank 0"),
              ElementsAre(0));
  EXPECT_EQ(of.model().world_ranks, 4U);
  EXPECT_EQ(of.model().template_ranks, 2U);
}

TEST(KernelModel, ASendAndItsReceiveMeet) {
  std::vector<RankTrace> traces;
  for (int rank = 0; rank < 2; ++rank) {
    TraceBuilder b(rank);
    b.trace().world_size = 2;
    step(b, 1, 0, 1'000);
    CommRecord content = record(b, rank == 0 ? "send" : "recv", 2);
    content.source = 0;
    content.destination = 1;
    b.record(10 * kUs, 10 * kUs, content);
    b.launch("ncclDevKernel_SendRecv(x)", 15 * kUs, (30 + 50 * rank) * kUs, (100 - 50 * rank) * kUs, 20)
        .comm = b.comm(content);
    traces.push_back(b.finish());
  }
  const Built of(std::move(traces));
  EXPECT_THAT(of.us("ncclDevKernel_SendRecv 0 of rank 0"), ElementsAre(50));  // from 80 to 130
  EXPECT_THAT(of.us("ncclDevKernel_SendRecv 0 of rank 1"), ElementsAre(50));
  EXPECT_EQ(of.category("ncclDevKernel_SendRecv 0 of rank 1"), Category::PointToPoint);
}

TEST(KernelModel, ACommunicationThatAStepDidNotRunHoldsNothingUp) {
  std::vector<RankTrace> traces;
  for (int rank = 0; rank < 2; ++rank) {
    TraceBuilder b(rank);
    b.trace().world_size = 2;
    const CommRecord content = record(b, "allreduce", 2);
    for (int k = 0; k < 2; ++k) {
      step(b, k, 1'000 * k, 1'000);
      const int late = 300 * rank;  // rank 1 is behind in both steps
      launch(b, "a", 1'000 * k + 10, 1'000 * k + 20, 100 + late);
      if (k == 1) {  // only here do they meet, at 430 us
        b.record(1'015 * kUs, 10 * kUs, content);
        b.launch(kAllReduce, 1'020 * kUs, (1'130 + late) * kUs, (400 - late) * kUs, 7).comm = b.comm(content);
      }
      launch(b, "b", 1'000 * k + 30, 1'000 * k + (k == 1 ? 540 : 130 + late), 50);
    }
    traces.push_back(b.finish());
  }
  const Built of(std::move(traces));
  EXPECT_THAT(of.model().step_kinds, ElementsAre(0, 1));  // steps with other communication are never alike
  EXPECT_EQ(of.us("ncclDevKernel_AllReduce_Sum_f32_RING_LL 0 of rank 0")[0], kDidNotRunNs / 1e3);
  // Rank 0 goes on without rank 1: its second kernel follows its first, 10 us later.
  EXPECT_EQ(of.us("gap before b 0 of rank 0")[0], 10);
}

TEST(KernelModel, AnUntracedPeerOfAPipelineIsNoFurtherReplica) {
  TraceBuilder b(0);
  b.trace().world_size = 2;
  for (int k = 0; k < 2; ++k) {
    step(b, k, 1'000 * k, 1'000);
    CommRecord content = record(b, "recv", 2);
    content.source = 1;
    content.destination = 0;
    b.record((1'000 * k + 10) * kUs, 10 * kUs, content);
    b.launch("ncclDevKernel_SendRecv(x)", (1'000 * k + 15) * kUs, (1'000 * k + 30) * kUs,
             (100 + 20 * k) * kUs, 20)
        .comm = b.comm(content);
  }
  const Built of = built(b);
  for (const Node& node : of.model().nodes) EXPECT_FALSE(node.over_replicas) << node.name;
}

}  // namespace
}  // namespace prism
