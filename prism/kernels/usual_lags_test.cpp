// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/usual_lags.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trace_builder.hpp"

namespace prism {
namespace {

constexpr std::int64_t kUs = 1'000;

struct Measured {
  RankTrace trace;
  StreamOrder streams;
  UsualLags lags;
};

Measured measure(TraceBuilder& b) {
  Measured result{b.finish(), {}, {}};
  result.streams = find_stream_order(result.trace);
  result.lags = measure_usual_lags(result.trace, find_launches(result.trace), result.streams);
  return result;
}

TEST(StreamOrder, StreamsAreToldByDeviceAndNumberAndOrderedByStart) {
  TraceBuilder b(0);
  b.kernel("b", 20, 5, 0, 7);
  b.kernel("a", 10, 5, 0, 7);
  b.kernel("other stream", 15, 5, 0, 0);
  b.kernel("other device", 12, 5, 0, 7).device = 1;
  const RankTrace trace = b.finish();  // a, other device, other stream, b
  const StreamOrder order = find_stream_order(trace);
  ASSERT_THAT(order.streams, ::testing::ElementsAre(StreamKey{0, 0}, StreamKey{0, 7}, StreamKey{1, 7}));
  EXPECT_THAT(order.stream_of, ::testing::ElementsAre(1, 2, 0, 1));
  EXPECT_THAT(order.ops[1], ::testing::ElementsAre(0, 3));
  EXPECT_EQ(order.previous[0], std::nullopt);
  EXPECT_EQ(order.previous[3], 0U);
}

TEST(UsualLags, LaunchLatencyIsTheShortestOnAnIdleStreamOfEachCall) {
  TraceBuilder b(0);
  for (int i = 0; i < 10; ++i) {  // 100 us apart, so the stream is idle: lags of 6, 7, ..., 15 us
    b.launch("k", 100 * i * kUs, (100 * i + 6 + i) * kUs, 4 * kUs);
  }
  for (int i = 0; i < 3; ++i) {  // too few of their name: that of all counts
    b.call("cudaGraphLaunch", (2'000 + 100 * i) * kUs, 2 * kUs, i + 1);
    b.kernel("g", (2'000 + 100 * i + 3) * kUs, 4 * kUs, i + 1);
  }
  const Measured m = measure(b);
  EXPECT_EQ(m.lags.launch(m.trace.calls[0].name), 6 * kUs);
  EXPECT_EQ(m.lags.launch(m.trace.calls.back().name), 3 * kUs);
  EXPECT_EQ(m.lags.any_launch_ns, 3 * kUs);
}

TEST(UsualLags, ALaunchThatClocksPutAfterItsKernelTakesNoTime) {
  TraceBuilder b(0);
  for (int i = 0; i < 10; ++i) b.launch("k", 100 * i * kUs, 100 * i * kUs - 500, 4 * kUs);
  const Measured m = measure(b);
  EXPECT_EQ(m.lags.any_launch_ns, 0);
}

TEST(UsualLags, OpsThatQueuedShowTheGapAndNotTheLatency) {
  TraceBuilder b(0);
  b.launch("long", 0, 6 * kUs, 300 * kUs);
  // Queued behind it: they start at 307, 327, ..., each 1 us after the end before.
  for (int i = 0; i < 9; ++i) b.launch("k", (10 + i) * kUs, (307 + 20 * i) * kUs, 19 * kUs);
  const Measured m = measure(b);
  EXPECT_EQ(m.lags.gap_ns, 1 * kUs);
  EXPECT_EQ(m.lags.any_launch_ns, 5 * kUs);  // one launch on an idle stream is too few to measure
}

TEST(UsualLags, GapsAreNegativeWhenKernelsStartBeforeTheOneBeforeEnds) {
  TraceBuilder b(0);
  b.launch("long", 0, 6 * kUs, 300 * kUs);
  for (int i = 0; i < 9; ++i) b.launch("k", (10 + i) * kUs, (305 + 19 * i) * kUs, 20 * kUs);
  EXPECT_EQ(measure(b).lags.gap_ns, -1 * kUs);
}

TEST(UsualLags, WithoutLaunchesTheLatencyIsThatOfOtherDevices) {
  TraceBuilder b(0);
  b.kernel("k", 0, 10, 0);
  const Measured m = measure(b);
  EXPECT_EQ(m.lags.gap_ns, 0);
  EXPECT_EQ(m.lags.any_launch_ns, 5 * kUs);
}

}  // namespace
}  // namespace prism
