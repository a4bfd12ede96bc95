// SPDX-License-Identifier: Apache-2.0
// Readers of op-level timelines, each on the smallest text that shows the point. Damage to whole jobs:
// tests/mutations_test.cpp.
#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "prism/ingest/job_meta.hpp"
#include "prism/ingest/op_timeline_csv.hpp"
#include "prism/io/test_dir.hpp"
#include "prism/trace/error.hpp"

namespace prism {
namespace {

const std::string kHeader = "dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id\n";
const std::string kRow = "1,2,34,56,forward-compute,0.25,0.125,3,0,7\n";

struct Parsed {
  OpTimeline timeline;
  ImportReport report;
};

Parsed parsed(const std::string& text) {
  Parsed result;
  result.timeline = parse_op_timeline(text, "trace.csv", result.report);
  return result;
}

/// The message of the InputError that the text causes.
std::string refusal(const std::string& text) {
  return thrown<InputError>([&] { (void)parsed(text); });
}

/// "reason xcount [places]" of each entry.
std::string entries(const ImportReport& report) {
  std::string text;
  for (const ImportEntry& e : report.entries()) {
    text += (text.empty() ? "" : "\n") + e.reason + " x" + std::to_string(e.count);
    for (const std::string& place : e.places) text += " [" + place + "]";
  }
  return text;
}

bool same(const OpRecord& a, const OpRecord& b) {
  return a.dp_rank == b.dp_rank && a.stage == b.stage && a.rank == b.rank && a.step == b.step &&
         a.type == b.type && a.seq == b.seq && a.chunk == b.chunk && a.microbatch == b.microbatch &&
         a.start == b.start && a.duration == b.duration;
}

const OpRecord kRecord{.dp_rank = 1,
                       .stage = 2,
                       .rank = 34,
                       .step = 56,
                       .type = OpType::ForwardCompute,
                       .seq = 3,
                       .chunk = 0,
                       .microbatch = 7,
                       .start = Nanos(250'000'000),
                       .duration = Nanos(125'000'000)};

// --- timelines
// --------------------------------------------------------------------------------------------------------

TEST(OpTimelineCsv, RowBecomesARecord) {
  const auto [timeline, report] = parsed(kHeader + kRow);
  EXPECT_EQ(timeline.source, "trace.csv");
  ASSERT_EQ(timeline.records.size(), 1U);
  EXPECT_TRUE(same(timeline.records[0], kRecord));
  EXPECT_EQ(timeline.records[0].line, 2U);
  EXPECT_EQ(entries(report), "");
}

TEST(OpTimelineCsv, ColumnsMayComeInAnyOrderAmongOthers) {
  const auto [timeline, report] = parsed(
      "note,mb_id,seq_id,duration,start_ts,optype,gmc,step,rank,stage,dp_rank,mc\n"
      "\"a, b\",7,3,0.125,0.25,forward-compute,99,56,34,2,1,0\n");
  ASSERT_EQ(timeline.records.size(), 1U);
  EXPECT_TRUE(same(timeline.records[0], kRecord));
  EXPECT_EQ(entries(report), "");
}

TEST(OpTimelineCsv, ChunkAndMicrobatchAreOptional) {
  const auto [timeline, report] = parsed(
      "dp_rank,stage,rank,step,optype,start_ts,duration,seq_id\n"
      "1,2,34,56,forward-compute,0.25,0.125,3\n");
  ASSERT_EQ(timeline.records.size(), 1U);
  EXPECT_EQ(timeline.records[0].chunk, -1);
  EXPECT_EQ(timeline.records[0].microbatch, -1);
  EXPECT_EQ(entries(report), "");
}

// Table tools write whole numbers as "3.0" when their column has gaps, and leave the gaps empty.
TEST(OpTimelineCsv, WholeNumbersMayLookLikeFractions) {
  const auto [timeline, report] =
      parsed(kHeader + "1.0,2.0,34.0,56.0,forward-compute,0.25,0.125,3.0,0.0,7.0\n" +
             " 1 ,+2,34,5.6e1,forward-compute,2.5e-1, 0.125 ,3,0,7\n" + "1,2,34,56,gc,0,0,0,,\n");
  ASSERT_EQ(timeline.records.size(), 3U);
  EXPECT_TRUE(same(timeline.records[0], kRecord));
  EXPECT_TRUE(same(timeline.records[1], kRecord));
  EXPECT_EQ(timeline.records[2].chunk, -1);
  EXPECT_EQ(entries(report), "");
}

TEST(OpTimelineCsv, NumbersThatAreNoIndexLeaveTheRowOut) {
  for (const char* bad : {"1.5", "-1", "", "nan", "inf", "1e300", "16777217", "0x1", "1,2"}) {
    const auto [timeline, report] =
        parsed(kHeader + kRow + bad + ",2,34,56,forward-compute,0.25,0.125,3,0,7\n");
    EXPECT_EQ(timeline.records.size(), 1U) << bad;
    ASSERT_EQ(report.entries().size(), 1U) << bad;
    EXPECT_EQ(report.entries()[0].severity, Severity::DataLoss);
    EXPECT_EQ(report.entries()[0].places[0], "trace.csv:3");
  }
}

// A microbatch belongs to compute; other rows hold leftovers there.
TEST(OpTimelineCsv, MicrobatchOfOtherOpsIsIgnored) {
  const auto [timeline, report] =
      parsed(kHeader + "0,0,0,1,gc,0,0,0,-1,0\n" + "0,0,0,1,forward-send,0,1,0,0,5\n");
  ASSERT_EQ(timeline.records.size(), 2U);
  EXPECT_EQ(timeline.records[0].microbatch, -1);
  EXPECT_EQ(timeline.records[1].microbatch, -1);
}

TEST(OpTimelineCsv, TimesAreRoundedToNanoseconds) {
  const auto [timeline, report] = parsed(kHeader + "0,0,0,1,gc,-0.0000000004,0.0000000016,0,0,0\n" +
                                         "0,0,0,1,optimizer,-1.5,12.345678901,0,0,0\n");
  ASSERT_EQ(timeline.records.size(), 2U);
  EXPECT_EQ(timeline.records[0].start, Nanos(0));
  EXPECT_EQ(timeline.records[0].duration, Nanos(2));
  EXPECT_EQ(timeline.records[1].start, Nanos(-1'500'000'000)) << "a late clock can start before the step";
  EXPECT_EQ(timeline.records[1].duration, Nanos(12'345'678'901));
}

TEST(OpTimelineCsv, BlankLinesAreSkippedAndLinesStillCounted) {
  const auto [timeline, report] = parsed("\n\r\n" + kHeader + "\n" + kRow + "\r\n\n" + kRow + "\n\n");
  ASSERT_EQ(timeline.records.size(), 2U);
  EXPECT_EQ(timeline.records[0].line, 5U);
  EXPECT_EQ(timeline.records[1].line, 8U);
  EXPECT_EQ(entries(report), "");
}

TEST(OpTimelineCsv, UnknownTypesAreCountedAndNamed) {
  const std::string row = "1,2,34,56,expert-all-to-all,0.25,0.125,3,0,7\n";
  const auto [timeline, report] = parsed(kHeader + row + kRow + row + row + row);
  EXPECT_EQ(timeline.records.size(), 1U);
  EXPECT_EQ(entries(report),
            "row left out: unknown operation type x4 [trace.csv:2 'expert-all-to-all'] "
            "[trace.csv:4 'expert-all-to-all'] [trace.csv:5 'expert-all-to-all']");
}

TEST(OpTimelineCsv, LongTypeNamesAreCutShort) {
  const auto [timeline, report] =
      parsed(kHeader + kRow + "1,2,34,56," + std::string(100'000, 'x') + ",0.25,0.125,3,0,7\n");
  ASSERT_EQ(report.entries().size(), 1U);
  EXPECT_LT(report.entries()[0].places[0].size(), 100U);
}

// Types are exact words: another case or a blank is another type.
TEST(OpTimelineCsv, TypesAreSpelledExactly) {
  for (const char* type : {"Forward-Compute", "forward_compute", "forward-compute2", ""}) {
    const auto [timeline, report] = parsed(kHeader + kRow + "1,2,34,56," + type + ",0.25,0.125,3,0,7\n");
    EXPECT_EQ(timeline.records.size(), 1U) << type;
    EXPECT_EQ(report.entries().size(), 1U) << type;
  }
}

// A row that merges a send with a receive hides who waited for whom: nothing can be made of such a trace.
TEST(OpTimelineCsv, MergedTypesAreRefusedWithTheirLine) {
  for (const char* type : {"forward-send-backward-recv", "backward-send-forward-recv", "send-recv"}) {
    const std::string message = refusal(kHeader + kRow + "1,2,34,56," + type + ",0.25,0.125,3,0,7\n");
    EXPECT_NE(message.find("trace.csv:3"), std::string::npos) << message;
    EXPECT_NE(message.find("'" + std::string(type) + "' merges a send with a receive"), std::string::npos)
        << message;
    EXPECT_NE(message.find("fix: "), std::string::npos) << message;
  }
}

TEST(OpTimelineCsv, MissingColumnsAreAllNamed) {
  const std::string message = refusal("dp_rank,stage,rank,step,optype,start\n1,2,3,4,gc,0\n");
  EXPECT_NE(message.find("trace.csv:1: the header lacks the column(s) start_ts, duration, seq_id"),
            std::string::npos)
      << message;
}

TEST(OpTimelineCsv, NoUsableRowIsRefusedWithTheReasons) {
  const std::string message = refusal(kHeader + "x,2,34,56,gc,0,0,0,0,0\n1,2,34,56,gc,0,-1,0,0,0\n");
  EXPECT_NE(message.find("none of its 2 rows is usable"), std::string::npos) << message;
  EXPECT_NE(message.find("not a whole number in range (trace.csv:2)"), std::string::npos) << message;
  EXPECT_NE(message.find("negative duration (trace.csv:3)"), std::string::npos) << message;
}

TEST(OpTimelineCsv, IsRecognisedByItsHeader) {
  EXPECT_TRUE(looks_like_op_timeline(kHeader));
  EXPECT_TRUE(looks_like_op_timeline("\n\r\n" + kHeader + kRow));
  EXPECT_TRUE(looks_like_op_timeline("start_ts,optype"));
  EXPECT_FALSE(looks_like_op_timeline(""));
  EXPECT_FALSE(looks_like_op_timeline("\n\n\n"));
  EXPECT_FALSE(looks_like_op_timeline("{\"traceEvents\": []}"));
  EXPECT_FALSE(looks_like_op_timeline("a,b\noptype,start_ts\n")) << "in the header, not below";
  EXPECT_FALSE(looks_like_op_timeline(std::string(5000, ' ') + kHeader));
}

// --- metadata
// ---------------------------------------------------------------------------------------------------------

JobMeta meta_of(const std::string& text, ImportReport& report) {
  return parse_job_meta(text, "meta.yaml", report);
}

bool is_empty(const JobMeta& meta) {
  return !meta.trial_name && !meta.dp_size && !meta.pp_size && !meta.tp_size && !meta.dsp_size &&
         !meta.vpp_size && !meta.world_size;
}

TEST(JobMeta, ReadsTheSizesAndIgnoresTheRest) {
  ImportReport report;
  const JobMeta meta = meta_of(
      "# written by the launcher\ntrial_name: llama 7b, third try\nrun_id: 12\n\ndp_size: 4\npp_size: \"2\"\n"
      "tp_size: 8\ndsp_size: 1\nvpp_size: 3\nworld_size: 64\nnested:\n  dp_size: 99\n",
      report);
  EXPECT_EQ(entries(report), "");
  EXPECT_EQ(meta.source, "meta.yaml");
  EXPECT_EQ(meta.trial_name, "llama 7b, third try");
  EXPECT_EQ(meta.dp_size, 4);
  EXPECT_EQ(meta.pp_size, 2);
  EXPECT_EQ(meta.tp_size, 8);
  EXPECT_EQ(meta.dsp_size, 1);
  EXPECT_EQ(meta.vpp_size, 3);
  EXPECT_EQ(meta.world_size, 64);
}

TEST(JobMeta, AbsentIsNormal) {
  ImportReport report;
  const JobMeta meta = meta_of("run_id: 12\n", report);
  EXPECT_TRUE(is_empty(meta));
  EXPECT_EQ(entries(report), "");
}

TEST(JobMeta, ValuesThatAreNoSizeAreLeftOut) {
  for (const char* bad : {"0", "-4", "2.5", "four", "", "~", "99999999999999999999", "20000000", "0x10",
                          "4 4", "\n  - 4", "\n  a: 4"}) {
    ImportReport report;
    const JobMeta meta = meta_of("dp_size: " + std::string(bad) + "\npp_size: 2\n", report);
    EXPECT_FALSE(meta.dp_size) << bad;
    EXPECT_EQ(meta.pp_size, 2) << bad;
    EXPECT_EQ(entries(report),
              "metadata value left out: a parallel size must be a whole number of at least 1 x1 [meta.yaml: "
              "dp_size]")
        << bad;
  }
}

std::string repeated(const std::string& part, int n) {
  std::string text;
  for (int i = 0; i < n; ++i) text += part;
  return text;
}

/// "a:\n a:\n  a:\n ...": block maps, one inside the other.
std::string nested_maps(int depth) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  return text;
}

// Whatever the text, the reader returns, says what it left out, and gives nothing made up.
TEST(JobMeta, HostileTextIsLeftOutAsAWhole) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"flow sequences", std::string(60'000, '[')},
      {"flow maps", repeated("{a: ", 15'000)},
      {"dashes", repeated("- ", 30'000)},
      {"question marks", repeated("? ", 30'000)},
      {"dashes and question marks", repeated("- ? ", 15'000)},
      {"too large", "dp_size: 4\n" + repeated("# comment\n", 7'000)},
      {"a list", "- dp_size: 4\n- pp_size: 2\n"},
      {"a number", "4"},
      {"nothing", ""},
      {"only a comment", "# dp_size: 4\n"},
      {"unknown alias", "dp_size: *four\n"},
      {"unclosed quote", "dp_size: \"4\npp_size: 2\n"},
      {"tab for a blank", "dp_size: 4\n\tpp_size: 2\n"},
      {"bytes", std::string("\0\xff\xfe\x01:\x80\n", 8)},
  };
  for (const auto& [name, text] : cases) {
    ImportReport report;
    const JobMeta meta = meta_of(text, report);
    EXPECT_EQ(meta.source, "meta.yaml") << name;
    EXPECT_TRUE(is_empty(meta)) << name;
    ASSERT_EQ(report.entries().size(), 1U) << name;
    EXPECT_EQ(report.entries()[0].severity, Severity::DataLoss) << name;
    EXPECT_TRUE(report.entries()[0].reason.starts_with("metadata")) << name;
    EXPECT_NE(report.entries()[0].places.at(0).find("meta.yaml"), std::string::npos) << name;
  }
}

// Deep, but YAML: what is not a key of ours does not matter.
TEST(JobMeta, DeepBlocksAreIgnored) {
  ImportReport report;
  const JobMeta meta = meta_of("dp_size: 4\n" + nested_maps(100), report);
  EXPECT_EQ(meta.dp_size, 4);
  EXPECT_EQ(entries(report), "");
}

// An alias to what holds it, and each level twice the one before.
TEST(JobMeta, AliasesDoNotExpand) {
  std::string text = "a: &a\n  self: *a\ndp_size: 4\n";
  text += "b0: &b0\n  - x\n";
  for (int i = 1; i < 40; ++i) {
    const std::string before = "*b" + std::to_string(i - 1);
    text +=
        "b" + std::to_string(i) + ": &b" + std::to_string(i) + "\n  - " + before + "\n  - " + before + "\n";
  }
  ImportReport report;
  const JobMeta meta = meta_of(text, report);
  EXPECT_EQ(entries(report), "");
  EXPECT_EQ(meta.dp_size, 4);
}

TEST(JobMeta, FileBesideATraceIsFoundByItsName) {
  const TestDir dir;
  EXPECT_EQ(find_job_meta(dir.path("trace-ST.csv.gz")), std::nullopt);
  const auto plain = dir.file("meta.yaml", "dp_size: 4\n");
  EXPECT_EQ(find_job_meta(dir.path("trace-ST.csv.gz")), plain);
  const auto named = dir.file("meta-ST.yaml", "dp_size: 4\n");
  EXPECT_EQ(find_job_meta(dir.path("trace-ST.csv.gz")), named);
  EXPECT_EQ(find_job_meta(dir.path("trace-ST.csv")), named);
  EXPECT_EQ(find_job_meta(dir.path("trace-AR.csv")), plain);
  EXPECT_EQ(find_job_meta(dir.path("timeline.csv")), plain);
}

// A name may hold dots: only the known endings are taken off.
TEST(JobMeta, NamesOfTracesMayHoldDots) {
  const TestDir dir;
  const auto named = dir.file("meta-v1.2.yaml", "dp_size: 4\n");
  EXPECT_EQ(find_job_meta(dir.path("trace-v1.2.csv.gz")), named);
}

}  // namespace
}  // namespace prism
