// SPDX-License-Identifier: Apache-2.0
#include "prism/ingest/op_timeline_csv.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "prism/io/csv.hpp"
#include "prism/io/decimal_seconds.hpp"
#include "prism/trace/error.hpp"

namespace prism {

namespace {

constexpr std::array<std::string_view, 8> kRequired = {"dp_rank", "stage",    "rank",     "step",
                                                       "optype",  "start_ts", "duration", "seq_id"};
constexpr double kMaxSeconds = 1e8;          // three years: anything longer is not a time inside a step
constexpr double kMaxStart = 4e9;            // seconds since 1970 are fine as an origin
constexpr std::int64_t kMaxIndex = 1 << 24;  // ranks, stages, sequence numbers
constexpr std::int64_t kMaxStep = 2'000'000'000;

/// Column numbers of the fields; optional ones may be absent.
struct Columns {
  std::array<std::size_t, kRequired.size()> required{};
  std::optional<std::size_t> chunk;
  std::optional<std::size_t> microbatch;
};

Columns find_columns(const CsvReader& csv, const std::string& file) {
  Columns columns;
  std::string missing;
  for (std::size_t i = 0; i < kRequired.size(); ++i) {
    const auto column = csv.column(kRequired[i]);
    if (column) {
      columns.required[i] = *column;
    } else {
      missing += (missing.empty() ? "" : ", ") + std::string(kRequired[i]);
    }
  }
  if (!missing.empty()) {
    throw InputError(
        {file, 1, {}}, "the header lacks the column(s) " + missing,
        "an op-level timeline needs dp_rank, stage, rank, step, optype, start_ts, duration, seq_id");
  }
  columns.chunk = csv.column("mc");
  columns.microbatch = csv.column("mb_id");
  return columns;
}

/// A whole number; "3.0" counts, since table tools write integers so when a column has gaps.
std::optional<std::int32_t> index_field(std::string_view field, std::int64_t low, std::int64_t high) {
  auto value = parse_int(field);
  if (!value) {
    const auto number = parse_double(field);
    if (!number || !(std::abs(*number) < 1e15) || *number != std::floor(*number)) return std::nullopt;
    value = static_cast<std::int64_t>(*number);
  }
  if (*value < low || *value > high) return std::nullopt;
  return static_cast<std::int32_t>(*value);
}

std::optional<Nanos> time_field(std::string_view field, double most_seconds) {
  constexpr double kExactSeconds = 1e6;  // up to here a product by 1e9 is right to the nanosecond
  const auto value = parse_double(field);
  if (!value || !std::isfinite(*value) || std::abs(*value) > most_seconds) return std::nullopt;
  return Nanos(
      std::llround(std::abs(*value) <= kExactSeconds ? *value * kNanosPerSecond : *ns_of_seconds(field)));
}

}  // namespace

bool looks_like_op_timeline(std::string_view text) {
  text.remove_prefix(std::min(text.size(), text.find_first_not_of("\r\n")));
  const std::string_view header = text.substr(0, text.find('\n'));
  if (header.size() > 4096) return false;
  return header.find("optype") != std::string_view::npos && header.find("start_ts") != std::string_view::npos;
}

OpTimeline parse_op_timeline(std::string_view text, const std::string& file, ImportReport& report) {
  CsvReader csv(text, file);
  const Columns columns = find_columns(csv, file);
  OpTimeline timeline;
  timeline.source = file;
  std::size_t rows = 0;

  while (csv.next()) {
    ++rows;
    const auto fields = csv.fields();
    const auto place = [&] { return Place{file, csv.line(), {}}.text(); };
    const auto skip = [&](std::string_view reason) { report.add(Severity::DataLoss, reason, place()); };
    if (csv.malformed() || fields.size() != csv.header().size()) {
      skip("row left out: its number of fields is not the header's");
      continue;
    }
    const auto field = [&](std::size_t required) { return fields[columns.required[required]]; };
    const std::string_view type_name = field(4);
    const auto type = op_type_from_name(type_name);
    if (!type) {
      if (type_name.find("send") != std::string_view::npos &&
          type_name.find("recv") != std::string_view::npos) {
        throw InputError({file, csv.line(), {}},
                         "op type '" + std::string(type_name) + "' merges a send with a receive",
                         "record sends and receives as ops of their own");
      }
      report.add(Severity::DataLoss, "row left out: unknown operation type",
                 place() + " '" + std::string(type_name.substr(0, 60)) + "'");
      continue;
    }
    const auto dp_rank = index_field(field(0), 0, kMaxIndex);
    const auto stage = index_field(field(1), 0, kMaxIndex);
    const auto rank = index_field(field(2), 0, kMaxIndex);
    const auto step = index_field(field(3), 0, kMaxStep);
    const auto seq = index_field(field(7), 0, kMaxIndex);
    if (!dp_rank || !stage || !rank || !step || !seq) {
      skip("row left out: a rank, stage, step or sequence number is not a whole number in range");
      continue;
    }
    const auto start = time_field(field(5), kMaxStart);
    const auto duration = time_field(field(6), kMaxSeconds);
    if (!start || !duration) {
      skip("row left out: start or duration is not a finite time");
      continue;
    }
    if (*duration < Nanos::zero()) {
      skip("row left out: negative duration");
      continue;
    }
    OpRecord record{
        .dp_rank = *dp_rank, .stage = *stage, .rank = *rank, .step = *step, .type = *type, .seq = *seq};
    if (columns.chunk) record.chunk = index_field(fields[*columns.chunk], -1, kMaxIndex).value_or(-1);
    if (columns.microbatch && is_compute(*type)) {
      record.microbatch = index_field(fields[*columns.microbatch], -1, kMaxIndex).value_or(-1);
    }
    record.start = *start;
    record.duration = *duration;
    record.line = static_cast<std::uint32_t>(csv.line());
    timeline.records.push_back(record);
  }
  if (timeline.records.empty()) {
    std::string why;
    for (const ImportEntry& entry : report.entries()) {
      why += "; " + entry.reason + " (" + (entry.places.empty() ? "" : entry.places.front()) + ")";
    }
    throw InputError({file, {}, {}}, "none of its " + std::to_string(rows) + " rows is usable" + why,
                     "check the columns against docs/formats.md");
  }
  return timeline;
}

}  // namespace prism
