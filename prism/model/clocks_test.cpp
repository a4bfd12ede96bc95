// SPDX-License-Identifier: Apache-2.0
// Clock offsets of made-up jobs, whose truth is known.
#include "prism/model/clocks.hpp"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tests/made_job/made_job.hpp"

namespace prism {
namespace {

constexpr double kToleranceNs = 50e3;

MadeJobSpec job_spec() {
  return {.dp = 4, .pp = 3, .microbatches = 4, .steps = 12, .content_sd = 0.1, .transfer_jitter_s = 50e-6};
}

RecordedJob aligned(const OpTimeline& timeline) {
  ImportReport report;
  return align(timeline, report);
}

std::string text(const ImportReport& report) {
  std::string all;
  for (const ImportEntry& e : report.entries()) {
    all += e.reason;
    for (const std::string& place : e.places) all += " [" + place + "]";
  }
  return all;
}

TEST(Clocks, OffsetsAreRecoveredWithinFiftyMicroseconds) {
  MadeJobSpec spec = job_spec();
  const RecordedJob truth = aligned(make_job(spec).timeline);
  spec.clock_offset_s = {{1, 0.005}, {6, -0.012}, {10, 0.3}, {11, 0.0008}};
  RecordedJob job = aligned(make_job(spec).timeline);
  const RecordedJob before = job;
  ImportReport report;
  const std::vector<double> offsets = align_clocks(job, report);
  ASSERT_EQ(offsets.size(), 12U);
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const auto given = spec.clock_offset_s.find(job.ranks[i]);
    const double expected = given == spec.clock_offset_s.end() ? 0 : given->second * 1e9;  // most have none
    EXPECT_NEAR(offsets[i], expected, kToleranceNs) << "rank " << job.ranks[i];
  }
  ASSERT_EQ(report.entries().size(), 1U);
  EXPECT_EQ(report.entries()[0].count, 3U) << "0.8 ms may be noise: " << text(report);

  // The corrected times are the true ones, up to a common shift of each step.
  for (std::size_t i = 0; i < job.ops.size(); ++i) {
    const OpId op(i);
    for (std::size_t k = 0; k < job.step_count(); ++k) {
      const double shift = job.start(OpId(0), k, 0) - truth.start(OpId(0), k, 0);
      for (std::size_t d = 0; d < job.replicas(); ++d) {
        const std::size_t rank = d * 3 + static_cast<std::size_t>(job.ops[op].stage);
        const double left = job.ranks[rank] == 11 ? 0.0008e9 : 0;  // left alone
        ASSERT_NEAR(job.start(op, k, d) - shift - left, truth.start(op, k, d), 2 * kToleranceNs)
            << op_text(job.ops[op]) << ", step " << k << ", replica " << d;
        ASSERT_NEAR(job.end(op, k, d) - job.start(op, k, d), before.end(op, k, d) - before.start(op, k, d), 1)
            << "durations stay";
      }
    }
  }
}

// A rank that leaves one kind of collective 10 ms late in every step, because it is busy, has no late clock:
// its other communication agrees with its peers.
// Clocks belong to hosts, and two hosts are common: half of the ranks is off, and no rank is "the odd one".
TEST(Clocks, HalfOfTheRanksMayBeOff) {
  for (const bool by_stage : {true, false}) {
    MadeJobSpec spec = job_spec();
    spec.pp = 4;
    const RecordedJob truth = aligned(make_job(spec).timeline);
    for (std::size_t i = 0; i < truth.ranks.size(); ++i) {
      const bool late = by_stage ? i % 4 >= 2 : i / 4 >= 2;
      if (late) spec.clock_offset_s[truth.ranks[i]] = 0.05;
    }
    RecordedJob job = aligned(make_job(spec).timeline);
    ImportReport report;
    const std::vector<double> offsets = align_clocks(job, report);
    EXPECT_NEAR(*std::ranges::max_element(offsets) - *std::ranges::min_element(offsets), 50e6,
                2 * kToleranceNs);
    EXPECT_EQ(report.entries().at(0).count, 16U) << text(report);
    const std::vector<double> times = job.step_times_ns();
    const std::vector<double> expected = truth.step_times_ns();
    for (std::size_t k = 0; k < times.size(); ++k)
      EXPECT_NEAR(times[k], expected[k], 4 * kToleranceNs) << by_stage;
  }
}

TEST(Clocks, OneOddCollectiveDoesNotMoveAClock) {
  for (const int stages : {3, 1}) {
    for (const OpType odd :
         {OpType::OptimizerClipMainGrad, OpType::ParamsAllGather, OpType::GradsReduceScatter}) {
      MadeJobSpec spec = job_spec();
      spec.pp = stages;
      OpTimeline timeline = make_job(spec).timeline;
      for (OpRecord& r : timeline.records) {
        if (r.rank == 2 && r.type == odd) r.duration += std::chrono::milliseconds(10);
      }
      RecordedJob job = aligned(timeline);
      const RecordedJob before = job;
      ImportReport report;
      for (const double offset : align_clocks(job, report)) {
        EXPECT_LT(std::abs(offset), kToleranceNs) << op_type_name(odd) << ", " << stages << " stages";
      }
      EXPECT_EQ(job.start_ns, before.start_ns);
      EXPECT_EQ(job.end_ns, before.end_ns);
      EXPECT_TRUE(report.entries().empty()) << text(report);
    }
  }
}

// A long pipeline of one replica: neighbours are linked in a chain, so that an offset must travel far.
TEST(Clocks, OffsetIsFoundAtTheEndOfALongPipeline) {
  MadeJobSpec spec = job_spec();
  spec.dp = 1;
  spec.pp = 16;
  spec.clock_offset_s = {{15, 0.02}, {0, -0.02}};
  RecordedJob job = aligned(make_job(spec).timeline);
  ImportReport report;
  const std::vector<double> offsets = align_clocks(job, report);
  ASSERT_EQ(offsets.size(), 16U);
  for (std::size_t i = 1; i < 15; ++i) EXPECT_NEAR(offsets[i], 0, kToleranceNs) << i;
  EXPECT_NEAR(offsets[0], -20e6, kToleranceNs);
  EXPECT_NEAR(offsets[15], 20e6, kToleranceNs);
}

TEST(Clocks, LoneRankHasNothingToCompareWith) {
  MadeJobSpec spec = job_spec();
  spec.dp = spec.pp = 1;
  RecordedJob job = aligned(make_job(spec).timeline);
  ImportReport report;
  EXPECT_TRUE(align_clocks(job, report).empty());
}

}  // namespace
}  // namespace prism
