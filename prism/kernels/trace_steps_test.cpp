// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/trace_steps.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trace_builder.hpp"

namespace prism {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::SizeIs;

constexpr std::int64_t kUs = 1'000;

struct Found {
  std::vector<TraceStep> steps;
  ImportReport report;
};

Found steps_of(TraceBuilder& b, const std::string& annotation = "ProfilerStep#") {
  const RankTrace trace = b.finish();
  const Launches launches = find_launches(trace);
  Found found;
  found.steps = find_trace_steps(trace, launches, find_stream_order(trace), found.report, annotation);
  return found;
}

void step(TraceBuilder& b, int number, std::int64_t start_us, std::int64_t length_us) {
  b.annotation("ProfilerStep#" + std::to_string(number), start_us * kUs, length_us * kUs);
}

/// `count` kernels of 4 us, launched every 5 us from a time on, that run 10 us after their launch.
void kernels(TraceBuilder& b, std::int64_t start_us, int count, std::int64_t lag_us = 10) {
  for (int i = 0; i < count; ++i) {
    const std::int64_t call = (start_us + 5 * i) * kUs;
    b.launch("k", call, call + lag_us * kUs, 4 * kUs);
  }
}

TEST(TraceSteps, AnOpBelongsToTheStepOfItsLaunchHoweverLateItRuns) {
  TraceBuilder b(0);
  step(b, 3, 100, 100);
  step(b, 4, 200, 100);
  kernels(b, 110, 4);       // the last ends at 110 + 15 + 10 + 4
  kernels(b, 180, 1, 150);  // runs from 330, beyond both annotations
  kernels(b, 210, 5, 200);  // the last ends at 210 + 20 + 200 + 4
  const auto [steps, report] = steps_of(b);
  ASSERT_THAT(steps, SizeIs(2));
  EXPECT_EQ(steps[0].number, 3);
  EXPECT_THAT(steps[0].gpu_ops, SizeIs(5));
  EXPECT_THAT(steps[0].calls, SizeIs(5));
  EXPECT_EQ(steps[0].previous_end_ns, std::nullopt);  // nothing ran before
  EXPECT_EQ(steps[0].begin_ns(), 100 * kUs);
  EXPECT_EQ(steps[0].end_ns, 334 * kUs);
  EXPECT_THAT(steps[1].gpu_ops, SizeIs(5));
  EXPECT_EQ(steps[1].begin_ns(), 334 * kUs);
  EXPECT_EQ(steps[1].end_ns, 434 * kUs);
  EXPECT_THAT(report.entries(), IsEmpty());
}

TEST(TraceSteps, WorkBetweenContiguousAnnotationsBelongsToTheStepBefore) {
  TraceBuilder b(0);
  step(b, 1, 100, 100);
  step(b, 2, 220, 100);  // a pause of 20 % of the step
  kernels(b, 110, 2);
  kernels(b, 205, 1);
  kernels(b, 230, 3);
  const auto [steps, report] = steps_of(b);
  ASSERT_THAT(steps, SizeIs(2));
  EXPECT_THAT(steps[0].gpu_ops, SizeIs(3));
  EXPECT_EQ(steps[1].begin_ns(), 219 * kUs);
}

TEST(TraceSteps, BacklogBoundsTheFirstStepAndBelongsToNone) {
  TraceBuilder b(0);
  b.kernel("backlog", 90 * kUs, 30 * kUs, 1);
  b.kernel("backlog of another stream", 90 * kUs, 25 * kUs, 2, 8);
  step(b, 1, 100, 100);
  kernels(b, 110, 3, 20);
  const auto [steps, report] = steps_of(b);
  ASSERT_THAT(steps, SizeIs(1));
  EXPECT_THAT(steps[0].gpu_ops, ElementsAre(2, 3, 4));
  EXPECT_THAT(steps[0].previous_end_ns, Optional(120 * kUs));
  EXPECT_THAT(report.entries(), IsEmpty());
}

TEST(TraceSteps, BacklogThatEndsBeforeTheHostBeginsDoesNotDelayTheStep) {
  TraceBuilder b(0);
  b.kernel("backlog", 50 * kUs, 30 * kUs, 1);
  step(b, 1, 100, 100);
  kernels(b, 110, 3);
  EXPECT_EQ(steps_of(b).steps[0].previous_end_ns, std::nullopt);
}

TEST(TraceSteps, OpsThatLostTheirLaunchAmidOthersAreReported) {
  TraceBuilder b(0);
  step(b, 1, 100, 100);
  kernels(b, 110, 3);
  b.kernel("lost", 150 * kUs, 4 * kUs, 0);
  const auto [steps, report] = steps_of(b);
  ASSERT_THAT(steps, SizeIs(1));
  EXPECT_THAT(steps[0].gpu_ops, SizeIs(3));
  ASSERT_THAT(report.entries(), SizeIs(1));
  EXPECT_EQ(report.entries()[0].severity, Severity::DataLoss);
  EXPECT_THAT(report.entries()[0].reason, HasSubstr("launch was not recorded"));
}

TEST(TraceSteps, AnOverlappingAnnotationIsLeftOutWhateverItsNumber) {
  TraceBuilder b(0);
  step(b, 6, 100, 100);
  step(b, 6, 110, 95);
  step(b, 6, 100, 50);
  kernels(b, 120, 2);
  const auto [steps, report] = steps_of(b);
  ASSERT_THAT(steps, SizeIs(1));
  EXPECT_THAT(steps[0].gpu_ops, SizeIs(2));
  ASSERT_THAT(report.entries(), SizeIs(1));
  EXPECT_EQ(report.entries()[0].count, 2U);
  EXPECT_THAT(report.entries()[0].reason, HasSubstr("overlap"));
}

TEST(TraceSteps, AnOverlapOfAMicrosecondIsRounding) {
  TraceBuilder b(0);
  step(b, 1, 100, 101);
  step(b, 2, 200, 100);
  kernels(b, 110, 2);
  kernels(b, 210, 2);
  const auto [steps, report] = steps_of(b);
  EXPECT_THAT(steps, SizeIs(2));
  EXPECT_THAT(report.entries(), IsEmpty());
}

TEST(TraceSteps, TwoProfilerCyclesMayRepeatNumbersAndBeginWithTheHost) {
  TraceBuilder b(0);
  for (const std::int64_t cycle : {0, 10'000}) {
    step(b, 5, cycle + 100, 100);
    step(b, 6, cycle + 200, 100);
    kernels(b, cycle + 110, 3);
    kernels(b, cycle + 210, 3);
  }
  kernels(b, 5'000, 1);  // between the cycles: in no step
  const auto [steps, report] = steps_of(b);
  ASSERT_THAT(steps, SizeIs(4));
  EXPECT_EQ(steps[2].number, 5);
  EXPECT_THAT(steps[1].gpu_ops, SizeIs(3));
  EXPECT_EQ(steps[2].begin_ns(), 10'100 * kUs);  // not when the GPU last ended, 5 ms before
  EXPECT_EQ(steps[3].begin_ns(), steps[2].end_ns);
}

TEST(TraceSteps, AStepAfterOneWithoutGpuWorkBeginsWithTheHost) {
  TraceBuilder b(0);
  step(b, 1, 100, 100);
  step(b, 2, 200, 100);
  step(b, 3, 300, 100);
  kernels(b, 110, 3);
  kernels(b, 310, 3);
  const auto [steps, report] = steps_of(b);
  ASSERT_THAT(steps, SizeIs(2));
  EXPECT_EQ(steps[1].number, 3);
  EXPECT_EQ(steps[1].begin_ns(), 300 * kUs);  // 134 us, the end of step 1, would count step 2 in
}

TEST(TraceSteps, ALastStepWithFewerThanFourFifthsOfTheOpsIsCut) {
  for (const int last : {7, 8}) {
    TraceBuilder b(0);
    step(b, 1, 100, 100);
    step(b, 2, 200, 100);
    kernels(b, 110, 10);
    kernels(b, 210, last);
    const auto [steps, report] = steps_of(b);
    EXPECT_THAT(steps, SizeIs(last == 7 ? 1 : 2));
    EXPECT_THAT(report.entries(), SizeIs(last == 7 ? 1 : 0));
  }
}

TEST(TraceSteps, WithoutAnnotationsTheWholeTraceIsOneStep) {
  TraceBuilder b(0);
  b.kernel("backlog", 90 * kUs, 5 * kUs, 0);
  kernels(b, 100, 3);
  const auto [steps, report] = steps_of(b);
  ASSERT_THAT(steps, SizeIs(1));
  EXPECT_EQ(steps[0].number, 0);
  EXPECT_THAT(steps[0].gpu_ops, SizeIs(4));
  EXPECT_EQ(steps[0].host_start_ns, 90 * kUs);
  EXPECT_EQ(steps[0].end_ns, 124 * kUs);
  ASSERT_THAT(report.entries(), SizeIs(1));
  EXPECT_EQ(report.entries()[0].severity, Severity::Info);
}

TEST(TraceSteps, OldTracesAnnotateWithOperatorsAndUsersWithTheirOwnNames) {
  for (const std::string annotation : {"ProfilerStep#", "train "}) {
    TraceBuilder b(0);
    b.cpu_op("ProfilerStep#9", 100 * kUs, 100 * kUs);
    b.cpu_op("train 10", 200 * kUs, 100 * kUs);
    kernels(b, 110, 3);
    kernels(b, 210, 3);
    const auto [steps, report] = steps_of(b, annotation);
    ASSERT_THAT(steps, SizeIs(1));
    EXPECT_EQ(steps[0].number, annotation == "train " ? 10 : 9);
  }
}

TEST(TraceSteps, LaunchesOfOtherThreadsCountByTime) {
  TraceBuilder b(0);
  step(b, 1, 100, 100);
  b.launch("backward", 150 * kUs, 160 * kUs, 4 * kUs, 7, "autograd");
  EXPECT_THAT(steps_of(b).steps[0].gpu_ops, SizeIs(1));
}

TEST(TraceSteps, NoGpuWorkMeansNoStep) {
  TraceBuilder b(0);
  step(b, 1, 100, 100);
  EXPECT_THAT(steps_of(b).steps, IsEmpty());
}

}  // namespace
}  // namespace prism
