// SPDX-License-Identifier: Apache-2.0
// What schedules take when communication is free, what they hold, and where they get stuck.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "prism/plan/schedule.hpp"
#include "prism/trace/error.hpp"

namespace prism {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

ScheduleTimes timed(ScheduleKind kind, std::int64_t p, std::int64_t m, std::int64_t chunks,
                    const PassCosts& costs = {}) {
  ScheduleChoice choice;
  choice.kind = kind;
  choice.chunks = chunks;
  return time_schedule(make_schedule(choice, p, m, "plan"), costs, "plan");
}

void check_makespan(const ScheduleTimes& times, double expected) {
  RC_LOG() << "makespan " << times.makespan << ", expected " << expected << "\n";
  RC_ASSERT(std::abs(times.makespan - expected) < 1e-9 * expected);
}

PassCosts any_costs() {
  return {static_cast<double>(*rc::gen::inRange(1, 9)), static_cast<double>(*rc::gen::inRange(1, 9)),
          static_cast<double>(*rc::gen::inRange(1, 9))};
}

RC_GTEST_PROP(TimeScheduleProperty, OneWaySchedulesTakeTheirClosedForms, ()) {
  const auto p = *rc::gen::inRange<std::int64_t>(1, 17);
  const auto m = *rc::gen::inRange<std::int64_t>(1, 65);
  const PassCosts costs = any_costs();
  const double pass = costs.forward + costs.backward_input + costs.backward_weight;
  check_makespan(timed(ScheduleKind::GPipe, p, m, 1, costs), static_cast<double>(m + p - 1) * pass);
  check_makespan(timed(ScheduleKind::OneForwardOneBackward, p, m, 1, costs),
                 static_cast<double>(m + p - 1) * pass);
  const auto v = *rc::gen::inRange<std::int64_t>(2, 7);
  const std::int64_t whole = p * (1 + m / p);
  check_makespan(
      timed(ScheduleKind::Interleaved, p, whole, v, costs),
      static_cast<double>(whole) * pass + static_cast<double>(p - 1) * pass / static_cast<double>(v));
}

// The published bubbles of the schedules below are those of F = I = W; other costs leave gaps that no closed
// form here describes.
RC_GTEST_PROP(TimeScheduleProperty, TwoWaySchedulesTakeTheirClosedFormsWhereAllPassesCostTheSame, ()) {
  const auto p = *rc::gen::inRange<std::int64_t>(1, 17);
  const auto m = *rc::gen::inRange<std::int64_t>(2 * p, 2 * p + 33);
  const double unit = *rc::gen::inRange(1, 9);
  const PassCosts costs{unit, unit, unit};
  const auto work = 3 * unit * static_cast<double>(m);
  check_makespan(timed(ScheduleKind::ZeroBubbleV, p, m, 2, costs),
                 work + static_cast<double>(p - 1) * unit / 2);
  // (p - 1) (F&B + B - 3W) of half-stage costs: F&B = 3, B = 2, 3W = 3.
  check_makespan(timed(ScheduleKind::DualPipeV, p, m, 2, costs),
                 work + static_cast<double>(p - 1) * 2 * unit / 2);
  const std::int64_t even = p + p % 2;
  const std::int64_t pairs = 2 * even + 2 * (m / 2);
  check_makespan(timed(ScheduleKind::DualPipe, even, pairs, 1, costs),
                 3 * unit * static_cast<double>(pairs) + static_cast<double>(even / 2 - 1) * 2 * unit);
}

RC_GTEST_PROP(TimeScheduleProperty, ForwardsAliveAreThoseOfTheClosedForms, ()) {
  const auto p = *rc::gen::inRange<std::int32_t>(1, 17);
  const auto m = *rc::gen::inRange<std::int32_t>(2 * p, 2 * p + 33);
  const auto one = timed(ScheduleKind::OneForwardOneBackward, p, m, 1).most_alive;
  const auto interleaved = timed(ScheduleKind::Interleaved, p, std::int64_t{p} * (2 + m / p), 3).most_alive;
  for (std::int32_t r = 0; r < p; ++r) {
    RC_ASSERT(one[static_cast<std::size_t>(r)] == p - r);
    RC_ASSERT(interleaved[static_cast<std::size_t>(r)] == 2 * (p - 1 - r) + 2 * p + 1);
  }
  const auto all = [](const std::vector<std::int32_t>& found, std::int32_t expected) {
    return std::ranges::all_of(found, [&](std::int32_t n) { return n == expected; });
  };
  RC_ASSERT(all(timed(ScheduleKind::GPipe, p, m, 1).most_alive, m));
  RC_ASSERT(all(timed(ScheduleKind::ZeroBubbleH1, p, m, 1).most_alive, p));
  RC_ASSERT(all(timed(ScheduleKind::ZeroBubbleV, p, m, 2).most_alive, 2 * p));
  // The overlapped forward stands beside the backward that frees its place.
  RC_ASSERT(all(timed(ScheduleKind::DualPipeV, p, m, 2).most_alive, 2 * p + 1));
  const std::int32_t even = p + p % 2;
  RC_ASSERT(all(timed(ScheduleKind::DualPipe, even, 2 * even + 2 * (m / 2), 1).most_alive, even + 1));
}

TEST(TimeSchedule, StartsAndIdleTimesAreThoseOfTheDrawing) {
  // 1F1B on two ranks, F = 1, B = 2:
  //   rank 0  F0 F1 .  B0 B0 .  B1 B1
  //   rank 1  .  F0 B0 B0 F1 B1 B1 .
  // Rank 0 starts B0 at 4 and B1 at 7.
  const ScheduleTimes times = timed(ScheduleKind::OneForwardOneBackward, 2, 2, 1);
  EXPECT_THAT(times.start[0], testing::ElementsAre(0, 1, 4, 7));
  EXPECT_THAT(times.start[1], testing::ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(times.idle, testing::ElementsAre(3, 3));
  EXPECT_EQ(times.makespan, 9);
}

TEST(TimeSchedule, TimeGrowsWithThePassesOfALongPipelineOnly) {
  // Backwards go up the ranks one by one; a pass over all ranks for each would never end.
  EXPECT_EQ(timed(ScheduleKind::OneForwardOneBackward, 1 << 16, 1, 1).makespan, 3.0 * (1 << 16));
}

std::string deadlock(const std::string& csv) {
  try {
    parse_schedule_table(csv, "table.csv");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(TimeSchedule, DeadlocksNameTheCircleAndNothingElse) {
  // Rank 0 waits for rank 1, which is stuck behind its own order.
  EXPECT_THAT(
      deadlock("0F0,0B0\n2F0,1F0,2B0,1B0\n"),
      AllOf(HasSubstr("deadlocks: 2F0 on rank 1 comes before what it waits for"), Not(HasSubstr("rank 0"))));
  // Ranks 1 and 2 wait for each other; rank 0 waits for rank 1.
  EXPECT_THAT(deadlock("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n2F1,2B1,2F0,2B0\n"),
              AllOf(HasSubstr("deadlocks: 1B0 on rank 1, 2F1 on rank 2 wait for each other"),
                    Not(HasSubstr("rank 0"))));
  EXPECT_THAT(deadlock("(0F0;0B0)OVERLAP_F_B\n"), HasSubstr("0B0 on rank 0 comes before what it waits for"));
}

TEST(TimeSchedule, SaysWhatIsNeverRun) {
  PipelineSchedule schedule{.ranks = 2, .stages = 2, .microbatches = 1};
  schedule.order = {{}, {{.kind = PassKind::Forward, .stage = 1}}};
  schedule.rank_of = {{0, 1}};
  try {
    time_schedule(schedule, {}, "plan");
    FAIL() << "the first stage never runs";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("never runs what 1F0 waits for"));
  }
}

}  // namespace
}  // namespace prism
