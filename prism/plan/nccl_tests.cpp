// SPDX-License-Identifier: Apache-2.0
#include "prism/plan/nccl_tests.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "prism/io/bytes.hpp"
#include "prism/io/csv.hpp"
#include "prism/trace/error.hpp"

namespace prism {

namespace {

/// The collective that a program's, file's or column's text names: all_reduce_perf, allreduce, ...
std::optional<CollectiveOp> kind_of(std::string_view text) {
  std::string plain;
  for (const char c : text) {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0)
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  constexpr std::array<std::pair<std::string_view, CollectiveOp>, 6> kNames = {{
      {"allreduce", CollectiveOp::AllReduce},
      {"allgather", CollectiveOp::AllGather},
      {"reducescatter", CollectiveOp::ReduceScatter},
      {"alltoall", CollectiveOp::AllToAll},
      {"broadcast", CollectiveOp::Broadcast},
      {"sendrecv", CollectiveOp::SendReceive},
  }};
  for (const auto& [name, kind] : kNames) {
    if (plain.find(name) != std::string::npos) return kind;
  }
  return std::nullopt;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  std::size_t at = 0;
  while (at < line.size()) {
    const std::size_t begin = line.find_first_not_of(" \t\r", at);
    if (begin == std::string_view::npos) break;
    const std::size_t end = std::min(line.find_first_of(" \t\r", begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    at = end;
  }
  return words;
}

/// What the header lines say so far.
struct Header {
  std::optional<CollectiveOp> kind;
  std::set<std::string, std::less<>> hosts;
  std::int64_t ranks = 0;
  std::size_t from_time = 0;  // columns from the first "time" to the end of the row; 0: no column titles yet
  bool counts_wrong = false;  // "#wrong", a count; in old releases "error", the largest deviation
};

void read_header(std::string_view line, Header& header) {
  const std::vector<std::string_view> words = words_of(line);
  if (line.find("Collective test starting") != std::string_view::npos) {
    header = Header{.kind = kind_of(line.substr(line.find(':') + 1))};
  }
  if (line.find("Using devices") != std::string_view::npos) {  // of the next test, where logs are joined
    header.hosts.clear();
    header.ranks = 0;
  }
  const auto rank = std::ranges::find(words, "Rank");
  const auto on = std::ranges::find(words, "on");
  if (rank != words.end() && on != words.end() && on + 1 != words.end()) {
    ++header.ranks;
    header.hosts.emplace(*(on + 1));
  }
  if (const auto time = std::ranges::find(words, "time");
      time != words.end() && std::ranges::find(words, "busbw") != words.end()) {
    header.from_time = static_cast<std::size_t>(words.end() - time);
    header.counts_wrong = std::ranges::find(words, "#wrong") != words.end();
  }
}

/// Parsed row: size in bytes, out-of-place time in microseconds, wrong results.
struct Row {
  double bytes = 0;
  double us = 0;
  bool wrong = false;
};

/// Largest "error" of a row whose results were right: the widest tolerance of nccl-tests with that column (DeltaMaxValue of its
/// src/common.cu, sums of halves). N/A stands where results were not checked.
constexpr double kMostDeviation = 1e-2;

/// Is the printed algorithm bandwidth that of the size and time read? Times have four digits, bandwidths two decimals.
bool agrees(double bytes, double us, double gb_per_s) {
  return std::abs(bytes / us * 1e-3 - gb_per_s) <= 0.011 + 0.01 * gb_per_s;
}

std::optional<Row> read_row(const std::vector<std::string_view>& words, const Header& header) {
  // size count type [redop] [root] time algbw busbw wrong time algbw busbw wrong
  // The titles redop and root may stand over nothing (all-to-all has no reduction). Only columns counted from the right are
  // where the titles say.
  constexpr std::size_t kBefore = 3;
  constexpr std::size_t kTimes = 4;
  if (header.from_time < kTimes || words.size() < kBefore + header.from_time) return std::nullopt;
  const std::size_t time = words.size() - header.from_time;
  const std::optional<double> bytes = parse_double(words[0]);
  const std::optional<double> us = parse_double(words[time]);
  const std::optional<double> gb_per_s = parse_double(words[time + 1]);
  if (!bytes || !us || !gb_per_s || *bytes < 0 || !(*us > 0)) return std::nullopt;
  if (!agrees(*bytes, *us, *gb_per_s)) return std::nullopt;  // a row cut off, or other columns
  const std::optional<double> wrong = parse_double(words[time + 3]);
  return Row{*bytes, *us, wrong && *wrong > (header.counts_wrong ? 0 : kMostDeviation)};
}

bool begins_with_digit(std::string_view line) {
  const std::size_t at = line.find_first_not_of(" \t");
  return at != std::string_view::npos && line[at] >= '0' && line[at] <= '9';
}

void add_row(const Row& row, CollectiveOp kind, std::int64_t ranks, std::int64_t hosts,
             const std::string& group, const Place& place, MeasuredCollectives& into, ImportReport& report) {
  if (row.wrong) {
    report.add(Severity::DataLoss, "measured collectives with wrong results are left out", place.text());
  } else if (row.bytes > 0) {
    into.add({kind, ranks, hosts, row.bytes, row.us * 1e3, group});
  }
}

}  // namespace

void read_nccl_tests_log(std::string_view text, const std::string& source, MeasuredCollectives& into,
                         ImportReport& report) {
  Header header;
  std::uint64_t number = 0;
  std::size_t rows = 0;
  const std::optional<CollectiveOp> named = kind_of(std::filesystem::path(source).filename().string());
  while (!text.empty()) {
    ++number;
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find('#') < 3) {
      read_header(line, header);
      continue;
    }
    if (header.from_time == 0 || !begins_with_digit(line)) continue;
    const Place place{source, number, {}};
    const std::optional<Row> row = read_row(words_of(line), header);
    if (!row) {
      report.add(Severity::DataLoss, "rows of nccl-tests that do not parse are left out", place.text());
      continue;
    }
    const std::optional<CollectiveOp> kind = header.kind ? header.kind : named;
    if (!kind || header.ranks == 0) {
      throw InputError(
          place, kind ? "the log names no ranks" : "neither the log nor its name says which collective it is",
          "whole console output of nccl-tests 2.17 or later, or a file name such as all_reduce.log");
    }
    ++rows;
    add_row(*row, *kind, header.ranks, std::ssize(header.hosts), source, place, into, report);
  }
  if (rows == 0) {
    throw InputError({source, {}, {}}, "no rows of nccl-tests",
                     "console output of all_reduce_perf and its like");
  }
}

void read_nccl_tests_csv(std::string_view text, const std::string& source, MeasuredCollectives& into,
                         ImportReport& report) {
  CsvReader csv(text, source);
  std::array<std::size_t, 5> columns{};
  constexpr std::array<const char*, 5> kNames = {"collective", "n_ranks", "n_nodes", "size_b", "oop_time_us"};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const std::optional<std::size_t> column = csv.column(kNames[i]);
    if (!column) {
      throw InputError({source, 1, {}}, std::string("no column '") + kNames[i] + "'",
                       "columns collective, n_ranks, n_nodes, size_b and oop_time_us");
    }
    columns[i] = *column;
  }
  const std::optional<std::size_t> file = csv.column("file");
  const std::optional<std::size_t> wrong = csv.column("oop_wrong");
  std::size_t rows = 0;
  while (csv.next()) {
    const auto fields = csv.fields();
    const auto field = [&](std::size_t column) {
      return column < fields.size() ? fields[column] : std::string_view();
    };
    const std::optional<CollectiveOp> kind = kind_of(field(columns[0]));
    const std::optional<std::int64_t> ranks = parse_int(field(columns[1]));
    const std::optional<std::int64_t> hosts = parse_int(field(columns[2]));
    const std::optional<double> bytes = parse_double(field(columns[3]));
    const std::optional<double> us = parse_double(field(columns[4]));
    if (!kind || !ranks || !hosts || !bytes || !us || *ranks < 1 || *hosts < 1 || *bytes < 0 || !(*us > 0)) {
      report.add(Severity::DataLoss, "rows of measured collectives that do not parse are left out",
                 csv.place().text());
      continue;
    }
    ++rows;
    const std::optional<double> errors = wrong ? parse_double(field(*wrong)) : std::nullopt;
    add_row({*bytes, *us, errors && *errors > 0}, *kind, *ranks, *hosts,
            std::string(file ? field(*file) : source), csv.place(), into, report);
  }
  if (rows == 0) throw InputError({source, {}, {}}, "no usable row", "measured times above 0");
}

MeasuredCollectives read_measured_collectives(const std::filesystem::path& path, ImportReport& report) {
  MeasuredCollectives measured;
  std::vector<std::filesystem::path> files;
  std::error_code ignored;  // what cannot be looked at is said by read_bytes
  if (std::filesystem::is_directory(path, ignored)) {
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    std::ranges::sort(files);
    if (files.empty()) throw InputError({path.string(), {}, {}}, "the folder is empty", "logs of nccl-tests");
  } else {
    files.push_back(path);
  }
  for (const std::filesystem::path& file : files) {
    const std::string text = read_bytes(file);
    const std::string_view first = std::string_view(text).substr(0, text.find('\n'));
    if (first.find("oop_time_us") != std::string_view::npos) {
      read_nccl_tests_csv(text, file.string(), measured, report);
    } else {
      read_nccl_tests_log(text, file.string(), measured, report);
    }
  }
  return measured;
}

}  // namespace prism
