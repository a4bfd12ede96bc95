// SPDX-License-Identifier: Apache-2.0
// What is written as Kineto's JSON reads back as it was: made-up jobs, real traces, simulated steps.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "prism/analysis/open_model.hpp"
#include "prism/analysis/replay.hpp"
#include "prism/analysis/simulated_trace.hpp"
#include "prism/ingest/kineto.hpp"
#include "prism/io/test_dir.hpp"
#include "prism/report/kineto_json.hpp"
#include "tests/made_trace/damage.hpp"
#include "tests/made_trace/made_trace.hpp"
#include "tests/made_trace/trace_text.hpp"
#include "tests/made_trace/write_traces.hpp"

namespace prism {
namespace {

std::string entries(const ImportReport& report) {
  std::string text;
  for (const ImportEntry& e : report.entries()) text += e.reason + ": " + std::to_string(e.count) + "\n";
  return text;
}

/// The first lines in which two traces differ; empty if they are equal.
std::string difference(const RankTrace& expected, const RankTrace& got) {
  const std::vector<std::string> a = trace_text(expected);
  const std::vector<std::string> b = trace_text(got);
  const auto [x, y] = std::ranges::mismatch(a, b);
  if (x == a.end() && y == b.end()) return "";
  return "expected: " + (x == a.end() ? "no more" : *x) + "\ngot:      " + (y == b.end() ? "no more" : *y);
}

void expect_round_trip(const RankTrace& trace) {
  ImportReport report;
  const RankTrace read =
      read_kineto_bytes(kineto_json(trace, "made.json"), "made.json", {.strict = true}, report);
  EXPECT_EQ(difference(trace, read), "");
  EXPECT_EQ(entries(report), "");
}

TEST(KinetoRoundTrip, MadeJobs) {
  MadeTraceSpec spec{.tp = 2,
                     .dp = 2,
                     .pp = 2,
                     .ranks_per_host = 4,
                     .microbatches = 2,
                     .cuda_graphs = true,
                     .sync_records = true,
                     .clock_offset_us = {{1, -200}}};
  for (const Metadata metadata : {Metadata::None, Metadata::Position, Metadata::Names, Metadata::Full}) {
    spec.metadata = metadata;
    for (const RankTrace& trace : make_trace(spec).ranks) expect_round_trip(trace);
  }
  spec.older_base = {3};
  spec.data_parallelism = DataParallelism::Fsdp;
  spec.step_end = StepEnd::DeviceSync;
  for (const RankTrace& trace : make_trace(spec).ranks) expect_round_trip(trace);
}

TEST(KinetoRoundTrip, RelativeTimes) {
  MadeTraceSpec spec{.dp = 2, .absolute_time = false};
  for (const RankTrace& trace : make_trace(spec).ranks) {
    EXPECT_LT(trace.gpu_ops.back().end_ns(), 1'000'000'000);
    ImportReport report;
    const RankTrace read = read_kineto_bytes(kineto_json(trace, "made.json"), "made.json", {}, report);
    EXPECT_EQ(difference(trace, read), "");
  }
}

// What the profiler lost is set aside and counted, and nothing else.
TEST(KinetoRoundTrip, LostTimesAreCounted) {
  RankTrace trace = make_trace({.dp = 2}).ranks[0];
  const std::size_t zeroed = zero_gpu_times(trace, 0.2, 1);
  ASSERT_GT(zeroed, 0U);
  ImportReport report;
  const RankTrace read = read_kineto_bytes(kineto_json(trace, "made.json"), "made.json", {}, report);
  EXPECT_EQ(read.counts.gpu_ops, trace.gpu_ops.size());
  EXPECT_EQ(read.counts.gpu_ops_set_aside, zeroed);
  EXPECT_EQ(read.gpu_ops.size(), trace.gpu_ops.size() - zeroed);
}

// Stretched durations are cut at the next kernel, but for those of the last op of a stream.
TEST(KinetoRoundTrip, CorruptDurationsAreCut) {
  const RankTrace whole = make_trace({.dp = 2}).ranks[0];
  RankTrace trace = whole;
  const std::size_t stretched = stretch_gpu_durations(trace, 0.2, 1);
  ImportReport report;
  const RankTrace read = read_kineto_bytes(kineto_json(trace, "made.json"), "made.json", {}, report);
  std::size_t longer = 0;
  for (std::size_t i = 0; i < read.gpu_ops.size(); ++i) {
    if (read.gpu_ops[i].duration_ns > 100'000'000) ++longer;
  }
  EXPECT_GT(stretched, longer + 3);
  EXPECT_LE(longer, 3U) << "at most one per stream";
}

// A file cut anywhere reads up to the cut.
TEST(KinetoRoundTrip, CutFile) {
  const RankTrace trace = make_trace({.dp = 2}).ranks[0];
  const std::string text = kineto_json(trace, "made.json");
  ImportReport report;
  const RankTrace read = read_kineto_bytes(text.substr(0, text.size() / 2), "made.json", {}, report);
  EXPECT_FALSE(read.complete);
  EXPECT_NE(entries(report), "");
  EXPECT_EQ(read.rank, trace.rank);
  EXPECT_GT(read.calls.size() + read.cpu_ops.size(), 0U);
}

// Real traces, read, written and read again. Counts and what was dropped on the first reading differ, no more.
TEST(KinetoRoundTrip, RealTraces) {
  const std::filesystem::path data = std::filesystem::path(PRISM_SOURCE_DIR) / "../shared/data/kineto";
  if (!std::filesystem::exists(data)) GTEST_SKIP() << "NOT TESTED: no real traces at " << data;
  for (const char* name :
       {"multi/nanogpt-h100-8rank/e049e-rank0-chrome-trace.json.gz",
        "multi/megatron-tp8-a100-8rank/megatron_kineto_3.json.gz",
        "graphs/sglang-qwen3-decode-one-correlation-544-kernels.json.gz",
        "sync/event-sync-multi-stream.json.gz", "sync/alexnet-cuda-sync.json.gz",
        "amd/mi250-minitoy-rocm62.json.gz", "old/gpu-metrics-counters-without-tid.json.gz"}) {
    ImportReport report;
    const RankTrace first = read_kineto(data / name, {.rank = 0}, report);
    const RankTrace second = read_kineto_bytes(kineto_json(first, name), name, {.rank = 0}, report);
    EXPECT_EQ(difference(first, second), "") << name;
  }
}

// The example's steps, replayed, written to files and read: step times from the files are those of the replay.
TEST(KinetoRoundTrip, ReplayedStepsKeepTheirTimes) {
  const StepModel model = open_model(std::filesystem::path(PRISM_SOURCE_DIR) / "examples/pipeline-16gpu");
  const std::vector<SimulatedStep> steps = simulate_steps(model, {.recorded_steps = std::pair(101, 104)}, {});
  const SimulatedTraces traces(model, steps);
  std::vector<RankTrace> ranks;
  for (std::size_t i = 0; i < traces.rank_count(); ++i) ranks.push_back(traces.rank(i));
  for (const RankTrace& trace : ranks) expect_round_trip(trace);
  const TestDir dir;
  const std::vector<std::filesystem::path> paths = write_traces(ranks, dir.path());
  ImportReport report;
  const std::vector<RankTrace> read = read_kineto_files(paths, {.strict = true}, {}, report);
  ASSERT_EQ(read.size(), 16U);
  const ReplayResult expected = replay(model, {});
  std::vector<std::int64_t> end_ns(steps.size() + 1);
  for (const RankTrace& trace : read) {
    ASSERT_EQ(trace.annotations.size(), steps.size());
    for (const GpuOp& op : trace.gpu_ops) {
      const auto call = std::ranges::find(trace.calls, op.correlation, &HostCall::correlation);
      std::size_t step = 0;  // of an op without a launch: before the first
      while (call != trace.calls.end() && step < steps.size() &&
             trace.annotations[step].start_ns <= call->start_ns) {
        ++step;
      }
      end_ns[step] = std::max(end_ns[step], op.end_ns());
    }
  }
  for (std::size_t k = 0; k < steps.size(); ++k) {
    EXPECT_NEAR(static_cast<double>(end_ns[k + 1] - end_ns[k]), expected.steps[k].replayed_ns, 1) << k;
  }
}

}  // namespace
}  // namespace prism
