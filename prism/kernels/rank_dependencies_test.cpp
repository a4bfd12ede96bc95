// SPDX-License-Identifier: Apache-2.0
// Each rule on the smallest trace that shows it. Ops and calls are named; edges read "before -> after".
#include "prism/kernels/rank_dependencies.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trace_builder.hpp"

namespace prism {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

constexpr std::int64_t kUs = 1'000;

class Found {
 public:
  explicit Found(TraceBuilder& b) : trace_(b.finish()) {
    launches_ = find_launches(trace_);
    streams_ = find_stream_order(trace_);
    communication_ = find_communication(trace_, launches_);
    lags_ = measure_usual_lags(trace_, launches_, streams_);
    dependencies_ = find_dependencies(trace_, launches_, streams_, communication_, lags_);
  }

  /// "a -> b" of all edges of a kind. The end of a blocking call reads "call!".
  [[nodiscard]] std::vector<std::string> edges(DependencyKind kind) const {
    std::vector<std::string> result;
    for (const Dependency& edge : dependencies_.edges) {
      if (edge.kind == kind) result.push_back(name(edge.before) + " -> " + name(edge.after));
    }
    return result;
  }
  [[nodiscard]] std::size_t contradicted(DependencyKind kind) const {
    return dependencies_.contradicted[static_cast<std::size_t>(kind)];
  }

 private:
  [[nodiscard]] std::string name(std::uint32_t activity) const {
    if (dependencies_.is_gpu_op(activity)) return trace_.name(trace_.gpu_ops[activity].name);
    const std::uint32_t call = dependencies_.call_of(activity);
    const bool is_end = activity == dependencies_.call_end(call);
    return trace_.name(trace_.calls[call].name) + (is_end ? "!" : "");
  }

  RankTrace trace_;
  Launches launches_;
  StreamOrder streams_;
  RankCommunication communication_;
  UsualLags lags_;
  RankDependencies dependencies_;
};

/// A kernel and its launch call, named "launch NAME".
GpuOp& launch(TraceBuilder& b, const std::string& name, std::int64_t call_us, std::int64_t start_us,
              std::int64_t length_us, std::uint64_t stream = 7, const std::string& thread = "1") {
  GpuOp& op = b.launch(name, call_us * kUs, start_us * kUs, length_us * kUs, stream, thread);
  b.trace().calls.back().name = b.name("launch " + name);
  return op;
}

/// A collective: its host record, its launch and its kernel on stream 20.
void collective(TraceBuilder& b, const std::string& name, std::int64_t issue_us, std::int64_t start_us,
                std::int64_t length_us) {
  CommRecord record;
  record.collective = b.name("allreduce");
  record.group = b.name("0");
  record.in_elements = record.out_elements = 100;
  record.group_size = 2;
  b.record(issue_us * kUs, 10 * kUs, record);
  launch(b, "nccl " + name, issue_us + 5, start_us, length_us, 20).comm = b.comm(record);
}

void stream_wait(TraceBuilder& b, std::int64_t at_us, const std::string& thread = "1") {
  b.call(HostCallKind::StreamWait, "wait event", at_us * kUs, kUs, thread);
}

// ---- order ----------------------------------------------------------------------------------------------

TEST(RankDependencies, OpsFollowTheirLaunchAndTheirStream) {
  TraceBuilder b(0);
  launch(b, "a", 0, 10, 5);
  launch(b, "b", 3, 16, 5);
  launch(b, "c", 6, 12, 5, 8);
  const Found found(b);
  EXPECT_THAT(found.edges(DependencyKind::Launch),
              UnorderedElementsAre("launch a -> a", "launch b -> b", "launch c -> c"));
  EXPECT_THAT(found.edges(DependencyKind::Stream), ElementsAre("a -> b"));
  EXPECT_THAT(found.edges(DependencyKind::Host), ElementsAre("launch a -> launch b", "launch b -> launch c"));
}

TEST(RankDependencies, AllOpsOfAGraphDependOnItsLaunchAndOnTheirStreams) {
  TraceBuilder b(0);
  b.call("graph launch", 0, 5 * kUs, 1);
  b.kernel("g0", 10 * kUs, 4 * kUs, 1, 7);
  b.kernel("g1", 14 * kUs, 4 * kUs, 1, 8);
  b.kernel("g2", 18 * kUs, 4 * kUs, 1, 7);
  const Found found(b);
  EXPECT_THAT(found.edges(DependencyKind::Launch),
              ElementsAre("graph launch -> g0", "graph launch -> g1", "graph launch -> g2"));
  EXPECT_THAT(found.edges(DependencyKind::Stream), ElementsAre("g0 -> g2"));
}

TEST(RankDependencies, AThreadThatBeginsAfterAnotherFellSilentWasWokenByIt) {
  TraceBuilder b(0);
  launch(b, "forward", 0, 10, 5);
  launch(b, "backward 0", 20, 30, 5, 7, "autograd");
  launch(b, "backward 1", 25, 40, 5, 7, "autograd");
  launch(b, "optimizer", 40, 50, 5);
  const Found found(b);
  EXPECT_THAT(found.edges(DependencyKind::Handoff),
              ElementsAre("launch forward -> launch backward 0", "launch backward 1 -> launch optimizer"));
  EXPECT_THAT(
      found.edges(DependencyKind::Host),
      UnorderedElementsAre("launch backward 0 -> launch backward 1", "launch forward -> launch optimizer"));
}

TEST(RankDependencies, CallsThatOverlapRunSideBySide) {
  TraceBuilder b(0);
  launch(b, "a", 0, 10, 5);
  launch(b, "b", 1, 30, 5, 7, "other");  // the first call takes 2 us
  EXPECT_THAT(Found(b).edges(DependencyKind::Handoff), IsEmpty());
}

// ---- blocking calls -------------------------------------------------------------------------------------

TEST(RankDependencies, AStreamSyncWithoutRecordWaitsForTheOpThatEndedLastBeforeItsReturn) {
  TraceBuilder b(0);
  launch(b, "a", 0, 10, 40);
  launch(b, "long", 3, 12, 200, 8);
  b.call(HostCallKind::StreamSync, "sync", 6 * kUs, 47 * kUs);  // returns at 53
  launch(b, "after", 60, 70, 5);
  const Found found(b);
  EXPECT_THAT(found.edges(DependencyKind::HostWait), ElementsAre("a -> sync!"));
  EXPECT_THAT(found.edges(DependencyKind::Host), IsSupersetOf({"sync -> sync!", "sync! -> launch after"}));
}

TEST(RankDependencies, AStreamSyncWithRecordWaitsForTheLastOpOfThatStreamOfThatDevice) {
  TraceBuilder b(0);
  launch(b, "a", 0, 10, 40);
  launch(b, "b", 2, 12, 39, 8);
  launch(b, "b of another device", 4, 12, 40, 8).device = 1;
  const std::int64_t correlation = b.call(HostCallKind::StreamSync, "sync", 6 * kUs, 47 * kUs);
  SyncRecord record{.start_ns = 6 * kUs, .duration_ns = 47 * kUs, .correlation = correlation};
  record.stream = 8;
  record.device = 0;
  b.sync(record);
  EXPECT_THAT(Found(b).edges(DependencyKind::HostWait), ElementsAre("b -> sync!"));
}

TEST(RankDependencies, ADeviceSyncWaitsForTheLastOpOfEveryStream) {
  TraceBuilder b(0);
  launch(b, "a", 0, 10, 40);
  launch(b, "b", 2, 12, 30, 8);
  launch(b, "ended before", 4, 5, 1, 9);
  b.call(HostCallKind::DeviceSync, "sync", 8 * kUs, 47 * kUs);
  EXPECT_THAT(Found(b).edges(DependencyKind::HostWait), UnorderedElementsAre("a -> sync!", "b -> sync!"));
}

TEST(RankDependencies, ASyncThatHadNothingToWaitForDoesNotBlock) {
  TraceBuilder b(0);
  launch(b, "a", 0, 10, 5);
  b.call(HostCallKind::EventSync, "sync", 40 * kUs, 2 * kUs);
  launch(b, "later", 60, 70, 5);
  const Found found(b);
  EXPECT_THAT(found.edges(DependencyKind::HostWait), IsEmpty());
  EXPECT_THAT(found.edges(DependencyKind::Host), ElementsAre("launch a -> sync", "sync -> launch later"));
}

TEST(RankDependencies, ASyncDoesNotWaitForWhatIsLaunchedLater) {
  TraceBuilder b(0);
  launch(b, "a", 0, 10, 20);
  b.call(HostCallKind::EventSync, "sync", 5 * kUs, 30 * kUs);  // returns at 35
  launch(b, "other thread's", 8, 12, 22, 8, "other");          // ends at 34
  EXPECT_THAT(Found(b).edges(DependencyKind::HostWait), ElementsAre("a -> sync!"));
}

TEST(RankDependencies, ACopyWhoseCallReturnsWhenItIsDoneBlocks) {
  for (const std::int64_t length_us : {25, 12, 90}) {
    TraceBuilder b(0);
    b.call("copy", 0, length_us * kUs, 1);
    b.kernel("Memcpy DtoH", 8 * kUs, 12 * kUs, 1).kind = GpuOpKind::Memcpy;  // ends at 20
    launch(b, "next", 100, 110, 5);
    const Found found(b);
    // At 25 it woke up; at 12 the call had not waited; at 90 it did something else for 70 us.
    EXPECT_THAT(found.edges(DependencyKind::HostWait), length_us == 25
                                                           ? std::vector<std::string>{"Memcpy DtoH -> copy!"}
                                                           : std::vector<std::string>{});
  }
}

TEST(RankDependencies, ALaunchThatFoundTheQueueFullWaitsForTheOpThatMadeRoom) {
  TraceBuilder b(0);
  constexpr int kQueued = 520;
  constexpr std::int64_t kKernel = 100;
  for (int i = 0; i < kQueued; ++i) launch(b, "k" + std::to_string(i), 2 * i, 2000 + kKernel * i, kKernel);
  // By 1,040 us all are launched and none has started. This call returns 5 us after k1 began, so when k0 had ended.
  b.call("full", 1'040 * kUs, (2'105 - 1'040) * kUs, 1);
  b.kernel("late", (2000 + kKernel * kQueued) * kUs, kKernel * kUs, 1);
  launch(b, "next", 2'110, 2000 + kKernel * (kQueued + 1), kKernel);
  const Found found(b);
  EXPECT_THAT(found.edges(DependencyKind::QueueFull), ElementsAre("k0 -> full!"));
  EXPECT_THAT(found.edges(DependencyKind::Launch), Contains("full! -> late"));
  EXPECT_THAT(found.edges(DependencyKind::Host), Contains("full! -> launch next"));
}

TEST(RankDependencies, ALongLaunchWithRoomInTheQueueIsNotBlocked) {
  TraceBuilder b(0);
  launch(b, "k0", 0, 10, 100);
  launch(b, "k1", 3, 110, 100);
  b.call("module load", 6 * kUs, 109 * kUs, 1);  // returns 5 us after k1 began
  b.kernel("late", 215 * kUs, 5 * kUs, 1);
  EXPECT_THAT(Found(b).edges(DependencyKind::QueueFull), IsEmpty());
}

// ---- waits of streams -----------------------------------------------------------------------------------

/// Two streams: "a" and "a2" on 7, "b" on 8 after a wait on 8 for an event recorded on 7 between the two.
struct Waiting {
  TraceBuilder b{0};
  SyncRecord record;

  Waiting() {
    launch(b, "a", 0, 10, 50);
    record.event_correlation = b.call(HostCallKind::EventRecord, "record", 3 * kUs, kUs);
    launch(b, "a2", 5, 60, 50);
    record.correlation = b.call(HostCallKind::StreamWait, "wait event", 8 * kUs, kUs);
    launch(b, "b", 10, 62, 5, 8);
    record.kind = SyncRecord::Kind::StreamWait;
    record.start_ns = 8 * kUs;
    record.stream = 8;
    record.awaited_stream = 7;
    record.device = 0;
  }
};

TEST(RankDependencies, ARecordedWaitIsForTheLastOpLaunchedBeforeItsEvent) {
  Waiting w;
  w.b.sync(w.record);
  EXPECT_THAT(Found(w.b).edges(DependencyKind::RecordedWait), ElementsAre("a -> b"));
}

TEST(RankDependencies, ARecordedWaitMeansStreamsOfItsDevice) {
  Waiting w;
  launch(w.b, "a of another device", 2, 10, 1).device = 1;
  launch(w.b, "b of another device", 9, 100, 1, 8).device = 1;
  w.record.device = 1;
  w.b.sync(w.record);
  EXPECT_THAT(Found(w.b).edges(DependencyKind::RecordedWait),
              ElementsAre("a of another device -> b of another device"));
}

TEST(RankDependencies, AWaitForAnEventThatWasNotRecordedSaysNothing) {
  Waiting w;
  w.record.event_correlation = -1;
  w.b.call("cudaEventRecord", 0, kUs, -1).kind = HostCallKind::EventRecord;  // has none either
  w.b.sync(w.record);
  EXPECT_THAT(Found(w.b).edges(DependencyKind::RecordedWait), IsEmpty());
}

TEST(RankDependencies, ARecordedWaitThatTimesRuleOutIsDroppedAndCounted) {
  Waiting w;
  for (GpuOp& op : w.b.trace().gpu_ops) {
    if (op.stream == 8) op.start_ns = 40 * kUs;  // a runs until 60
  }
  w.b.sync(w.record);
  const Found found(w.b);
  EXPECT_THAT(found.edges(DependencyKind::RecordedWait), IsEmpty());
  EXPECT_EQ(found.contradicted(DependencyKind::RecordedWait), 1U);
}

TEST(RankDependencies, ACollectiveFollowsWhatWasLaunchedBeforeItWasIssued) {
  TraceBuilder b(0);
  launch(b, "gradient", 0, 10, 50);
  collective(b, "reduce", 10, 62, 30);
  launch(b, "after", 30, 64, 5);
  launch(b, "other device", 2, 10, 500, 9).device = 1;
  const Found found(b);
  EXPECT_THAT(found.edges(DependencyKind::Entry), ElementsAre("gradient -> nccl reduce"));
}

TEST(RankDependencies, AnEntryThatTimesRuleOutIsDroppedAndCounted) {
  for (const std::int64_t overlap_us : {1, 2}) {  // a microsecond is clock jitter
    TraceBuilder b(0);
    launch(b, "gradient", 0, 10, 50);
    collective(b, "reduce", 10, 60 - overlap_us, 30);
    const Found found(b);
    EXPECT_THAT(found.edges(DependencyKind::Entry), ::testing::SizeIs(overlap_us == 1 ? 1 : 0));
    EXPECT_EQ(found.contradicted(DependencyKind::Entry), overlap_us == 1 ? 0U : 1U);
  }
}

TEST(RankDependencies, AfterAStreamWaitComputeFollowsTheNewestCollectiveThatHadEnded) {
  TraceBuilder b(0);
  launch(b, "gradient", 0, 10, 50);
  collective(b, "first", 10, 62, 30);    // ends at 92
  collective(b, "second", 30, 92, 100);  // still runs when the next op starts: asynchronous use
  stream_wait(b, 50);
  launch(b, "next", 55, 94, 5);
  launch(b, "further", 60, 99, 5);
  EXPECT_THAT(Found(b).edges(DependencyKind::Exit), ElementsAre("nccl first -> next"));
}

TEST(RankDependencies, AStreamWaitThatIsPartOfIssuingACollectiveIsNoExit) {
  TraceBuilder b(0);
  launch(b, "gradient", 0, 10, 10);
  collective(b, "first", 10, 30, 30);
  stream_wait(b, 71);  // the record of the second spans 70 to 80
  collective(b, "second", 70, 90, 30);
  launch(b, "next", 85, 95, 5);
  EXPECT_THAT(Found(b).edges(DependencyKind::Exit), IsEmpty());
}

TEST(RankDependencies, AnExitStaysOnItsDeviceAndItsThread) {
  TraceBuilder b(0);
  collective(b, "reduce", 10, 30, 30);
  stream_wait(b, 50);
  launch(b, "other device", 55, 70, 5).device = 1;
  launch(b, "other thread", 52, 80, 5, 7, "2");
  EXPECT_THAT(Found(b).edges(DependencyKind::Exit), IsEmpty());
}

TEST(RankDependencies, ALaunchThatOwnsNoOpDoesNotMatterToAStreamWait) {
  TraceBuilder b(0);
  collective(b, "reduce", 10, 30, 30);
  stream_wait(b, 50);
  b.call("launch without op", 52 * kUs, kUs, 99);
  launch(b, "next", 55, 94, 5);
  EXPECT_THAT(Found(b).edges(DependencyKind::Exit), ElementsAre("nccl reduce -> next"));
}

/// "late" is launched at 20 us on an idle stream and starts at 130 us, when "other" has just ended.
TraceBuilder late_start(std::int64_t other_end_us) {
  TraceBuilder b(0);
  for (int i = 0; i < 10; ++i)
    launch(b, "idle" + std::to_string(i), -2'000 + 100 * i, -1'992 + 100 * i, 5, 9);
  launch(b, "other", 5, 30, other_end_us - 30, 8);
  launch(b, "late", 20, 130, 5);
  return b;
}

TEST(RankDependencies, AnUnexplainedStartRightAfterAnEndElsewhereDependsOnIt) {
  TraceBuilder b = late_start(128);
  EXPECT_THAT(Found(b).edges(DependencyKind::Residual), ElementsAre("other -> late"));
}

TEST(RankDependencies, AnEndLongBeforeOrAfterExplainsNothing) {
  for (const std::int64_t end_us : {105, 135}) {
    TraceBuilder b = late_start(end_us);
    EXPECT_THAT(Found(b).edges(DependencyKind::Residual), IsEmpty()) << end_us;
  }
}

TEST(RankDependencies, AStartThatLaunchAndStreamExplainNeedsNoMore) {
  TraceBuilder b(0);
  launch(b, "other", 0, 10, 100, 8);
  launch(b, "before", 2, 12, 99);
  launch(b, "next", 5, 111, 5);  // right after both
  EXPECT_THAT(Found(b).edges(DependencyKind::Residual), IsEmpty());
}

TEST(RankDependencies, EveryKindHasAName) {
  for (std::size_t k = 0; k < kDependencyKindCount; ++k) {
    EXPECT_THAT(dependency_name(static_cast<DependencyKind>(k)), Not(IsEmpty()));
  }
}

}  // namespace
}  // namespace prism
