// SPDX-License-Identifier: Apache-2.0
// The files with one oddity each that public bug reports describe, and what a good reader does with them
// (EXPECT.tsv beside them). What concerns several ranks at once is tested where ranks are matched.
#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prism/ingest/kineto.hpp"
#include "prism/io/test_dir.hpp"
#include "prism/trace/error.hpp"

namespace prism {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

constexpr std::int64_t kBase = 1759300074000000000;

class KinetoOddities : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(folder())) GTEST_SKIP() << "NOT TESTED: there is no " << folder().string();
  }

  static fs::path folder() { return fs::path(PRISM_SOURCE_DIR) / "../shared/data/kineto/synthetic"; }

  const RankTrace& read(const std::string& file, const KinetoOptions& options = {}) {
    report_ = {};
    trace_ = read_kineto(folder() / file, options, report_);
    return trace_;
  }

  /// How often the report says it; 0 if it does not.
  [[nodiscard]] std::size_t said(std::string_view part) const {
    std::size_t count = 0;
    for (const ImportEntry& entry : report_.entries()) {
      if (entry.reason.find(part) != std::string::npos) count += entry.count;
    }
    return count;
  }

  void expect_as_good(std::string_view why) {
    SCOPED_TRACE(why);
    EXPECT_EQ(trace_.counts.complete_events, 7U);
    ASSERT_EQ(trace_.gpu_ops.size(), 3U);
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const GpuOp& op = trace_.gpu_ops[i];
      EXPECT_EQ(op.stream, 7U);
      EXPECT_EQ(trace_.name(op.name), "toy_kernel");
      sum += op.duration_ns;
      ASSERT_LT(i, trace_.calls.size());
      EXPECT_EQ(trace_.calls[i].correlation, op.correlation);
      EXPECT_EQ(trace_.calls[i].kind, HostCallKind::Launch);
    }
    EXPECT_EQ(sum, 30000);
    ASSERT_EQ(trace_.annotations.size(), 1U);
    EXPECT_EQ(trace_.name(trace_.annotations[0].name), "ProfilerStep#1");
  }

  void expect_strict_refuses(const std::string& file, std::string_view why) {
    EXPECT_THAT(thrown<InputError>([&] { read(file, {.strict = true}); }),
                AllOf(HasSubstr(file), HasSubstr(std::string(why)), HasSubstr("fix: ")));
  }

  ImportReport report_;
  RankTrace trace_;
};

TEST_F(KinetoOddities, Good) {
  read("00-good.json");
  expect_as_good("nothing is odd");
  EXPECT_TRUE(report_.entries().empty());
  EXPECT_EQ(trace_.gpu_ops[0].start_ns, kBase + 1'016'000);
  EXPECT_EQ(trace_.rank, 0);
  EXPECT_EQ(trace_.gpu_name, "TOY GPU");
  EXPECT_EQ(trace_.backend, "nccl");
  read("00-good.json", {.strict = true});
  expect_as_good("strict reading takes sound files");
}

TEST_F(KinetoOddities, TruncatedInAString) {
  read("01-truncated-in-string.json");
  EXPECT_EQ(trace_.counts.events, 4U);
  EXPECT_EQ(trace_.gpu_ops.size(), 1U);
  EXPECT_EQ(trace_.annotations.size(), 1U);
  EXPECT_FALSE(trace_.complete);
  ASSERT_EQ(said("ends early"), 1U);
  EXPECT_THAT(report_.entries()[0].places, ElementsAre(HasSubstr("at byte 1026")));
  expect_strict_refuses("01-truncated-in-string.json", "at byte 1026");
}

TEST_F(KinetoOddities, TruncatedGzip) {
  read("02-truncated-gzip.json.gz");
  EXPECT_EQ(said("compressed data is damaged"), 1U);
  EXPECT_EQ(said("ends early"), 1U);
  EXPECT_FALSE(trace_.complete);
  EXPECT_GT(trace_.gpu_ops.size(), 100U);
  EXPECT_EQ(trace_.gpu_ops.size(), trace_.calls.size());
  expect_strict_refuses("02-truncated-gzip.json.gz", "ends early");
}

TEST_F(KinetoOddities, TrailingComma) {
  read("03-trailing-comma.json");
  expect_as_good("a comma after the last event");
  EXPECT_EQ(said("comma"), 1U);
  expect_strict_refuses("03-trailing-comma.json", "comma");
}

TEST_F(KinetoOddities, BareBackslash) {
  read("04-bare-backslash.json");
  EXPECT_EQ(trace_.counts.events, 8U);
  EXPECT_EQ(trace_.gpu_ops.size(), 3U);
  EXPECT_EQ(said("backslash"), 1U);
  expect_strict_refuses("04-bare-backslash.json", "backslash");
}

TEST_F(KinetoOddities, ControlCharacters) {
  read("05-control-chars-in-name.json");
  EXPECT_EQ(trace_.counts.events, 8U);
  EXPECT_EQ(trace_.gpu_ops.size(), 3U);
  EXPECT_EQ(said("control character"), 1U);
  expect_strict_refuses("05-control-chars-in-name.json", "control character");
}

TEST_F(KinetoOddities, UnescapedQuotes) {
  read("06-unescaped-quotes-in-name.json");
  EXPECT_EQ(trace_.counts.events, 9U);
  EXPECT_EQ(trace_.gpu_ops.size(), 4U);
  EXPECT_EQ(said("not JSON"), 1U);
  EXPECT_TRUE(trace_.complete);
  expect_strict_refuses("06-unescaped-quotes-in-name.json", "not JSON");
}

TEST_F(KinetoOddities, NotUtf8) {
  read("07-not-utf8.json");
  ASSERT_EQ(trace_.gpu_ops.size(), 4U);
  EXPECT_EQ(trace_.name(trace_.gpu_ops[3].name), "k\xef\xbf\xbd(\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(said("UTF-8"), 1U);
  expect_strict_refuses("07-not-utf8.json", "UTF-8");
}

TEST_F(KinetoOddities, TopLevelArray) {
  read("08-top-level-array.json");
  expect_as_good("no object around the events");
  EXPECT_EQ(said("rank not recorded"), 1U);
  EXPECT_EQ(trace_.rank, 0);
  EXPECT_FALSE(trace_.base_time_ns);
  EXPECT_FALSE(trace_.absolute_time);
}

TEST_F(KinetoOddities, NotANumberWhereItDoesNotMatter) {
  read("09-nan-inf.json");
  EXPECT_EQ(trace_.gpu_ops.size(), 4U);
}

TEST_F(KinetoOddities, DuplicateKeys) {
  read("10-duplicate-keys.json");
  ASSERT_EQ(trace_.gpu_ops.size(), 4U);
  const GpuOp& op = trace_.gpu_ops[3];
  EXPECT_EQ(op.start_ns, kBase + 1'061'000);
  EXPECT_EQ(op.stream, 8U);
  EXPECT_EQ(op.correlation, 45);
  EXPECT_EQ(said("repeats a key"), 1U);
}

TEST_F(KinetoOddities, StringsAndCapitalsOf2021) {
  read("11-2021-strings-and-capitals.json");
  ASSERT_EQ(trace_.gpu_ops.size(), 2U);
  EXPECT_EQ(trace_.gpu_ops[0].kind, GpuOpKind::Kernel);
  EXPECT_EQ(trace_.gpu_ops[0].stream, 7U);
  EXPECT_EQ(trace_.gpu_ops[0].start_ns, 1623143089861015000);
  EXPECT_EQ(trace_.gpu_ops[1].kind, GpuOpKind::Memcpy);
  EXPECT_EQ(trace_.gpu_ops[1].bytes, 4096);
  ASSERT_EQ(trace_.calls.size(), 1U);
  EXPECT_EQ(trace_.calls[0].correlation, trace_.gpu_ops[0].correlation);
  EXPECT_EQ(trace_.cpu_ops.size(), 1U);
  EXPECT_TRUE(trace_.absolute_time);
}

TEST_F(KinetoOddities, KernelsAtTimeZero) {
  read("12-kernels-at-time-zero.json");
  EXPECT_EQ(trace_.gpu_ops.size(), 3U);
  EXPECT_EQ(trace_.gpu_ops.front().start_ns, kBase + 1'016'000);
  EXPECT_EQ(trace_.counts.gpu_ops, 5U);
  EXPECT_EQ(trace_.counts.gpu_ops_set_aside, 2U);
  EXPECT_EQ(said("ts 0"), 2U);
}

TEST_F(KinetoOddities, NegativeAndHugeDurations) {
  read("13-negative-and-huge-duration.json");
  EXPECT_EQ(trace_.gpu_ops.size(), 4U);
  EXPECT_EQ(trace_.counts.gpu_ops_set_aside, 2U);
  EXPECT_EQ(said("its duration was lost"), 1U);
  EXPECT_EQ(said("longer than the traced time"), 1U);
}

TEST_F(KinetoOddities, NumbersAsStrings) {
  read("14-numbers-as-strings.json");
  ASSERT_EQ(trace_.gpu_ops.size(), 1U);
  EXPECT_EQ(trace_.gpu_ops[0].start_ns, kBase + 1'000'125);
  EXPECT_EQ(trace_.gpu_ops[0].duration_ns, 2500);
  EXPECT_EQ(trace_.gpu_ops[0].correlation, 5);
}

TEST_F(KinetoOddities, MissingFields) {
  read("15-missing-fields.json");
  EXPECT_EQ(trace_.counts.events, 13U);
  ASSERT_EQ(trace_.gpu_ops.size(), 5U);  // the three good ones, the one without args, the one without a name
  EXPECT_EQ(trace_.name(trace_.gpu_ops[3].name), "no args");
  EXPECT_EQ(trace_.gpu_ops[3].device, 0);
  EXPECT_EQ(trace_.gpu_ops[3].stream, 9U);
  EXPECT_EQ(trace_.name(trace_.gpu_ops[4].name), "");
  EXPECT_EQ(said("no usable start time"), 1U);
  EXPECT_EQ(said("duration was lost"), 1U);
  EXPECT_EQ(said("without a usable name"), 1U);
}

TEST_F(KinetoOddities, SeqAnd64BitCommsId) {
  read("16-seq-and-64-bit-comms-id.json");
  ASSERT_EQ(trace_.comms.size(), 1U);
  EXPECT_GT(trace_.comms[0].comms_id, std::uint64_t{1} << 63U);
  EXPECT_GE(trace_.comms[0].sequence, 0);
}

TEST_F(KinetoOddities, NoEvents) {
  read("17-metadata-events-only.json");
  EXPECT_TRUE(trace_.gpu_ops.empty());
  EXPECT_EQ(said("no GPU work"), 1U);
  read("18-empty-events.json");
  EXPECT_EQ(trace_.counts.events, 0U);
  EXPECT_EQ(said("no GPU work"), 1U);
  EXPECT_THAT(thrown<InputError>([&] { read("19-empty-file.json"); }), HasSubstr("is empty"));
}

TEST_F(KinetoOddities, MarkAndLineEnds) {
  read("20-bom-crlf.json");
  expect_as_good("UTF-8 mark and CRLF");
  EXPECT_TRUE(report_.entries().empty());
}

TEST_F(KinetoOddities, CudaGraph) {
  read("21-cuda-graph.json");
  ASSERT_EQ(trace_.gpu_ops.size(), 12U);
  ASSERT_EQ(trace_.calls.size(), 1U);
  EXPECT_EQ(trace_.name(trace_.calls[0].name), "cudaGraphLaunch");
  EXPECT_EQ(trace_.calls[0].kind, HostCallKind::Launch);
  for (const GpuOp& op : trace_.gpu_ops) {
    EXPECT_EQ(op.correlation, trace_.calls[0].correlation);
    EXPECT_EQ(op.graph, 5U);
  }
}

TEST_F(KinetoOddities, StepsThatRepeatTheirNumber) {
  read("22-two-profiler-cycles.json");
  EXPECT_EQ(trace_.annotations.size(), 3U);
  read("23-step-number-twice-overlapping.json");
  EXPECT_EQ(trace_.annotations.size(), 2U);
}

TEST_F(KinetoOddities, RowOfStreamSyncs) {
  read("24-stream-sync-row.json");
  ASSERT_EQ(trace_.syncs.size(), 1U);
  EXPECT_EQ(trace_.syncs[0].stream, 7U);
  EXPECT_EQ(trace_.syncs[0].kind, SyncRecord::Kind::StreamSync);
  ASSERT_EQ(trace_.calls.size(), 4U);
  EXPECT_EQ(trace_.calls[3].kind, HostCallKind::StreamSync);
}

TEST_F(KinetoOddities, SeveralGzipMembers) {
  const std::uint64_t digest = read("00-good.json").digest;
  read("25-multi-member.json.gz");
  expect_as_good("two gzip members");
  EXPECT_EQ(trace_.digest, digest);
}

TEST_F(KinetoOddities, BeginAndEndPairs) {
  read("26-begin-end-pairs.json");
  ASSERT_EQ(trace_.gpu_ops.size(), 2U);
  EXPECT_EQ(trace_.gpu_ops[0].duration_ns, 10'000);
  EXPECT_EQ(said("joined"), 1U);
}

TEST_F(KinetoOddities, BrokenInfoBlock) {
  read("27-broken-info-block.json");
  expect_as_good("log lines after the events");
  EXPECT_EQ(said("block beside the events"), 1U);
  EXPECT_TRUE(trace_.complete);
}

TEST_F(KinetoOddities, SeveralRanks) {
  for (const auto& [name, rank0, rank1] :
       {std::tuple("28-first-collective-lost", 4, 3), std::tuple("29-quarter-boundary", 3, 3),
        std::tuple("30-clock-skew-850us", 4, 4), std::tuple("31-send-recv", 2, 2)}) {
    SCOPED_TRACE(name);
    report_ = {};
    const std::vector<fs::path> files = kineto_files_in(folder() / name, report_);
    const std::vector<RankTrace> traces = read_kineto_files(files, {}, {}, report_);
    ASSERT_EQ(traces.size(), 2U);
    EXPECT_EQ(std::ssize(traces[0].gpu_ops), rank0);
    EXPECT_EQ(std::ssize(traces[1].gpu_ops), rank1);
    EXPECT_EQ(traces[1].rank, 1);
    EXPECT_TRUE(report_.entries().empty());
    // Both bases are added, so the ranks meet in time.
    EXPECT_LT(traces[0].gpu_ops.back().start_ns, traces[1].gpu_ops.back().end_ns());
    EXPECT_LT(traces[1].gpu_ops.back().start_ns, traces[0].gpu_ops.back().end_ns() + 1'000'000);
  }
  const RankTrace& trace = read("31-send-recv/rank0.json");
  ASSERT_TRUE(trace.gpu_ops[0].comm);
  EXPECT_EQ(trace.comms[trace.gpu_ops[0].comm->value].destination, 1);
  EXPECT_FALSE(trace.gpu_ops[1].comm);
}

TEST_F(KinetoOddities, RankMissing) {
  EXPECT_EQ(read("32-rank-missing.json").rank, 0);
  EXPECT_EQ(said("rank not recorded: 0 assumed"), 1U);
  EXPECT_EQ(read("32-rank-missing.json", {.rank = 5}).rank, 5);
  EXPECT_EQ(said("rank"), 0U);
}

TEST_F(KinetoOddities, CutListsOfRanks) {
  read("33-truncated-group-ranks.json");
  ASSERT_EQ(trace_.comms.size(), 1U);
  ASSERT_EQ(trace_.groups.size(), 1U);
  ASSERT_EQ(trace_.groups[0].members.size(), 64U);
  EXPECT_EQ(trace_.groups[0].members.back(), 63);
  EXPECT_EQ(trace_.comms[0].members, trace_.groups[0].members);
}

TEST_F(KinetoOddities, Hip) {
  read("34-hip.json");
  ASSERT_EQ(trace_.gpu_ops.size(), 3U);
  EXPECT_EQ(trace_.gpu_ops[0].stream, 0U);
  EXPECT_EQ(trace_.gpu_ops[0].device, 2);
  EXPECT_EQ(trace_.gpu_ops[2].stream, 140221234567168U);
  EXPECT_EQ(trace_.gpu_ops[2].correlation, 0);
  ASSERT_EQ(trace_.calls.size(), 1U);
  EXPECT_EQ(trace_.name(trace_.calls[0].name), "hipExtLaunchKernel");
}

TEST_F(KinetoOddities, RanksAsOneString) {
  read("35-group-ranks-as-string.json");
  ASSERT_EQ(trace_.groups.size(), 1U);
  EXPECT_THAT(trace_.groups[0].members, ElementsAre(0, 1));
}

}  // namespace
}  // namespace prism
