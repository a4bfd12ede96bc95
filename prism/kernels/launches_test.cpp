// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/launches.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/trace_builder.hpp"

namespace prism {
namespace {

std::string operator_name(const RankTrace& trace, const Launches& launches, std::size_t op) {
  return launches.operator_of[op] ? trace.name(trace.cpu_ops[*launches.operator_of[op]].name) : "none";
}

TEST(Launches, OneCallOwnsAllOpsOfItsGraphAndTheBacklogOwnsNone) {
  TraceBuilder b(0);
  b.call("cudaGraphLaunch", 1000, 50, 45);
  b.kernel("backlog", 900, 50, 44);
  for (int i = 0; i < 12; ++i) b.kernel("k", 1100 + 10 * i, 5, 45, static_cast<std::uint64_t>(7 + i % 2));
  b.kernel("none", 2000, 5, 0);
  b.kernel("none", 2010, 5, -1);
  const RankTrace trace = b.finish();
  const Launches launches = find_launches(trace);
  EXPECT_EQ(launches.without_launch, 3U);
  EXPECT_FALSE(launches.call_of[0]);
  for (std::size_t i = 1; i <= 12; ++i) EXPECT_EQ(launches.call_of[i], 0U) << i;
  EXPECT_FALSE(launches.call_of[13]);
  EXPECT_FALSE(launches.call_of[14]);
}

TEST(Launches, OfEqualCorrelationsTheLastCallBeforeTheOpCounts) {
  TraceBuilder b(0);
  b.call("hipLaunchKernel", 1'000, 5'000, 9);
  b.call("hipLaunchKernel", 100'000, 5'000, 9);
  b.call("hipLaunchKernel", 500'000, 5'000, 9);
  b.kernel("early", 10'000, 10, 9);
  b.kernel("late", 120'000, 10, 9);
  b.kernel("jitter", 499'500, 10, 9);  // half a microsecond before its call: clock jitter
  const RankTrace trace = b.finish();
  const Launches launches = find_launches(trace);
  EXPECT_EQ(launches.call_of[0], 0U);
  EXPECT_EQ(launches.call_of[1], 1U);
  EXPECT_EQ(launches.call_of[2], 2U);
  EXPECT_EQ(launches.started_before_launch, 0U);
}

TEST(Launches, AnOpThatStartsLongBeforeItsOnlyLaunchKeepsItAndIsCounted) {
  TraceBuilder b(0);
  b.call("hipLaunchKernel", 100'000, 5'000, 9);
  b.kernel("k", 50'000, 10, 9);
  const RankTrace trace = b.finish();
  const Launches launches = find_launches(trace);
  EXPECT_EQ(launches.call_of[0], 0U);
  EXPECT_EQ(launches.started_before_launch, 1U);
}

TEST(Launches, TheInnermostOperatorOfTheThreadLabels) {
  TraceBuilder b(0);
  b.cpu_op("outer", 0, 100'000);
  b.cpu_op("inner", 10'000, 20'000);
  b.cpu_op("other thread", 10'000, 20'000, "2");
  b.call("cudaLaunchKernel", 15'000, 5'000, 1);
  b.call("cudaLaunchKernel", 40'000, 5'000, 2);
  b.call("cudaLaunchKernel", 200'000, 5'000, 3);
  b.call("cudaLaunchKernel", 12'000, 5'000, 4, "2");
  for (int i = 1; i <= 4; ++i) b.kernel("k", 300'000 + i, 1, i);
  const RankTrace trace = b.finish();
  const Launches launches = find_launches(trace);
  EXPECT_EQ(operator_name(trace, launches, 0), "inner");
  EXPECT_EQ(operator_name(trace, launches, 1), "outer");
  EXPECT_EQ(operator_name(trace, launches, 2), "none");
  EXPECT_EQ(operator_name(trace, launches, 3), "other thread");
}

TEST(Launches, RangesThatCrossByAMicrosecondStillLabel) {
  // The child ends a microsecond after its parent; the launch begins a microsecond before the operator that made it.
  TraceBuilder b(0);
  b.cpu_op("parent", 0, 50'000);
  b.cpu_op("child", 30'000, 21'000);
  b.cpu_op("next", 61'000, 20'000);
  b.call("cudaLaunchKernel", 45'000, 5'500, 1);
  b.call("cudaLaunchKernel", 60'000, 5'000, 2);
  b.kernel("k", 100'000, 1, 1);
  b.kernel("k", 100'001, 1, 2);
  const RankTrace trace = b.finish();
  const Launches launches = find_launches(trace);
  EXPECT_EQ(operator_name(trace, launches, 0), "child");
  EXPECT_EQ(operator_name(trace, launches, 1), "next");
}

TEST(Launches, OfOperatorsWithOneStartTheShorterIsInner) {
  TraceBuilder b(0);
  b.cpu_op("short", 1'000, 5'000);
  b.cpu_op("long", 1'000, 9'000);
  b.call("cudaLaunchKernel", 1'000, 1'000, 1);
  b.kernel("k", 100'000, 1, 1);
  const RankTrace trace = b.finish();
  EXPECT_EQ(operator_name(trace, find_launches(trace), 0), "short");
}

// Nested ranges on two threads against the definition: of all ranges of the thread that contain the middle of the
// launch, the one that starts last (of equals the shortest).
RC_GTEST_PROP(Launches, TheSweepFindsWhatTheDefinitionSays, ()) {
  TraceBuilder b(0);
  const int thread_count = *rc::gen::inRange(1, 3);
  for (int t = 0; t < thread_count; ++t) {
    const std::string thread = std::to_string(t);
    // Ranges that nest: split a range into a random part of itself, again and again.
    std::int64_t at = *rc::gen::inRange(0, 100);
    for (int tree = *rc::gen::inRange(0, 5); tree > 0; --tree) {
      std::int64_t begin = at;
      std::int64_t length = 1000;
      while (length > 10) {
        b.cpu_op("op", begin, length, thread);
        begin += *rc::gen::inRange<std::int64_t>(0, length / 2);
        length = *rc::gen::inRange<std::int64_t>(1, length / 2);
      }
      at += 1000 + *rc::gen::inRange(0, 50);
    }
    for (int i = *rc::gen::inRange(0, 20); i > 0; --i) {
      const int correlation = t * 100 + i;
      b.call("launch", *rc::gen::inRange(0, 5000), *rc::gen::inRange(0, 40), correlation, thread);
      b.kernel("k", 10'000, 1, correlation);
    }
  }
  const RankTrace trace = b.finish();
  const Launches launches = find_launches(trace);
  for (std::size_t op = 0; op < trace.gpu_ops.size(); ++op) {
    RC_ASSERT(launches.call_of[op].has_value());
    const HostCall& call = trace.calls[*launches.call_of[op]];
    RC_ASSERT(call.correlation == trace.gpu_ops[op].correlation);
    const std::int64_t middle = call.start_ns + call.duration_ns / 2;
    const CpuOp* expected = nullptr;
    for (const CpuOp& range : trace.cpu_ops) {
      if (range.thread != call.thread || range.start_ns > middle || range.end_ns() < middle) continue;
      const bool is_inner =
          expected == nullptr || range.start_ns > expected->start_ns ||
          (range.start_ns == expected->start_ns && range.duration_ns <= expected->duration_ns);
      if (is_inner) expected = &range;
    }
    RC_ASSERT(launches.operator_of[op].has_value() == (expected != nullptr));
    if (expected == nullptr) continue;
    const CpuOp& found = trace.cpu_ops[*launches.operator_of[op]];
    RC_ASSERT(found.start_ns == expected->start_ns);
    RC_ASSERT(found.duration_ns == expected->duration_ns);
  }
}

}  // namespace
}  // namespace prism
