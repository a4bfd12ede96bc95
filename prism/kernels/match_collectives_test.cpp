// SPDX-License-Identifier: Apache-2.0
// Matching on made-up jobs whose truth is known: each kernel's correlation names the collective it belongs to, and
// nothing in the code under test may look at it (there are no host calls).
#include "prism/kernels/match_collectives.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "prism/kernels/split_collectives.hpp"
#include "prism/trace/error.hpp"
#include "tests/trace_builder.hpp"

namespace prism {
namespace {

constexpr std::int64_t kBaseNs = 1'760'000'000'000'000'000;

/// One collective of a made-up job.
struct Made {
  std::string_view name = "allreduce";
  std::string_view kernel = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)";
  std::int64_t elements = 1024;
  std::vector<std::int64_t> start_ns;  // [rank] of a common clock
  std::vector<std::int64_t> end_ns;
};

/// What one rank's file keeps of the job.
struct Kept {
  std::int64_t clock_ns = kBaseNs;  // added to all times
  bool absolute = true;
  std::size_t first = 0;
  std::size_t last = SIZE_MAX;     // one past
  std::size_t first_recorded = 0;  // collectives before this have no metadata
  std::set<std::size_t> lost;
  bool numbered = false;
};

RankTrace trace_of(const std::vector<Made>& job, std::size_t rank, const Kept& kept, std::size_t ranks) {
  TraceBuilder b(static_cast<int>(rank));
  b.trace().absolute_time = kept.absolute;
  for (std::size_t i = kept.first; i < std::min(kept.last, job.size()); ++i) {
    if (kept.lost.contains(i)) continue;
    const Made& made = job[i];
    GpuOp& op = b.kernel(made.kernel, made.start_ns[rank] + kept.clock_ns,
                         made.end_ns[rank] - made.start_ns[rank], static_cast<std::int64_t>(i) + 1, 20);
    if (i < kept.first_recorded) continue;
    CommRecord record;
    record.collective = b.name(made.name);
    record.dtype = b.name("BFloat16");
    record.group = b.name("0");
    record.in_elements = record.out_elements = made.elements;
    record.group_size = static_cast<std::int32_t>(ranks);
    for (std::size_t r = 0; r < ranks; ++r) record.members.push_back(static_cast<std::int32_t>(r));
    if (kept.numbered) record.sequence = static_cast<std::int64_t>(i) + 100;
    op.comm = b.comm(std::move(record));
  }
  return b.finish();
}

struct Matched {
  std::vector<RankTrace> traces;
  std::vector<RankCommunication> communication;
  CollectiveMatching matching;
  ImportReport report;

  explicit Matched(std::vector<RankTrace> given) : traces(std::move(given)) {
    for (const RankTrace& trace : traces)
      communication.push_back(find_communication(trace, find_launches(trace)));
    matching = match_collectives(traces, communication, report);
  }
  const GpuOp& op(CommMember m) const {
    return traces[m.trace].gpu_ops[communication[m.trace].ops[m.op].gpu_op];
  }
};

/// What was matched wrongly, for the message of a failing property.
std::string mismatches(const Matched& result) {
  std::string text;
  for (const MatchedCollective& match : result.matching.matched) {
    const GpuOp& first = result.op(match.members[0]);
    for (const CommMember& m : match.members) {
      const GpuOp& op = result.op(m);
      if (op.correlation == first.correlation) continue;
      text += "collective " + std::to_string(first.correlation) + " of rank " +
              std::to_string(match.members[0].trace) + " (" + std::to_string(first.start_ns) + " to " +
              std::to_string(first.end_ns()) + ") with " + std::to_string(op.correlation) + " of rank " +
              std::to_string(m.trace) + " (" + std::to_string(op.start_ns) + " to " +
              std::to_string(op.end_ns()) + ")\n";
    }
  }
  return text;
}

std::vector<RankTrace> traces_of(const std::vector<Made>& job, const std::vector<Kept>& kept) {
  std::vector<RankTrace> traces;
  for (std::size_t r = 0; r < kept.size(); ++r) traces.push_back(trace_of(job, r, kept[r], kept.size()));
  return traces;
}

/// Uniform whole numbers. Times drawn by rapidcheck itself would be equal in most small cases, and equal ops at equal
/// intervals say nothing about which is which.
class Uniform {
 public:
  explicit Uniform(std::uint64_t seed) : generator_(seed) {}
  std::int64_t operator()(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(generator_() % static_cast<std::uint64_t>(high - low));
  }

 private:
  std::mt19937_64 generator_;
};

/// `count` collectives of `ranks` ranks: ready at random times, transfer, ends that scatter by up to 15 us. Steps of
/// `period` collectives repeat kinds and sizes.
std::vector<Made> random_job(std::size_t ranks, std::size_t count, std::size_t period) {
  Uniform draw(*rc::gen::arbitrary<std::uint64_t>());
  struct Type {
    std::string_view name;
    std::string_view kernel;
  };
  static constexpr std::array<Type, 3> kTypes = {{
      {"allreduce", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)"},
      {"_allgather_base", "ncclDevKernel_AllGather_RING_LL(x)"},
      {"_reduce_scatter_base", "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(x)"},
  }};
  std::vector<Made> step(period);
  for (Made& made : step) {
    const Type& type = kTypes[static_cast<std::size_t>(draw(0, kTypes.size()))];
    made.name = type.name;
    made.kernel = type.kernel;
    made.elements = draw(1, 4) * 1000;
  }
  std::vector<Made> job;
  std::vector<std::int64_t> free_at(ranks, 0);
  for (std::size_t i = 0; i < count; ++i) {
    Made made = step[i % period];
    std::int64_t ready = 0;
    for (std::size_t r = 0; r < ranks; ++r) {
      made.start_ns.push_back(free_at[r] + draw(20'000, 900'000));
      ready = std::max(ready, made.start_ns[r]);
    }
    const std::int64_t transfer = made.elements * 50 + draw(0, 20'000);
    for (std::size_t r = 0; r < ranks; ++r) {
      made.end_ns.push_back(ready + transfer + draw(0, 15'000));
      free_at[r] = made.end_ns[r];
    }
    job.push_back(std::move(made));
  }
  return job;
}

std::vector<Kept> random_losses(std::size_t ranks, std::size_t count, bool absolute) {
  Uniform draw(*rc::gen::arbitrary<std::uint64_t>());
  std::vector<Kept> kept(ranks);
  for (Kept& rank : kept) {
    rank.first = static_cast<std::size_t>(draw(0, static_cast<std::int64_t>(count) / 4));
    rank.last = count - static_cast<std::size_t>(draw(0, static_cast<std::int64_t>(count) / 4));
    rank.absolute = absolute;
    rank.clock_ns = absolute ? kBaseNs + draw(-1'000'000, 1'000'000) : draw(0, 1'000'000'000'000);
  }
  return kept;
}

std::size_t common(const std::vector<Kept>& kept) {
  std::size_t first = 0;
  std::size_t last = SIZE_MAX;
  for (const Kept& rank : kept) {
    first = std::max(first, rank.first);
    last = std::min(last, rank.last);
  }
  return last - first;
}

RC_GTEST_PROP(MatchCollectives, LostBeginningsAndEndsAndSkewedClocksAreFoundWhole, ()) {
  const auto ranks = *rc::gen::inRange<std::size_t>(2, 6);
  const auto count = *rc::gen::inRange<std::size_t>(12, 60);
  const std::vector<Made> job = random_job(ranks, count, *rc::gen::inRange<std::size_t>(1, 8));
  std::vector<Kept> kept = random_losses(ranks, count, true);
  const bool has_metadata = *rc::gen::arbitrary<bool>();
  for (Kept& rank : kept) {
    rank.first_recorded = has_metadata ? *rc::gen::inRange<std::size_t>(0, count / 2) : count;
  }
  const Matched result(traces_of(job, kept));
  RC_ASSERT(mismatches(result) == "");
  RC_ASSERT(result.matching.matched.size() == common(kept));
  for (std::size_t r = 0; r < ranks; ++r) {
    const double expected = static_cast<double>(kept[r].clock_ns - kept[0].clock_ns);
    RC_ASSERT(std::abs(static_cast<double>(result.matching.clocks[r].offset_ns) - expected) < 16'000);
  }
}

RC_GTEST_PROP(MatchCollectives, WithUnrelatedClocksPairsAreTrueOrRefused, ()) {
  const auto ranks = *rc::gen::inRange<std::size_t>(2, 5);
  const auto count = *rc::gen::inRange<std::size_t>(12, 40);
  const std::vector<Made> job = random_job(ranks, count, *rc::gen::inRange<std::size_t>(1, 6));
  const std::vector<Kept> kept = random_losses(ranks, count, false);
  std::optional<Matched> result;
  try {
    result.emplace(traces_of(job, kept));
  } catch (const InputError&) {
    RC_TAG("refused");
    return;
  }
  RC_CLASSIFY(result->matching.matched.size() == common(kept), "whole");
  RC_ASSERT(mismatches(*result) == "");
}

RC_GTEST_PROP(MatchCollectives, EventsLostAtRandomAreRefusedOrReportedButNeverMismatched, ()) {
  const auto ranks = *rc::gen::inRange<std::size_t>(2, 5);
  const auto count = *rc::gen::inRange<std::size_t>(30, 90);
  const std::vector<Made> job = random_job(ranks, count, *rc::gen::inRange<std::size_t>(1, 6));
  std::vector<Kept> kept = random_losses(ranks, count, true);
  for (Kept& rank : kept) {
    rank.clock_ns = kBaseNs + *rc::gen::inRange(-200'000, 200'000);
    for (int i = *rc::gen::inRange(0, 6); i > 0; --i)
      rank.lost.insert(*rc::gen::inRange<std::size_t>(0, count));
  }
  std::optional<Matched> result;
  try {
    result.emplace(traces_of(job, kept));
  } catch (const InputError& e) {
    RC_TAG("refused");
    const std::string text = e.what();
    RC_ASSERT(text.find(".json") != text.rfind(".json"));
    return;
  }
  RC_ASSERT(mismatches(*result) == "");
  std::size_t in_matches = 0;
  std::size_t ops = 0;
  for (const MatchedCollective& match : result->matching.matched) in_matches += match.members.size();
  for (const RankCommunication& rank : result->communication) ops += rank.ops.size();
  RC_ASSERT(in_matches + result->matching.local.size() == ops);
}

RC_GTEST_PROP(MatchCollectives, SequenceNumbersMatchWhateverIsMissing, ()) {
  const auto ranks = *rc::gen::inRange<std::size_t>(2, 5);
  const auto count = *rc::gen::inRange<std::size_t>(12, 40);
  const std::vector<Made> job = random_job(ranks, count, *rc::gen::inRange<std::size_t>(1, 6));
  std::vector<Kept> kept = random_losses(ranks, count, *rc::gen::arbitrary<bool>());
  std::vector<std::size_t> recorded(count);
  for (Kept& rank : kept) {
    rank.numbered = true;
    for (int i = *rc::gen::inRange(0, 6); i > 0; --i)
      rank.lost.insert(*rc::gen::inRange<std::size_t>(0, count));
    for (std::size_t i = rank.first; i < rank.last; ++i) recorded[i] += rank.lost.contains(i) ? 0U : 1U;
  }
  const Matched result(traces_of(job, kept));
  RC_ASSERT(mismatches(result) == "");
  RC_ASSERT(static_cast<std::ptrdiff_t>(result.matching.matched.size()) ==
            std::ranges::count(recorded, ranks));
  RC_ASSERT(result.matching.count(MatchEvidence::Sequence) == result.matching.matched.size());
}

/// Two ranks, `count` all-reduces of one size, the other rank late by turns; ends 25 us after the later start.
std::vector<Made> regular_job(std::size_t count) {
  std::vector<Made> job(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto t = static_cast<std::int64_t>(i) * 300'000 + static_cast<std::int64_t>(i * i) * 1'000;
    job[i].start_ns = {t + (i % 2 == 0 ? 15'000 : 0), t + (i % 2 == 0 ? 0 : 15'000)};
    job[i].end_ns = {t + 40'000, t + 40'000};
  }
  return job;
}

std::string refusal(std::vector<RankTrace> traces) {
  try {
    const Matched result(std::move(traces));
    return "accepted, " + std::to_string(result.matching.matched.size()) + " matched";
  } catch (const InputError& e) {
    return e.what();
  }
}

TEST(MatchCollectives, FilesOfDifferentYearsAreRefusedWithBothTimes) {
  const std::vector<Made> job = regular_job(3);
  std::vector<Kept> kept(2);
  kept[0].clock_ns = 1'669'783'689'122'289'000;
  kept[1].clock_ns = 1'716'423'322'422'880'181;
  const std::string text = refusal(traces_of(job, kept));
  EXPECT_THAT(text, testing::HasSubstr("rank1.json"));
  EXPECT_THAT(text, testing::HasSubstr("rank0.json"));
  EXPECT_THAT(text, testing::HasSubstr("2024-05-23 00:15:22.422880181 UTC (1716423322422880181 ns)"));
  EXPECT_THAT(text, testing::HasSubstr("2022-11-30 04:48:09"));
  EXPECT_THAT(text, testing::HasSubstr("fix: "));
}

TEST(MatchCollectives, OneRankTwiceIsRefused) {
  const std::vector<Made> job = regular_job(3);
  std::vector<RankTrace> traces = traces_of(job, std::vector<Kept>(2));
  traces[1].rank = 0;
  EXPECT_THAT(refusal(std::move(traces)), testing::AllOf(testing::HasSubstr("rank 0 is in rank0.json too"),
                                                         testing::HasSubstr("rank1.json")));
}

TEST(MatchCollectives, EqualGroupNamesWithOtherMembersAreRefused) {
  const std::vector<Made> job = regular_job(3);
  std::vector<RankTrace> traces = traces_of(job, std::vector<Kept>(2));
  traces[1].groups.push_back({"0", "", 3, {0, 1, 2}});
  EXPECT_THAT(refusal(std::move(traces)),
              testing::AllOf(testing::HasSubstr("group \"0\""), testing::HasSubstr("0,1,2"),
                             testing::HasSubstr("rank0.json"), testing::HasSubstr("rank1.json")));
}

TEST(MatchCollectives, ARankOutsideItsGroupIsRefused) {
  const std::vector<Made> job = regular_job(3);
  std::vector<RankTrace> traces = traces_of(job, std::vector<Kept>(2));
  traces[1].rank = 5;
  EXPECT_THAT(refusal(std::move(traces)), testing::HasSubstr("rank 5 communicates in process group \"0\""));
}

TEST(MatchCollectives, AnotherJobAtTheSameTimeIsRefused) {
  std::vector<Made> job = regular_job(20);
  std::vector<RankTrace> traces = traces_of(job, std::vector<Kept>(2));
  for (std::size_t i = 0; i < job.size(); ++i) job[i].elements = 7 + static_cast<std::int64_t>(i);
  traces[1] = trace_of(job, 1, Kept(), 2);
  EXPECT_THAT(refusal(std::move(traces)),
              testing::AllOf(testing::HasSubstr("differ in kind, type or size"),
                             testing::HasSubstr("of 1024 elements at 2025-10-09")));
}

TEST(MatchCollectives, SetsWhoseSizesContradictTheirNumbersAreRefused) {
  std::vector<Made> job = regular_job(20);
  std::vector<Kept> kept(2);
  kept[0].numbered = kept[1].numbered = true;
  std::vector<RankTrace> traces = traces_of(job, kept);
  for (std::size_t i = 0; i < 5; ++i) job[3 * i].elements = 5;
  traces[1] = trace_of(job, 1, kept[1], 2);
  EXPECT_THAT(refusal(std::move(traces)), testing::HasSubstr("differ in kind, type, size or time"));
}

TEST(MatchCollectives, ASingleOddCollectiveIsReportedAndLeftLocal) {
  std::vector<Made> job = regular_job(20);
  std::vector<RankTrace> traces = traces_of(job, std::vector<Kept>(2));
  job[7].elements = 5;
  traces[1] = trace_of(job, 1, Kept(), 2);
  const Matched result(std::move(traces));
  EXPECT_EQ(result.matching.matched.size(), 19U);
  EXPECT_EQ(result.matching.count(LocalReason::Odd), 2U);
  EXPECT_EQ(mismatches(result), "");
  ASSERT_EQ(result.report.entries().size(), 2U);  // after how many were matched
  EXPECT_EQ(result.report.entries()[1].severity, Severity::DataLoss);
  EXPECT_EQ(result.report.entries()[1].count, 2U);
}

TEST(MatchCollectives, ARelativeClockIsPlacedByItsCollectives) {
  const std::vector<Made> job = regular_job(20);
  std::vector<Kept> kept(2);
  kept[1].absolute = false;
  kept[1].clock_ns = 123'000;
  kept[1].first = 4;
  const Matched result(traces_of(job, kept));
  EXPECT_EQ(mismatches(result), "");
  EXPECT_EQ(result.matching.matched.size(), 16U);
  EXPECT_EQ(result.matching.clocks[1].offset_ns, 123'000 - kBaseNs);
  EXPECT_TRUE(std::ranges::any_of(result.report.entries(), [](const ImportEntry& entry) {
    return entry.severity == Severity::Repaired &&
           entry.reason.find("without Unix time") != std::string::npos;
  }));
}

TEST(MatchCollectives, EqualOpsInEqualIntervalsOnUnrelatedClocksAreAmbiguous) {
  std::vector<Made> job(10);
  for (std::size_t i = 0; i < job.size(); ++i) {
    const auto t = static_cast<std::int64_t>(i) * 300'000;
    job[i].start_ns = {t, t};
    job[i].end_ns = {t + 40'000, t + 40'000};
  }
  std::vector<Kept> kept(2);
  kept[1].absolute = false;
  kept[1].clock_ns = 0;
  kept[1].first = 2;
  const Matched result(traces_of(job, kept));
  EXPECT_EQ(result.matching.matched.size(), 0U);
  EXPECT_EQ(result.matching.count(LocalReason::Ambiguous), 18U);
}

TEST(MatchCollectives, DriftOfALongTraceIsFitted) {
  std::vector<Made> job = regular_job(200);
  for (std::size_t i = 0; i < job.size(); ++i) {
    for (std::int64_t& t : job[i].start_ns) t += static_cast<std::int64_t>(i) * 100'000'000;
    for (std::int64_t& t : job[i].end_ns) t += static_cast<std::int64_t>(i) * 100'000'000;
  }
  std::vector<RankTrace> traces = traces_of(job, std::vector<Kept>(2));
  for (GpuOp& op : traces[1].gpu_ops) op.start_ns += (op.start_ns - kBaseNs) / 50'000;  // 20 us per second
  const Matched result(std::move(traces));
  ASSERT_EQ(result.matching.matched.size(), 200U);
  EXPECT_EQ(mismatches(result), "");
  EXPECT_NEAR((result.matching.clocks[1].drift - result.matching.clocks[0].drift) * 1e6, 20, 0.1);
  for (const MatchedCollective& match : result.matching.matched) {
    std::vector<std::int64_t> ends;
    for (const CommMember& m : match.members)
      ends.push_back(result.matching.clocks[m.trace].aligned(result.op(m).end_ns()));
    EXPECT_LT(std::abs(ends[0] - ends[1]), 3'000);
  }
}

TEST(MatchCollectives, ThousandsOfEqualCollectivesAreAlignedWithoutTryingAllShifts) {
  // 8,000 ops a side: all shifts would be 64 million comparisons of pairs that all look alike.
  std::vector<Made> job(9000);
  Uniform draw(7);
  std::int64_t t = 0;
  for (Made& made : job) {
    t += draw(100'000, 900'000);
    made.start_ns = {t, t + draw(0, 20'000)};
    made.end_ns = {t + 50'000, t + 50'000 + draw(0, 10'000)};
  }
  std::vector<Kept> kept(2);
  kept[0].first = 1000;
  kept[1].last = 8000;
  kept[1].clock_ns += 300'000;
  const Matched result(traces_of(job, kept));
  EXPECT_EQ(result.matching.matched.size(), 7000U);
  EXPECT_EQ(mismatches(result), "");
}

// --- Point to point ---

/// Two pipeline stages that exchange: forward activations 0 -> 1, gradients 1 -> 0, in turn.
std::vector<RankTrace> pipeline(std::size_t microbatches, std::size_t lost_on_1) {
  std::vector<TraceBuilder> ranks;
  ranks.emplace_back(0);
  ranks.emplace_back(1);
  for (std::size_t i = 0; i < microbatches; ++i) {
    for (const bool forward : {true, false}) {
      const auto t = kBaseNs + static_cast<std::int64_t>(i) * 2'000'000 +
                     static_cast<std::int64_t>(i * i) * 7'000 + (forward ? 0 : 900'000);
      const std::size_t source = forward ? 0 : 1;
      const auto id = static_cast<std::int64_t>(2 * i + (forward ? 0 : 1)) + 1;
      for (const std::size_t r : {std::size_t{0}, std::size_t{1}}) {
        if (r == 1 && i < lost_on_1) continue;
        CommRecord record;
        record.collective = ranks[r].name(r == source ? "send" : "recv");
        record.dtype = ranks[r].name("BFloat16");
        record.group = ranks[r].name("pp");
        record.members = {0, 1};
        record.group_size = 2;
        (r == source ? record.in_elements : record.out_elements) = 2048;
        (r == source ? record.destination : record.source) = static_cast<std::int32_t>(1 - r);
        const std::int64_t start = t + (r == source ? 100'000 : 0);
        ranks[r].kernel("ncclDevKernel_SendRecv(x)", start, t + 130'000 - start, id, 24).comm =
            ranks[r].comm(record);
      }
    }
  }
  return {ranks[0].finish(), ranks[1].finish()};
}

TEST(MatchPointToPoint, TheKthSendIsTheKthReceiveCountedFromTheEnd) {
  const Matched result(pipeline(10, 3));
  EXPECT_EQ(result.matching.matched.size(), 14U);
  EXPECT_EQ(mismatches(result), "");
  EXPECT_EQ(result.matching.count(LocalReason::PartnerMissing), 6U);
  for (const MatchedCollective& match : result.matching.matched) {
    ASSERT_EQ(match.members.size(), 2U);
    const CommunicationOp& sender = result.communication[match.members[0].trace].ops[match.members[0].op];
    EXPECT_EQ(sender.kind, CollectiveKind::Send);
    EXPECT_EQ(match.bytes, 4096);
  }
}

TEST(MatchPointToPoint, AReceiveWaitsForItsSend) {
  const Matched result(pipeline(4, 0));
  ImportReport report;
  const CollectiveSplit split =
      split_collectives(result.traces, result.communication, result.matching, report);
  for (std::size_t i = 0; i < result.matching.matched.size(); ++i) {
    const CommMember send = result.matching.matched[i].members[0];
    const CommMember receive = result.matching.matched[i].members[1];
    EXPECT_EQ(split.ops[send.trace][send.op].wait_ns, 0);
    EXPECT_EQ(split.ops[send.trace][send.op].transfer_ns, 30'000);
    EXPECT_EQ(split.ops[receive.trace][receive.op].wait_ns, 100'000);
    EXPECT_EQ(split.ops[receive.trace][receive.op].transfer_ns, 30'000);
    EXPECT_EQ(split.matches[i].transfer_ns, 30'000);
    EXPECT_EQ(split.matches[i].last_arriver, 0U);
  }
}

TEST(MatchPointToPoint, AKernelOfCoalescedSendAndReceiveIsInTwoPairs) {
  // A ring of three: each rank sends to the next and receives from the one before in one kernel.
  std::vector<RankTrace> traces;
  for (int r = 0; r < 3; ++r) {
    TraceBuilder b(r);
    CommRecord send;
    send.collective = b.name("send");
    send.group = b.name("cp");
    send.members = {0, 1, 2};
    send.in_elements = 100;
    send.destination = (r + 1) % 3;
    CommRecord receive = send;
    receive.collective = b.name("recv");
    receive.destination = -1;
    receive.source = (r + 2) % 3;
    b.record(kBaseNs, 1'000, send);
    b.record(kBaseNs + 2'000, 1'000, receive);
    b.call("cudaLaunchKernel", kBaseNs + 5'000, 1'000, 1);
    b.kernel("ncclDevKernel_SendRecv(x)", kBaseNs + 10'000 + 1'000 * r, 50'000, 1, 24);
    traces.push_back(b.finish());
  }
  const Matched result(std::move(traces));
  EXPECT_EQ(result.matching.matched.size(), 3U);
  for (std::size_t r = 0; r < 3; ++r) EXPECT_EQ(result.matching.matches_of[r][0].size(), 2U);
  EXPECT_TRUE(result.matching.local.empty());
}

TEST(MatchPointToPoint, WithoutPeerInALargerGroupItStaysLocal) {
  std::vector<RankTrace> traces;
  for (int r = 0; r < 3; ++r) {
    TraceBuilder b(r);
    CommRecord record;
    record.collective = b.name(r == 0 ? "send" : "recv");
    record.group = b.name("pp");
    record.members = {0, 1, 2};
    b.kernel("ncclDevKernel_SendRecv(x)", kBaseNs, 50'000, 1, 24).comm = b.comm(record);
    traces.push_back(b.finish());
  }
  const Matched result(std::move(traces));
  EXPECT_TRUE(result.matching.matched.empty());
  EXPECT_EQ(result.matching.count(LocalReason::PeerUnknown), 3U);
}

// --- Waiting and transfer ---

TEST(SplitCollectives, WaitEndsWhenTheLastMemberArrives) {
  std::vector<Made> job = regular_job(6);
  const Matched result(traces_of(job, std::vector<Kept>(2)));
  ImportReport report;
  const CollectiveSplit split =
      split_collectives(result.traces, result.communication, result.matching, report);
  for (std::size_t i = 0; i < 6; ++i) {
    const std::size_t late = i % 2 == 0 ? 0 : 1;
    EXPECT_EQ(split.matches[i].last_arriver, late);
    EXPECT_EQ(split.matches[i].transfer_ns, 25'000);
    EXPECT_EQ(split.matches[i].shortest_ns, 25'000);
    EXPECT_EQ(split.matches[i].start_spread_ns, 15'000);
    for (std::size_t r = 0; r < 2; ++r) {
      const OpSplit& op = split.ops[r][i];
      EXPECT_EQ(op.basis, SplitBasis::Members);
      EXPECT_EQ(op.wait_ns, r == late ? 0 : 15'000);
      EXPECT_EQ(op.transfer_ns, 25'000);
      EXPECT_EQ(op.exit_skew_ns, 0);
    }
  }
  EXPECT_TRUE(report.entries().empty());
}

TEST(SplitCollectives, TheRootOfABroadcastThatLeftEarlyWaitedForNobody) {
  std::vector<Made> job = regular_job(6);
  job[2].name = "broadcast";
  job[2].kernel = "ncclDevKernel_Broadcast_RING_LL(x)";
  job[2].start_ns[0] = job[2].start_ns[1] - 60'000;  // the root
  job[2].end_ns[0] = job[2].start_ns[0] + 20'000;
  const Matched result(traces_of(job, std::vector<Kept>(2)));
  ImportReport report;
  const CollectiveSplit split =
      split_collectives(result.traces, result.communication, result.matching, report);
  EXPECT_EQ(split.ops[0][2].wait_ns, 0);
  EXPECT_EQ(split.ops[0][2].transfer_ns, 20'000);
  EXPECT_EQ(split.ops[1][2].wait_ns, 0);
  EXPECT_EQ(split.ops[1][2].transfer_ns, job[2].end_ns[1] - job[2].start_ns[1]);
}

TEST(SplitCollectives, WithUntracedMembersTheShortestOfAPoolIsTransfer) {
  std::vector<Made> job = regular_job(6);
  job[3].elements = 5;  // another pool
  job[3].end_ns[0] = job[3].start_ns[0] + 90'000;
  const Matched result({trace_of(job, 0, Kept(), 2)});
  ImportReport report;
  const CollectiveSplit split =
      split_collectives(result.traces, result.communication, result.matching, report);
  EXPECT_EQ(result.matching.count(LocalReason::Untraced), 6U);
  for (std::size_t i = 0; i < 6; ++i) {
    const OpSplit& op = split.ops[0][i];
    EXPECT_EQ(op.basis, SplitBasis::Shortest);
    EXPECT_EQ(op.transfer_ns, i == 3 ? 90'000 : 25'000) << i;
    EXPECT_EQ(op.wait_ns + op.transfer_ns, job[i].end_ns[0] - job[i].start_ns[0]) << i;
  }
  ASSERT_EQ(report.entries().size(), 1U);
  EXPECT_EQ(report.entries()[0].count, 6U);
}

TEST(SplitCollectives, PoolKeysNameWhatATransferDependsOn) {
  const KernelName ring = parse_kernel_name("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)");
  EXPECT_EQ(communication_pool_key(CollectiveKind::AllReduce, 8, GroupPlacement::IntraHost, 4096, ring),
            "all-reduce, 8 ranks, intra-host, 4096 bytes, RING LL");
  EXPECT_EQ(communication_pool_key(CollectiveKind::SendRecv, -1, GroupPlacement::Unknown, -1,
                                   parse_kernel_name("ncclDevKernel_SendRecv(x)")),
            "send/recv, ? ranks, ? bytes");
}

TEST(SplitCollectives, PlacementNeedsAllHostsToSayIntra) {
  std::vector<RankTrace> traces(3);
  CommGroup group;
  group.size = 3;
  group.traces = {0, 1, 2};
  EXPECT_EQ(placement_of(traces, group), GroupPlacement::Unknown);
  traces[0].host = traces[1].host = "a";
  EXPECT_EQ(placement_of(traces, group), GroupPlacement::Unknown);
  traces[2].host = "a";
  EXPECT_EQ(placement_of(traces, group), GroupPlacement::IntraHost);
  traces[2].host = "b";
  EXPECT_EQ(placement_of(traces, group), GroupPlacement::InterHost);
}

}  // namespace
}  // namespace prism
