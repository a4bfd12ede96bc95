// SPDX-License-Identifier: Apache-2.0
// Matching on recorded sets against independently counted tables, and on small files that rebuild public bug reports.
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prism/ingest/kineto.hpp"
#include "prism/kernels/split_collectives.hpp"
#include "prism/trace/error.hpp"

namespace prism {
namespace {

namespace fs = std::filesystem;

const fs::path& data() {
  static const fs::path folder = fs::path(PRISM_SOURCE_DIR) / ".." / "shared" / "data" / "kineto";
  return folder;
}

#define NEEDS_RECORDED_TRACES() \
  if (!fs::exists(data())) GTEST_SKIP() << "NOT TESTED: no recorded traces at " << data()

struct Matched {
  std::vector<RankTrace> traces;
  std::vector<RankCommunication> communication;
  CollectiveMatching matching;
  CollectiveSplit split;
  ImportReport report;

  explicit Matched(const std::vector<fs::path>& files) {
    for (const fs::path& file : files) traces.push_back(read_kineto(data() / file, {}, report));
    for (const RankTrace& trace : traces)
      communication.push_back(find_communication(trace, find_launches(trace)));
    matching = match_collectives(traces, communication, report);
    split = split_collectives(traces, communication, matching, report);
  }
  const GpuOp& op(CommMember m) const {
    return traces[m.trace].gpu_ops[communication[m.trace].ops[m.op].gpu_op];
  }
};

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(data() / folder))
    files.push_back(folder / entry.path().filename());
  std::ranges::sort(files);
  return files;
}

/// Rows of a tab-separated table whose first column is `key`, in file order.
std::vector<std::vector<std::string>> rows(const char* table, const std::string& key) {
  std::vector<std::vector<std::string>> found;
  std::ifstream in(data() / table);
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> fields;
    std::istringstream text(line);
    for (std::string field; std::getline(text, field, '\t');) fields.push_back(field);
    if (fields[0] == key) found.push_back(fields);
  }
  return found;
}

/// Every row of COLLECTIVES.tsv: its numbers are of the recorded clocks, so they test the pairs and not the clocks.
void check_all_rows(const std::string& set, const Matched& result) {
  const auto expected = rows("COLLECTIVES.tsv", set);
  ASSERT_EQ(result.matching.matched.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const MatchedCollective& match = result.matching.matched[i];
    const std::vector<std::string>& row = expected[i];
    SCOPED_TRACE(set + " collective " + row[1]);
    std::int64_t shortest = INT64_MAX, longest = 0, sum = 0;
    std::int64_t first_start = INT64_MAX, last_start = 0, first_end = INT64_MAX, last_end = 0;
    std::map<int, std::int64_t> start_of, duration_of;
    for (const CommMember& m : match.members) {
      const GpuOp& op = result.op(m);
      shortest = std::min(shortest, op.duration_ns);
      longest = std::max(longest, op.duration_ns);
      sum += op.duration_ns;
      first_start = std::min(first_start, op.start_ns);
      last_start = std::max(last_start, op.start_ns);
      first_end = std::min(first_end, op.end_ns());
      last_end = std::max(last_end, op.end_ns());
      start_of[*result.traces[m.trace].rank] = op.start_ns;
      duration_of[*result.traces[m.trace].rank] = op.duration_ns;
      const CommunicationOp& comm = result.communication[m.trace].ops[m.op];
      EXPECT_EQ(result.communication[m.trace].kernels[comm.kernel].base, row[2]);
      if (!row[3].empty()) {
        EXPECT_EQ(comm.in_elements, std::stoll(row[3]));
      }
    }
    EXPECT_EQ(match.members.size(), std::stoul(row[4]));
    EXPECT_EQ(shortest, std::stoll(row[5]));
    EXPECT_EQ(longest, std::stoll(row[6]));
    EXPECT_EQ(sum, std::stoll(row[7]));
    EXPECT_EQ(start_of[std::stoi(row[8])], last_start);
    EXPECT_EQ(duration_of[std::stoi(row[9])], shortest);
    EXPECT_EQ(last_start - first_start, std::stoll(row[10]));
    EXPECT_EQ(last_end - first_end, std::stoll(row[11]));
    EXPECT_EQ(result.split.matches[i].shortest_ns, shortest);
    for (const CommMember& m : match.members) {
      const OpSplit& split = result.split.ops[m.trace][m.op];
      EXPECT_EQ(split.wait_ns + split.transfer_ns, result.op(m).duration_ns);
      EXPECT_GE(split.wait_ns, 0);
      EXPECT_GE(split.transfer_ns, 0);
    }
  }
}

/// Offsets in microseconds by rank, from the medians over all collectives that the tables' author measured. Here only
/// those with the smaller spread count, so they differ by the noise of a median of 40 (ends scatter by 8 to 12 us).
void check_clocks(const Matched& result, const std::vector<double>& measured_us, double tolerance_us) {
  for (std::size_t t = 0; t < result.traces.size(); ++t) {
    std::int64_t zero = 0;
    for (std::size_t r = 0; r < result.traces.size(); ++r) {
      if (result.traces[r].rank == 0) zero = result.matching.clocks[r].offset_ns;
    }
    const int rank = *result.traces[t].rank;
    EXPECT_NEAR(static_cast<double>(result.matching.clocks[t].offset_ns - zero) / 1e3,
                measured_us[static_cast<std::size_t>(rank)], tolerance_us)
        << "rank " << rank;
  }
}

TEST(RecordedCollectives, EightH100RanksMatchAsCounted) {
  NEEDS_RECORDED_TRACES();
  const Matched result(files_in("multi/nanogpt-h100-8rank"));
  check_all_rows("multi/nanogpt-h100-8rank", result);
  EXPECT_EQ(result.matching.count(MatchEvidence::MetadataOrder), 56U);
  EXPECT_EQ(result.matching.count(MatchEvidence::KernelOrder), 20U);
  // 76 of 76, 76, 76, 76, 81, 84, 84 and 84.
  EXPECT_EQ(result.matching.local.size(), 29U);
  EXPECT_EQ(result.matching.count(LocalReason::PartnerMissing), 29U);
  check_clocks(result, {0, 0.4, 0.7, -0.7, -2.0, -0.4, -1.0, -0.8}, 3);
}

TEST(RecordedCollectives, EightTensorParallelRanksWithoutMetadataMatchByTheirSequenceNumbers) {
  NEEDS_RECORDED_TRACES();
  const Matched result(files_in("multi/megatron-tp8-a100-8rank"));
  check_all_rows("multi/megatron-tp8-a100-8rank", result);
  EXPECT_EQ(result.matching.count(MatchEvidence::Sequence), 84U);
  EXPECT_TRUE(result.matching.local.empty());
  check_clocks(result, {0, 8.5, 8, 11, 7, 2, 1, 0}, 5);
  for (const RankCommunication& rank : result.communication) EXPECT_EQ(rank.wait_records, 85U);
}

TEST(RecordedCollectives, WithoutTheNumbersOrderAndTimeFindTheSamePairs) {
  NEEDS_RECORDED_TRACES();
  Matched result(files_in("multi/megatron-tp8-a100-8rank"));
  const std::vector<MatchedCollective> by_number = result.matching.matched;
  for (RankTrace& trace : result.traces) {
    for (CommRecord& record : trace.comms) {
      record.sequence = -1;
      record.group_pointer.reset();
    }
    // A prefix of different length is lost.
    const auto lost = static_cast<std::ptrdiff_t>(*trace.rank * 30);
    trace.gpu_ops.erase(trace.gpu_ops.begin(), trace.gpu_ops.begin() + lost);
  }
  std::vector<RankCommunication> communication;
  std::size_t fewest = SIZE_MAX;
  for (const RankTrace& trace : result.traces) {
    communication.push_back(find_communication(trace, find_launches(trace)));
    fewest = std::min(fewest, communication.back().ops.size());
  }
  ImportReport report;
  const CollectiveMatching by_order = match_collectives(result.traces, communication, report);
  ASSERT_EQ(by_order.matched.size(), fewest);
  ASSERT_LT(fewest, 84U);
  for (std::size_t i = 1; i <= fewest; ++i) {
    for (std::size_t k = 0; k < 8; ++k) {
      const CommMember was = by_number[by_number.size() - i].members[k];
      const CommMember is = by_order.matched[fewest - i].members[k];
      EXPECT_EQ(result.communication[was.trace].ops.size() - was.op,
                communication[is.trace].ops.size() - is.op);
    }
  }
}

TEST(RecordedCollectives, EventsDroppedAtRandomAreRefused) {
  NEEDS_RECORDED_TRACES();
  Matched result(files_in("multi/nanogpt-h100-8rank"));
  for (std::size_t t = 0; t < result.traces.size(); ++t) {
    std::uint32_t state = static_cast<std::uint32_t>(t) + 1;  // a linear congruential generator
    std::erase_if(result.traces[t].gpu_ops, [&](const GpuOp&) {
      state = state * 1664525U + 1013904223U;
      return state >> 24U < 51;  // one in five
    });
  }
  std::vector<RankCommunication> communication;
  for (const RankTrace& trace : result.traces) {
    communication.push_back(find_communication(trace, find_launches(trace)));
  }
  ImportReport report;
  EXPECT_THROW(match_collectives(result.traces, communication, report), InputError);
}

TEST(RecordedCollectives, RanksOfTwoJobsAreRefusedWithBothFilesAndTimes) {
  NEEDS_RECORDED_TRACES();
  try {
    const Matched result(
        {"nvidia/ddp-2rank-rank0-nccl-metadata.json.gz", "nvidia/ddp-2rank-rank1-54MB-of-json.json.gz"});
    FAIL() << "accepted";
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("ddp-2rank-rank0-nccl-metadata.json.gz"));
    EXPECT_THAT(e.what(), testing::HasSubstr("ddp-2rank-rank1-54MB-of-json.json.gz"));
    EXPECT_THAT(e.what(), testing::HasSubstr("2024-05-23 00:15:22.422880181 UTC (1716423322422880181 ns)"));
    EXPECT_THAT(e.what(), testing::HasSubstr("2022-11-30 04:48:09.122289000 UTC (1669783689122289000 ns)"));
  }
}

/// FACTS.tsv counts kernels whose name contains nccl or rccl.
TEST(RecordedCollectives, EveryCountedCommunicationKernelIsRecognised) {
  NEEDS_RECORDED_TRACES();
  for (const char* file :
       {"nvidia/ddp-2rank-rank0-nccl-metadata.json.gz", "nvidia/ddp-2rank-rank1-54MB-of-json.json.gz",
        "nvidia/recsys-16rank-rank0-cuda-graphs.json.gz", "amd/mi300x-resnet-ddp-8rank-rank0.json.gz",
        "nvidia/b200-8rank-rank0-71-process-groups-pdl.json.gz", "nvidia/h100-qwen-0.5b-inference.json.gz"}) {
    const auto facts = rows("FACTS.tsv", file);
    ASSERT_EQ(facts.size(), 1U) << file;
    const Matched result({file});
    std::size_t nccl = 0, with_own_metadata = 0;
    std::int64_t sum = 0;
    for (const CommunicationOp& op : result.communication[0].ops) {
      if (result.communication[0].kernels[op.kernel].base.find("nccl") == std::string::npos) continue;
      ++nccl;
      sum += result.traces[0].gpu_ops[op.gpu_op].duration_ns;
      with_own_metadata += op.evidence == CommEvidence::KernelMetadata ? 1U : 0U;
    }
    EXPECT_EQ(nccl, std::stoul(facts[0][12])) << file;
    EXPECT_EQ(sum, std::stoll(facts[0][13])) << file;
    EXPECT_EQ(with_own_metadata, std::stoul(facts[0][14])) << file;
    std::size_t launched = 0;
    for (const auto& call : find_launches(result.traces[0]).call_of) launched += call.has_value() ? 1U : 0U;
    EXPECT_EQ(launched, std::stoul(facts[0][11])) << file;
  }
}

// Rows of synthetic/EXPECT.tsv that concern communication, by number.

TEST(SyntheticTraces, Row28TheFirstCollectiveOfOneRankIsLost) {
  NEEDS_RECORDED_TRACES();
  const Matched result(files_in("synthetic/28-first-collective-lost"));
  ASSERT_EQ(result.matching.matched.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    for (const CommMember& m : result.matching.matched[i].members) {
      EXPECT_EQ(result.communication[m.trace].ops[m.op].in_elements, 200 + 100 * static_cast<int>(i));
    }
  }
  ASSERT_EQ(result.matching.local.size(), 1U);
  EXPECT_EQ(result.matching.local[0].reason, LocalReason::PartnerMissing);
}

TEST(SyntheticTraces, Row29FilesOfTwoBasePeriodsOverlap) {
  NEEDS_RECORDED_TRACES();
  const Matched result(files_in("synthetic/29-quarter-boundary"));
  ASSERT_EQ(result.matching.matched.size(), 3U);
  for (const MatchSplit& match : result.split.matches) {
    EXPECT_EQ(match.start_spread_ns, 30'000);
    EXPECT_EQ(match.end_spread_ns, 0);
  }
}

TEST(SyntheticTraces, Row30AClockThatIsAheadIsAligned) {
  NEEDS_RECORDED_TRACES();
  const Matched result(files_in("synthetic/30-clock-skew-850us"));
  ASSERT_EQ(result.matching.matched.size(), 4U);
  EXPECT_EQ(result.matching.clocks[1].offset_ns - result.matching.clocks[0].offset_ns, 850'000);
  std::map<std::size_t, int> last;
  for (const MatchSplit& match : result.split.matches) {
    EXPECT_EQ(match.transfer_ns, 25'000);
    ++last[match.last_arriver];
  }
  EXPECT_THAT(last, testing::ElementsAre(testing::Pair(0, 2), testing::Pair(1, 2)));
}

TEST(SyntheticTraces, Row31ASendPairAndAKernelWithoutMetadata) {
  NEEDS_RECORDED_TRACES();
  const Matched result(files_in("synthetic/31-send-recv"));
  ASSERT_EQ(result.matching.matched.size(), 2U);
  EXPECT_EQ(result.matching.count(MatchEvidence::MetadataOrder), 1U);
  EXPECT_EQ(result.matching.count(MatchEvidence::KernelOrder), 1U);
  const Matched alone({"synthetic/31-send-recv/rank0.json"});
  EXPECT_EQ(alone.matching.count(LocalReason::Untraced), 2U);
}

TEST(SyntheticTraces, Rows33And35MembersComeFromTheGroupList) {
  NEEDS_RECORDED_TRACES();
  const Matched cut({"synthetic/33-truncated-group-ranks.json"});
  ASSERT_EQ(cut.matching.groups.groups.size(), 1U);
  EXPECT_EQ(cut.matching.groups.groups[0].members.size(), 64U);
  const Matched text({"synthetic/35-group-ranks-as-string.json"});
  EXPECT_THAT(text.matching.groups.groups[0].members, testing::ElementsAre(0, 1));
}

TEST(SyntheticTraces, Rows16And34NumbersOf64Bits) {
  NEEDS_RECORDED_TRACES();
  const Matched sequence({"synthetic/16-seq-and-64-bit-comms-id.json"});
  EXPECT_EQ(sequence.communication[0].ops[0].sequence, 4242424242);
  EXPECT_EQ(sequence.communication[0].ops[0].comms_id, 17446744073709551557U);
  const Matched hip({"synthetic/34-hip.json"});
  ASSERT_EQ(hip.communication[0].ops.size(), 2U);
  EXPECT_TRUE(hip.communication[0].ops[0].issue_ns);
  EXPECT_FALSE(hip.communication[0].ops[1].issue_ns) << "correlation 0 is none";
}

}  // namespace
}  // namespace prism
