// SPDX-License-Identifier: Apache-2.0
// Alignment of ragged timelines, on the smallest ones that show the point. Damaged files as a whole:
// tests/mutations_test.cpp.
#include "prism/model/recorded_job.hpp"

#include <algorithm>
#include <functional>
#include <random>

#include <gtest/gtest.h>

#include "prism/io/test_dir.hpp"
#include "prism/trace/error.hpp"

namespace prism {
namespace {

using enum OpType;

constexpr std::int64_t kMs = 1'000'000;

/// Two stages, each a forward, a backward and an optimizer, in 10 ms slots; later in later steps and
/// replicas, so that every value is different.
OpTimeline timeline(const std::vector<int>& steps, const std::vector<int>& replicas) {
  OpTimeline t;
  t.source = "trace.csv";
  for (const int step : steps) {
    for (const int replica : replicas) {
      for (int stage = 0; stage < 2; ++stage) {
        int slot = stage;
        for (const OpType type : {ForwardCompute, BackwardCompute, Optimizer}) {
          t.records.push_back({.dp_rank = replica,
                               .stage = stage,
                               .rank = static_cast<int>(replicas.size()) * stage + replica,
                               .step = step,
                               .type = type,
                               .seq = 0,
                               .chunk = is_compute(type) ? 0 : -1,
                               .microbatch = is_compute(type) ? 0 : -1,
                               .start = Nanos(10 * kMs * slot + 100 * step + replica),
                               .duration = Nanos(10 * kMs + step),
                               .line = static_cast<std::uint32_t>(t.records.size() + 2)});
          slot += 2;
        }
      }
    }
  }
  return t;
}

struct Aligned {
  RecordedJob job;
  ImportReport report;
};

Aligned aligned(const OpTimeline& t) {
  Aligned result;
  result.job = align(t, result.report);
  return result;
}

void remove_rows(OpTimeline& t, const std::function<bool(const OpRecord&)>& unwanted) {
  std::erase_if(t.records, unwanted);
}

/// "reason xcount [first place]" of each entry.
std::vector<std::string> entries(const ImportReport& report) {
  std::vector<std::string> text;
  for (const ImportEntry& e : report.entries()) {
    text.push_back(e.reason + " x" + std::to_string(e.count) + " [" + (e.places.empty() ? "" : e.places[0]) +
                   "]");
  }
  return text;
}

using Lines = std::vector<std::string>;

TEST(Align, KeepsEveryTimeInItsPlace) {
  const auto [job, report] = aligned(timeline({7, 9, 30}, {0, 1}));
  EXPECT_EQ(entries(report), Lines{});
  EXPECT_EQ(job.source, "trace.csv");
  EXPECT_EQ(job.steps, (std::vector{7, 9, 30}));
  EXPECT_EQ(job.replicas(), 2U);
  EXPECT_EQ(job.stages(), 2);
  EXPECT_EQ(job.ranks, (std::vector{0, 2, 1, 3}));
  ASSERT_EQ(job.ops.size(), 6U);
  EXPECT_EQ(op_text(job.ops[OpId(0)]), "forward-compute 0 of stage 0");
  EXPECT_EQ(op_text(job.ops[OpId(2)]), "optimizer 0 of stage 0");
  EXPECT_EQ(op_text(job.ops[OpId(5)]), "optimizer 0 of stage 1");
  // Optimizer of stage 1 (slot 5) in the third step (30) of replica 1.
  // Times count from the step's first start, which the file has at 3,000 ns.
  EXPECT_EQ(job.start(OpId(5), 2, 1), 50e6 + 1);
  EXPECT_EQ(job.end(OpId(5), 2, 1), 60e6 + 1 + 30);
  // Over all ranks: from slot 0 of replica 0 to the end of slot 5 of replica 1.
  EXPECT_EQ(job.first_starts_ns(), (std::vector{0.0, 0.0, 0.0}));
  EXPECT_EQ(job.step_times_ns(), (std::vector{60e6 + 8, 60e6 + 10, 60e6 + 31}));
}

TEST(Align, OrderOfRowsDoesNotMatter) {
  OpTimeline t = timeline({3, 1, 2}, {1, 0});
  const RecordedJob sorted = aligned(t).job;
  EXPECT_EQ(sorted.steps, (std::vector{1, 2, 3}));
  std::shuffle(t.records.begin(), t.records.end(), std::mt19937(4));
  const RecordedJob shuffled = aligned(t).job;
  EXPECT_EQ(shuffled.start_ns, sorted.start_ns);
  EXPECT_EQ(shuffled.end_ns, sorted.end_ns);
  EXPECT_EQ(shuffled.ops, sorted.ops);
  EXPECT_EQ(shuffled.ranks, sorted.ranks);
}

// Replica numbers may have gaps; they become 0, 1, ... in order.
TEST(Align, ReplicaNumbersMayHaveGaps) {
  const auto [job, report] = aligned(timeline({1, 2}, {8, 3, 5}));
  EXPECT_EQ(job.replicas(), 3U);
  EXPECT_EQ(job.ranks, (std::vector{3, 6, 5, 8, 8, 11}));
  EXPECT_EQ(entries(report), Lines{});
}

//              steps 1 2 3 4
//   replica 0        + + + +
//   replica 1        + + + +
//   replica 2        + - - -      2 replicas x 4 steps beat 3 x 1
TEST(Align, LeavesOutAReplicaThatCostsTooManySteps) {
  OpTimeline t = timeline({1, 2, 3, 4}, {0, 1, 2});
  remove_rows(t, [](const OpRecord& r) { return r.dp_rank == 2 && r.step > 1 && r.type == Optimizer; });
  const auto [job, report] = aligned(t);
  EXPECT_EQ(job.steps.size(), 4U);
  EXPECT_EQ(job.ranks, (std::vector{0, 3, 1, 4}));
  EXPECT_EQ(entries(report),
            Lines{"replica left out: incomplete in too many steps x1 [replica 2 is complete in 1]"});
}

//   replica 2        + + + -      3 replicas x 3 steps beat 2 x 4
TEST(Align, LeavesOutAStepThatOneReplicaLacks) {
  OpTimeline t = timeline({1, 2, 3, 4}, {0, 1, 2});
  remove_rows(t, [](const OpRecord& r) { return r.dp_rank == 2 && r.step == 4; });
  const auto [job, report] = aligned(t);
  EXPECT_EQ(job.steps, (std::vector{1, 2, 3}));
  EXPECT_EQ(job.replicas(), 3U);
  EXPECT_EQ(entries(report), Lines{"step left out: a replica is absent x1 [step 4]"});
}

//   replica 0        + + + +
//   replica 1        + + - -      2 replicas x 2 steps are as many as 1 x 4: the job keeps its size
TEST(Align, OfEqualChoicesKeepsMoreReplicas) {
  OpTimeline t = timeline({1, 2, 3, 4}, {0, 1});
  remove_rows(t, [](const OpRecord& r) { return r.dp_rank == 1 && r.step > 2 && r.type == Optimizer; });
  const auto [job, report] = aligned(t);
  EXPECT_EQ(job.replicas(), 2U);
  EXPECT_EQ(job.steps, (std::vector{1, 2}));
  EXPECT_EQ(entries(report), Lines{"step left out: ops are missing x2 [step 3, replica 1]"});
}

// An incomplete replica in the middle of the numbers, and a step that another one lacks.
TEST(Align, LeavesOutReplicasAndSteps) {
  OpTimeline t = timeline({1, 2, 3, 4, 5}, {0, 1, 2, 3});
  remove_rows(t, [](const OpRecord& r) { return r.dp_rank == 1 && r.stage == 0 && r.type == Optimizer; });
  remove_rows(t, [](const OpRecord& r) { return r.dp_rank == 3 && r.step == 2 && r.type == Optimizer; });
  const auto [job, report] = aligned(t);
  EXPECT_EQ(job.steps, (std::vector{1, 3, 4, 5}));
  EXPECT_EQ(job.ranks, (std::vector{0, 4, 2, 6, 3, 7}));
  EXPECT_EQ(entries(report),
            (Lines{"replica left out: incomplete in too many steps x1 [replica 1 is complete in 0]",
                   "step left out: ops are missing x1 [step 2, replica 3]"}));
}

// Of two structures that are equally common, the one with more ops: a truncated half must not win.
TEST(Align, WholeStepsWinOverAsManyTruncatedOnes) {
  OpTimeline t = timeline({1, 2, 3, 4}, {0});
  remove_rows(t, [](const OpRecord& r) { return r.step <= 2 && r.type == Optimizer; });
  const auto [job, report] = aligned(t);
  EXPECT_EQ(job.steps, (std::vector{3, 4}));
  EXPECT_EQ(job.ops.size(), 6U);
  EXPECT_EQ(entries(report), Lines{"step left out: ops are missing x2 [step 1, replica 0]"});
}

TEST(Align, TheCommonStructureWinsOverTheFirst) {
  OpTimeline t = timeline({1, 2, 3}, {0});
  remove_rows(t, [](const OpRecord& r) { return r.step >= 2 && r.type == Optimizer; });
  const auto [job, report] = aligned(t);
  EXPECT_EQ(job.steps, (std::vector{2, 3}));
  EXPECT_EQ(entries(report), Lines{"step left out: it has more ops than the others x1 [step 1, replica 0]"});
}

// Numbers are optional and must not cost data: if they differ, they are not used.
TEST(Align, MicrobatchesOfAnotherNumberAreNotUsed) {
  OpTimeline t = timeline({1, 2, 3}, {0});
  for (OpRecord& r : t.records) {
    if (r.step == 2 && r.type == ForwardCompute) r.microbatch = 1;
  }
  const auto [job, report] = aligned(t);
  EXPECT_EQ(job.steps, (std::vector{1, 2, 3}));
  for (const TemplateOp& op : job.ops) EXPECT_EQ(op.microbatch, -1) << op_text(op);
  EXPECT_EQ(entries(report),
            Lines{"microbatches are not numbered alike everywhere; samples keep their order x1 [trace.csv]"});
}

// Numbers may start anywhere.
TEST(Align, MicrobatchesAreCountedFromZero) {
  OpTimeline t = timeline({1, 2, 3}, {0, 1});
  for (OpRecord& r : t.records) r.microbatch += 5;
  const auto [job, report] = aligned(t);
  EXPECT_EQ(entries(report), Lines{});
  EXPECT_EQ(job.ops[OpId(0)].microbatch, 0);
}

// Epoch times: the origin is the step's first start.
TEST(Align, AnyOriginOfTimeWillDo) {
  OpTimeline t = timeline({1, 2}, {0});
  const auto near_zero = aligned(t).job;
  for (OpRecord& r : t.records) r.start += std::chrono::seconds(1'700'000'000);
  EXPECT_EQ(aligned(t).job.start_ns, near_zero.start_ns);
}

TEST(Align, ExactDoublesAreRemovedAndNamedByLine) {
  OpTimeline t = timeline({1, 2}, {0});
  t.records.push_back(t.records[3]);
  t.records.back().line = 99;
  t.records.push_back(t.records[3]);
  t.records.back().line = 100;
  const auto [job, report] = aligned(t);
  EXPECT_EQ(job.steps.size(), 2U);
  EXPECT_EQ(entries(report), Lines{"row removed: an exact double of another x2 [trace.csv:99]"});
}

TEST(Align, MeshComesFromTheTraceAndTheMetadata) {
  OpTimeline t = timeline({1}, {0, 1, 2});
  t.meta = {.source = "meta.yaml",
            .trial_name = "run 7",
            .dp_size = 3,
            .pp_size = 2,
            .tp_size = 4,
            .dsp_size = 2,
            .vpp_size = 1,
            .world_size = 48};
  const auto [job, report] = aligned(t);
  EXPECT_EQ(entries(report), Lines{});
  EXPECT_EQ(job.trial_name, "run 7");
  EXPECT_EQ(job.mesh.text(), "tp 4 x cp 2 x dp 3 x pp 2");
}

// rank = tp + 4 * (d + 3 * stage), or tp + 4 * (stage + 2 * d): the worker of tensor rank 0 is recorded.
TEST(Align, RankOrderComesFromTheRanks) {
  OpTimeline t = timeline({1}, {0, 1, 2});
  t.meta.tp_size = 4;
  for (OpRecord& r : t.records) r.rank = 4 * (r.dp_rank + 3 * r.stage);
  const auto outer_stages = aligned(t);
  EXPECT_EQ(outer_stages.job.mesh.order_text(), "tp-cp-ep-dp-pp");
  for (OpRecord& r : t.records) r.rank = 4 * (r.stage + 2 * r.dp_rank);
  const auto outer_replicas = aligned(t);
  EXPECT_EQ(outer_replicas.job.mesh.order_text(), "tp-cp-ep-pp-dp");
  for (OpRecord& r : t.records) r.rank = 7 * r.stage + r.dp_rank;
  const auto neither = aligned(t);
  EXPECT_EQ(neither.job.mesh.order_text(), "tp-cp-ep-dp-pp");
}

TEST(Align, MetadataIsAClaimToCheck) {
  OpTimeline t = timeline({1}, {0, 1});
  t.meta = {.source = "meta.yaml", .dp_size = 4, .vpp_size = 2, .world_size = 9};
  const auto [job, report] = aligned(t);
  EXPECT_EQ(job.mesh.text(), "dp 2 x pp 2");
  EXPECT_EQ(
      entries(report),
      (Lines{"metadata disagrees with the trace, which is used x2 [meta.yaml: dp_size is 4, the trace has 2]",
             "metadata contradicts itself x1 [meta.yaml: world_size is 9, the product of the sizes is 8]"}));
}

TEST(Align, OneOpTwiceInEveryStepIsRefused) {
  OpTimeline t = timeline({1}, {0});
  t.records.push_back(t.records[0]);
  t.records.back().duration += Nanos(1);
  ImportReport report;
  const std::string message = thrown<InputError>([&] { (void)align(t, report); });
  EXPECT_NE(message.find("trace.csv"), std::string::npos) << message;
  EXPECT_NE(message.find("recorded twice"), std::string::npos) << message;
}

// Nothing was recorded twice where nothing was recorded at all: the message must not say so.
TEST(Align, NoRecordsAreRefusedForWhatTheyAre) {
  ImportReport report;
  const std::string message = thrown<InputError>([&] { (void)align({.source = "trace.csv"}, report); });
  EXPECT_NE(message.find("trace.csv"), std::string::npos) << message;
  EXPECT_EQ(message.find("twice"), std::string::npos) << message;
}

TEST(Align, MissingStageIsRefused) {
  OpTimeline t = timeline({1, 2}, {0});
  for (OpRecord& r : t.records) r.stage *= 2;
  ImportReport report;
  EXPECT_NE(thrown<InputError>([&] { (void)align(t, report); }).find("no row of pipeline stage 1"),
            std::string::npos);
}

}  // namespace
}  // namespace prism
