// SPDX-License-Identifier: Apache-2.0
// Real traces of the PyTorch profiler, 2020 to 2026, against counts and sums that an independent program took
// from them with exact decimal arithmetic (FACTS.tsv beside them).
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "prism/ingest/kineto.hpp"

namespace prism {
namespace {

namespace fs = std::filesystem;

fs::path folder() {
  return fs::path(PRISM_SOURCE_DIR) / "../shared/data/kineto";
}

using Row = std::map<std::string, std::string>;

std::vector<std::string> split(const std::string& line, char separator) {
  std::vector<std::string> fields;
  std::istringstream in(line);
  for (std::string field; std::getline(in, field, separator);) fields.push_back(field);
  return fields;
}

std::vector<Row> rows() {
  std::ifstream in(folder() / "FACTS.tsv");
  std::string line;
  std::getline(in, line);
  const std::vector<std::string> header = split(line, '\t');
  std::vector<Row> all;
  while (std::getline(in, line)) {
    std::vector<std::string> fields = split(line, '\t');
    fields.resize(header.size());
    Row& row = all.emplace_back();
    for (std::size_t i = 0; i < header.size(); ++i) row[header[i]] = fields[i];
  }
  return all;
}

template <class Events, class Condition>
std::string count(const Events& events, Condition condition) {
  return std::to_string(std::ranges::count_if(events, condition));
}

std::string count_kind(const RankTrace& trace, GpuOpKind kind) {
  return count(trace.gpu_ops, [&](const GpuOp& op) { return op.kind == kind; });
}

/// The oracle's definition: what prism takes for communication is another matter.
bool is_comm_kernel(const RankTrace& trace, const GpuOp& op) {
  std::string name = trace.name(op.name);
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return op.kind == GpuOpKind::Kernel &&
         (name.find("nccl") != std::string::npos || name.find("rccl") != std::string::npos);
}

template <class Condition>
std::string duration_sum(const RankTrace& trace, Condition condition) {
  std::int64_t sum = 0;
  for (const GpuOp& op : trace.gpu_ops) {
    if (op.kind == GpuOpKind::Kernel && condition(op)) sum += op.duration_ns;
  }
  return std::to_string(sum);
}

std::string steps(const RankTrace& trace) {
  constexpr std::string_view kPrefix = "ProfilerStep#";
  std::set<int> numbers;
  for (const Annotation& annotation : trace.annotations) {
    const std::string& name = trace.name(annotation.name);
    if (name.starts_with(kPrefix)) numbers.insert(std::stoi(name.substr(kPrefix.size())));
  }
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "" : ";") + std::to_string(number);
  return text;
}

std::string text_of(const std::optional<std::int64_t>& value) {
  return value ? std::to_string(*value) : "";
}

Row row_of(const RankTrace& trace, bool rank_recorded) {
  Row row;
  row["raw_bytes"] = std::to_string(trace.counts.bytes);
  row["events"] = std::to_string(trace.counts.events);
  row["complete_events"] = std::to_string(trace.counts.complete_events);
  row["kernels"] = count_kind(trace, GpuOpKind::Kernel);
  row["memcpy"] = count_kind(trace, GpuOpKind::Memcpy);
  row["memset"] = count_kind(trace, GpuOpKind::Memset);
  std::set<std::uint64_t> streams;
  std::int64_t last_end = 0;
  for (const GpuOp& op : trace.gpu_ops) {
    streams.insert(op.stream);
    last_end = std::max(last_end, op.end_ns());
  }
  row["streams"] = std::to_string(streams.size());
  row["kernel_dur_sum_ns"] = duration_sum(trace, [](const GpuOp&) { return true; });
  row["gpu_first_start_ns"] = trace.gpu_ops.empty() ? "" : std::to_string(trace.gpu_ops.front().start_ns);
  row["gpu_last_end_ns"] = trace.gpu_ops.empty() ? "" : std::to_string(last_end);
  std::set<std::int64_t> launches;
  for (const HostCall& call : trace.calls) {
    if (call.kind == HostCallKind::Launch) launches.insert(call.correlation);
  }
  row["gpu_ops_with_launch"] =
      count(trace.gpu_ops, [&](const GpuOp& op) { return launches.contains(op.correlation); });
  const auto is_comm = [&](const GpuOp& op) { return is_comm_kernel(trace, op); };
  row["comm_kernels"] = count(trace.gpu_ops, is_comm);
  row["comm_kernel_dur_sum_ns"] = duration_sum(trace, is_comm);
  row["comm_kernels_with_metadata"] =
      count(trace.gpu_ops, [&](const GpuOp& op) { return is_comm(op) && op.comm.has_value(); });
  row["record_param_comms"] = count(
      trace.cpu_ops, [&](const CpuOp& op) { return trace.name(op.name) == "record_param_comms" && op.comm; });
  row["cuda_sync"] = std::to_string(trace.syncs.size());
  row["profiler_steps"] = steps(trace);
  row["rank"] = rank_recorded ? std::to_string(trace.rank.value()) : "";
  row["world_size"] = trace.world_size ? std::to_string(*trace.world_size) : "";
  row["base_time_ns"] = text_of(trace.base_time_ns);
  return row;
}

void expect_sorted(const auto& events) {
  EXPECT_TRUE(std::ranges::is_sorted(events, {}, [](const auto& event) { return event.start_ns; }));
}

TEST(KinetoFacts, EveryRealTraceIsReadToTheNanosecond) {
  if (!fs::exists(folder() / "FACTS.tsv")) GTEST_SKIP() << "NOT TESTED: there is no " << folder().string();
  const std::vector<Row> facts = rows();
  ASSERT_EQ(facts.size(), 42U);
  for (const Row& expected : facts) {
    SCOPED_TRACE(expected.at("file"));
    ImportReport report;
    const RankTrace trace = read_kineto(folder() / expected.at("file"), {}, report);
    const auto says = [&](std::string_view reason) {
      return std::ranges::any_of(report.entries(),
                                 [&](const ImportEntry& entry) { return entry.reason.starts_with(reason); });
    };
    const Row calculated = row_of(trace, !says("rank "));
    for (const auto& [column, value] : expected) {
      if (column == "file") continue;
      EXPECT_EQ(calculated.at(column), value) << column;
    }
    EXPECT_TRUE(trace.complete);
    EXPECT_TRUE(trace.absolute_time);
    EXPECT_EQ(trace.counts.gpu_ops_set_aside, 0U);
    for (const ImportEntry& entry : report.entries()) {
      // Sound files: nothing is lost (but MTIA, which is no GPU) and nothing is repaired (but an unknown rank).
      EXPECT_TRUE(entry.severity == Severity::Info || entry.reason.starts_with("MTIA device event") ||
                  entry.reason.starts_with("rank not recorded"))
          << entry.reason << ": " << entry.count;
    }
    expect_sorted(trace.gpu_ops);
    expect_sorted(trace.calls);
    expect_sorted(trace.syncs);
    expect_sorted(trace.cpu_ops);
    expect_sorted(trace.annotations);
  }
}

TEST(KinetoFacts, TheRanksOfARunComeInOrder) {
  if (!fs::exists(folder() / "FACTS.tsv")) GTEST_SKIP() << "NOT TESTED: there is no " << folder().string();
  ImportReport report;
  const std::vector<fs::path> files = kineto_files_in(folder() / "multi/nanogpt-h100-8rank", report);
  ASSERT_EQ(files.size(), 8U);  // in order of their hashes
  const std::vector<RankTrace> traces = read_kineto_files(files, {}, {.threads = 2}, report);
  ASSERT_EQ(traces.size(), 8U);
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(traces[static_cast<std::size_t>(rank)].rank, rank);
    EXPECT_EQ(traces[static_cast<std::size_t>(rank)].world_size, 8);
  }
  EXPECT_TRUE(report.entries().empty());
}

}  // namespace
}  // namespace prism
