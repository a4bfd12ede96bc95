// SPDX-License-Identifier: Apache-2.0
#include "prism/plan/schedule.hpp"

#include <map>
#include <set>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "prism/trace/error.hpp"

namespace prism {
namespace {

using testing::HasSubstr;

constexpr PassCosts kUnit{};
constexpr PassCosts kUneven{.forward = 1, .backward_input = 1.2, .backward_weight = 0.8};

PipelineSchedule schedule(ScheduleKind kind, std::int64_t p, std::int64_t m, std::int64_t chunks) {
  ScheduleChoice choice;
  choice.kind = kind;
  choice.chunks = chunks;
  return make_schedule(choice, p, m, "plan");
}
double makespan(ScheduleKind kind, std::int64_t p, std::int64_t m, std::int64_t chunks,
                const PassCosts& costs) {
  return time_schedule(schedule(kind, p, m, chunks), costs, "plan").makespan;
}

/// "F0 F1 B0 ..." with the stage before the letter where a rank has several.
std::string text(const std::vector<Pass>& order, bool stages) {
  constexpr const char* kLetters[] = {"F", "B", "I", "W"};
  std::string result;
  for (const Pass& pass : order) {
    if (!result.empty()) result += " ";
    if (stages) result += std::to_string(pass.stage);
    result += kLetters[static_cast<std::size_t>(pass.kind)] + std::to_string(pass.microbatch);
    if (pass.with_next) result += "&";
  }
  return result;
}

std::string refusal(ScheduleKind kind, std::int64_t p, std::int64_t m, std::int64_t chunks) {
  try {
    schedule(kind, p, m, chunks);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Schedule, OrdersAreThePublishedOnes) {
  const auto one = schedule(ScheduleKind::OneForwardOneBackward, 4, 5, 1);
  EXPECT_EQ(text(one.order[0], false), "F0 F1 F2 F3 B0 F4 B1 B2 B3 B4");
  EXPECT_EQ(text(one.order[2], false), "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4");
  EXPECT_EQ(text(one.order[3], false), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4");
  EXPECT_EQ(text(schedule(ScheduleKind::GPipe, 2, 3, 1).order[1], false), "F0 F1 F2 B0 B1 B2");
  // Megatron with two chunks on two ranks: warm-up of 2 (p - 1 - r) + (v - 1) p forwards.
  const auto interleaved = schedule(ScheduleKind::Interleaved, 2, 4, 2);
  EXPECT_EQ(text(interleaved.order[0], true),
            "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3");
  EXPECT_EQ(text(interleaved.order[1], true),
            "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3");
  // Zero bubble H1: weight gradients are held back by as many microbatches as the rank's number.
  const auto zb = schedule(ScheduleKind::ZeroBubbleH1, 3, 4, 1);
  EXPECT_EQ(text(zb.order[0], false), "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3");
  EXPECT_EQ(text(zb.order[2], false), "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3");
  // ZB-V on two ranks: down as stage r, back as stage 3 - r.
  EXPECT_EQ(text(schedule(ScheduleKind::ZeroBubbleV, 2, 3, 2).order[1], true),
            "1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1I1 2I2 1I2 1W1 2W2 1W2");
  // DualPipe on two ranks: microbatches 0 and 1 enter at rank 0, 2 and 3 at rank 1.
  EXPECT_EQ(text(schedule(ScheduleKind::DualPipe, 2, 4, 1).order[0], true),
            "0F0 1F2 0F1 1B2 1F3& 0B0 1B3 0I1 0W1");
}

TEST(Schedule, TheLastGroupOfAnInterleavedOneMayBeShorter) {
  // Megatron's table for groups of 3 and 5 microbatches: 0 1 2 in chunk 0, in chunk 1, then 3 4.
  // Rank 1 of 2 warms up with (v - 1) * 3 forwards.
  ScheduleChoice choice;
  choice.kind = ScheduleKind::Interleaved;
  choice.chunks = 2;
  choice.group = 3;
  EXPECT_EQ(text(make_schedule(choice, 2, 5, "plan").order[1], true),
            "1F0 1F1 1F2 3F0 3B0 3F1 3B1 3F2 3B2 1F3 1B0 1F4 1B1 3F3 1B2 3F4 3B3 3B4 1B3 1B4");
}

TEST(Schedule, DualPipeOrdersAreThoseOfItsEightPhases) {
  // By hand from the phases of DeepSeek's implementation. The middle ranks run their first pair one after
  // the other. They are mirror images: microbatch k on rank 1 is 4 + k on rank 2, and the other way round.
  const auto dual = schedule(ScheduleKind::DualPipe, 4, 8, 1);
  EXPECT_EQ(text(dual.order[1], true),
            "1F0 2F4 1F1 2F5 1F2 2B4 2F6& 1B0 1F3& 2B5 2F7& 1B1 2B6 1B2 2I7 1I3 2W7 1W3");
  EXPECT_EQ(text(dual.order[2], true),
            "1F4 2F0 1F5 2F1 1F6 2B0 2F2& 1B4 1F7& 2B1 2F3& 1B5 2B2 1B6 2I3 1I7 2W3 1W7");
  const auto folded = schedule(ScheduleKind::DualPipeV, 2, 4, 2);
  EXPECT_EQ(text(folded.order[0], true),
            "0F0 0F1 0F2 3F0 3I0 3W0 3F1 0F3& 3B1 3F2& 0B0 3B2 3F3& 0B1 3B3 0I2 0W2 0I3 0W3");
  EXPECT_EQ(text(folded.order[1], true),
            "1F0 2F0 1F1 2F1 1F2 2B0 2F2& 1B0 1F3& 2B1 2F3& 1B1 2B2 1B2 2I3 1I3 2W3 1W3");
}

TEST(Schedule, MakespansAreTheGoldenOnes) {
  struct Row {
    std::int64_t p, m;
    double one, two_chunks, four_chunks, h1, v, dual_v, dual;
  };
  constexpr Row kRows[] = {{4, 8, 33, 28.5, 26.25, 27, 25.5, 27, 26},
                           {4, 16, 57, 52.5, 50.25, 51, 49.5, 51, 50},
                           {8, 16, 69, 58.5, 53.25, 55, 51.5, 55, 54},
                           {8, 32, 117, 106.5, 101.25, 103, 99.5, 103, 102}};
  for (const Row& r : kRows) {
    EXPECT_DOUBLE_EQ(makespan(ScheduleKind::GPipe, r.p, r.m, 1, kUnit), r.one);
    EXPECT_DOUBLE_EQ(makespan(ScheduleKind::OneForwardOneBackward, r.p, r.m, 1, kUnit), r.one);
    EXPECT_DOUBLE_EQ(makespan(ScheduleKind::Interleaved, r.p, r.m, 2, kUnit), r.two_chunks);
    EXPECT_DOUBLE_EQ(makespan(ScheduleKind::Interleaved, r.p, r.m, 4, kUnit), r.four_chunks);
    EXPECT_DOUBLE_EQ(makespan(ScheduleKind::ZeroBubbleH1, r.p, r.m, 1, kUnit), r.h1);
    EXPECT_DOUBLE_EQ(makespan(ScheduleKind::ZeroBubbleV, r.p, r.m, 2, kUnit), r.v);
    EXPECT_DOUBLE_EQ(makespan(ScheduleKind::DualPipeV, r.p, r.m, 2, kUnit), r.dual_v);
    EXPECT_DOUBLE_EQ(makespan(ScheduleKind::DualPipe, r.p, r.m, 1, kUnit), r.dual);
  }
  constexpr Row kUnevenRows[] = {{4, 8, 33, 28.5, 26.25, 28.2, 25.8, 27.6, 0},
                                 {4, 16, 57, 52.5, 50.25, 52.2, 49.8, 51.6, 0},
                                 {8, 16, 69, 58.5, 53.25, 57.8, 52.2, 56.6, 0},
                                 {8, 32, 117, 106.5, 101.25, 105.8, 100.2, 104.6, 0}};
  for (const Row& r : kUnevenRows) {
    EXPECT_NEAR(makespan(ScheduleKind::OneForwardOneBackward, r.p, r.m, 1, kUneven), r.one, 1e-9);
    EXPECT_NEAR(makespan(ScheduleKind::Interleaved, r.p, r.m, 2, kUneven), r.two_chunks, 1e-9);
    EXPECT_NEAR(makespan(ScheduleKind::ZeroBubbleH1, r.p, r.m, 1, kUneven), r.h1, 1e-9);
    EXPECT_NEAR(makespan(ScheduleKind::ZeroBubbleV, r.p, r.m, 2, kUneven), r.v, 1e-9);
    EXPECT_NEAR(makespan(ScheduleKind::DualPipeV, r.p, r.m, 2, kUneven), r.dual_v, 1e-9);
  }
}

/// Each pass once, on the rank of its stage.
void check_complete(const PipelineSchedule& s) {
  std::set<std::tuple<std::int32_t, std::int32_t, std::int32_t, int>> seen;
  for (std::size_t rank = 0; rank < s.order.size(); ++rank) {
    for (const Pass& pass : s.order[rank]) {
      RC_ASSERT(s.rank(pass.copy, pass.stage) == static_cast<std::int32_t>(rank));
      const auto once = [&](int what) {
        RC_ASSERT(seen.insert({pass.copy, pass.stage, pass.microbatch, what}).second);
      };
      if (pass.kind == PassKind::Forward) once(0);
      if (pass.kind == PassKind::Backward || pass.kind == PassKind::BackwardInput) once(1);
      if (pass.kind == PassKind::Backward || pass.kind == PassKind::BackwardWeight) once(2);
    }
  }
  RC_ASSERT(seen.size() ==
            3U * static_cast<std::size_t>(s.stages) * static_cast<std::size_t>(s.microbatches));
}

RC_GTEST_PROP(ScheduleProperty, EveryAdmissibleScheduleRunsEachPassOnce, ()) {
  constexpr ScheduleKind kKinds[] = {ScheduleKind::GPipe,       ScheduleKind::OneForwardOneBackward,
                                     ScheduleKind::Interleaved, ScheduleKind::ZeroBubbleH1,
                                     ScheduleKind::ZeroBubbleV, ScheduleKind::DualPipe,
                                     ScheduleKind::DualPipeV};
  const ScheduleKind kind = kKinds[*rc::gen::inRange<std::size_t>(0, std::size(kKinds))];
  auto p = *rc::gen::inRange<std::int64_t>(1, 17);
  auto m = *rc::gen::inRange<std::int64_t>(1, 65);
  std::int64_t chunks = 1;
  if (kind == ScheduleKind::Interleaved) {
    chunks = *rc::gen::inRange<std::int64_t>(2, 7);
    m = p * (1 + m / p);
  }
  if (kind == ScheduleKind::ZeroBubbleV || kind == ScheduleKind::DualPipeV) chunks = 2;
  if (kind == ScheduleKind::DualPipe) p += p % 2;
  if (kind == ScheduleKind::DualPipe || kind == ScheduleKind::DualPipeV) m = 2 * p + 2 * (m / 2);
  const PipelineSchedule s = schedule(kind, p, m, chunks);
  check_complete(s);
  RC_ASSERT(time_schedule(s, kUnit, "plan").makespan >= (3.0 - 1e-9) * static_cast<double>(m));
}

RC_GTEST_PROP(ScheduleProperty, InterleavedWithAnyNumberEitherRunsOrIsRefused, ()) {
  ScheduleChoice choice;
  choice.kind = ScheduleKind::Interleaved;
  choice.chunks = *rc::gen::inRange<std::int64_t>(2, 5);
  choice.group = *rc::gen::inRange<std::int64_t>(0, 12);
  const auto p = *rc::gen::inRange<std::int64_t>(1, 9);
  const auto m = *rc::gen::inRange<std::int64_t>(1, 30);
  try {
    check_complete(make_schedule(choice, p, m, "plan"));
  } catch (const InputError& error) {
    RC_ASSERT(std::string(error.what()).find("deadlocks") != std::string::npos);
  }
}

RC_GTEST_PROP(ScheduleProperty, InterleavedAdmitsWhatMegatronAndPyTorchDo, ()) {
  const auto p = *rc::gen::inRange<std::int64_t>(1, 17);
  const auto m = *rc::gen::inRange<std::int64_t>(1, 65);
  ScheduleChoice choice;
  choice.kind = ScheduleKind::Interleaved;
  choice.chunks = *rc::gen::inRange<std::int64_t>(2, 7);
  // PyTorch: as many rounds as p goes into m; they share the microbatches evenly.
  const std::int64_t rounds = std::max<std::int64_t>(1, m / p);
  if (m % rounds == 0) {
    choice.group = m / rounds;
    check_complete(make_schedule(choice, p, m, "plan"));
  }
  // Megatron: groups of at least p; the last one is whole or at least p.
  if (m < p) return;
  choice.group = *rc::gen::inRange<std::int64_t>(p, m + 1);
  if (m % choice.group == 0 || m % choice.group >= p) check_complete(make_schedule(choice, p, m, "plan"));
}

TEST(Schedule, GroupsMayBeAsLargeAsTheyLike) {
  // A warm-up of 1999 x 4194304 forwards does not fit 32 bits.
  ScheduleChoice choice;
  choice.kind = ScheduleKind::Interleaved;
  choice.chunks = 2000;
  choice.group = std::int64_t{1} << 22;
  EXPECT_NEAR(time_schedule(make_schedule(choice, 1, 1, "plan"), kUnit, "plan").makespan, 3, 1e-9);
}

TEST(Schedule, InadmissibleOnesAreRefusedWithTheReason) {
  EXPECT_THAT(refusal(ScheduleKind::DualPipe, 3, 8, 1), HasSubstr("even number"));
  EXPECT_THAT(refusal(ScheduleKind::DualPipe, 4, 6, 1), HasSubstr("twice as many microbatches"));
  EXPECT_THAT(refusal(ScheduleKind::DualPipeV, 4, 7, 2), HasSubstr("8, not 7"));
  EXPECT_THAT(refusal(ScheduleKind::ZeroBubbleV, 4, 8, 3), HasSubstr("two virtual stages"));
  EXPECT_THAT(refusal(ScheduleKind::OneForwardOneBackward, 4, 8, 2), HasSubstr("one virtual stage"));
  EXPECT_THAT(refusal(ScheduleKind::OneForwardOneBackward, 0, 8, 1), HasSubstr("at least one"));
  EXPECT_THAT(refusal(ScheduleKind::ZeroBubbleV, 1449, 1, 2), HasSubstr("1449 pipeline ranks"));
  EXPECT_THAT(refusal(ScheduleKind::GPipe, 1 << 20, 1 << 20, 1), HasSubstr("4 million"));
}

// Tables

std::string table_of(const PipelineSchedule& s) {
  constexpr const char* kLetters[] = {"F", "B", "I", "W"};
  const auto cell = [&](const Pass& pass) {
    return std::to_string(pass.stage) + kLetters[static_cast<std::size_t>(pass.kind)] +
           std::to_string(pass.microbatch);
  };
  std::string csv;
  for (const auto& order : s.order) {
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (order[i].with_next) {
        csv += "(" + cell(order[i]) + ";" + cell(order[i + 1]) + ")OVERLAP_F_B,";
        ++i;
      } else {
        csv += cell(order[i]) + ",";
      }
    }
    csv += ",\n";  // idle at the end
  }
  return csv;
}

TEST(ScheduleTable, ReadsWhatItsOwnOrdersWrite) {
  for (const ScheduleKind kind :
       {ScheduleKind::OneForwardOneBackward, ScheduleKind::ZeroBubbleV, ScheduleKind::DualPipeV}) {
    const std::int64_t chunks = kind == ScheduleKind::OneForwardOneBackward ? 1 : 2;
    const PipelineSchedule s = schedule(kind, 4, 8, chunks);
    const PipelineSchedule read = parse_schedule_table(table_of(s), "table.csv");
    EXPECT_EQ(read.order, s.order);
    EXPECT_EQ(read.rank_of, s.rank_of);
    EXPECT_EQ(read.microbatches, 8);
    EXPECT_EQ(time_schedule(read, kUnit, "t").makespan, time_schedule(s, kUnit, "t").makespan);
  }
}

TEST(ScheduleTable, LeavesLoweredCellsOut) {
  const PipelineSchedule s = parse_schedule_table(
      "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD\n1RECV_F0,1F0,,1B0,1SEND_B0,1RESHARD\n", "t");
  EXPECT_EQ(text(s.order[0], true), "0F0 0B0");
  EXPECT_EQ(text(s.order[1], true), "1F0 1B0");
}

std::string table_error(const std::string& csv) {
  try {
    parse_schedule_table(csv, "table.csv");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(ScheduleTable, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(table_error("0F0,0B0\n0X1\n"), HasSubstr("table.csv:2: cell 1"));
  EXPECT_THAT(table_error("0F0,0F0,0B0\n"), HasSubstr("comes twice"));
  EXPECT_THAT(table_error("0F0\n"), HasSubstr("table.csv:1: rank 0 never runs 0B0"));
  EXPECT_THAT(table_error("0F0,0B0\n1B0\n"), HasSubstr("table.csv:2: rank 1 never runs 1F0"));
  EXPECT_THAT(table_error("0F0,0I0\n"), HasSubstr("never runs 0W0"));
  EXPECT_THAT(table_error("0F0,0W0\n"), HasSubstr("never runs 0I0"));
  EXPECT_THAT(table_error("0F0,0B0,0W0\n"), HasSubstr("runs 0B0 and also 0W0"));
  EXPECT_THAT(table_error("0F0,0B0\n\n1F0,1B0\n"), HasSubstr("table.csv:2: rank 1 runs no pass"));
  EXPECT_THAT(table_error("0F0,0B0\n1F0,,,1B0,1F1,1B1,\n"), HasSubstr("table.csv:1: rank 0 never runs 0F1"));
  EXPECT_THAT(table_error("0F0,0B0\n0F1,0B1\n"), HasSubstr("on rank 0 and on rank 1"));
  EXPECT_THAT(table_error("0B0,0F0\n"), HasSubstr("deadlock"));
  EXPECT_THAT(table_error("0F0,0B0\n1B0,1F0\n"), HasSubstr("deadlock"));
  EXPECT_THAT(table_error("0F0,0B0\n2F0,2B0\n"), HasSubstr("stage 1"));
  EXPECT_THAT(table_error(""), HasSubstr("no pass"));
  EXPECT_THAT(table_error(",,,\n\n"), HasSubstr("no pass"));
  EXPECT_THAT(table_error("99999999999999F0\n"), HasSubstr("is no action"));
  EXPECT_THAT(table_error("0F4000000\n"), HasSubstr("counts too far"));
  EXPECT_THAT(table_error("(0F0;0B0)\n"), HasSubstr("is no action"));
  EXPECT_THAT(table_error("(0F0;0SEND_F0)OVERLAP_F_B\n"), HasSubstr("is no action"));
}

}  // namespace
}  // namespace prism
