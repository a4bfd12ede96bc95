// SPDX-License-Identifier: Apache-2.0
// Bytes as CSV: what is read, written again and read again is the same; lines only grow.
#include <string>
#include <string_view>
#include <vector>

#include "prism/io/csv.hpp"
#include "prism/trace/error.hpp"
#include "tests/fuzz/require.hpp"

namespace {

using Records = std::vector<std::vector<std::string>>;

Records read_all(std::string_view text, bool& malformed) {
  prism::CsvReader csv(text, "fuzz.csv");
  Records records{csv.header()};
  std::uint64_t line = 0;
  while (csv.next()) {
    prism::fuzz::require(csv.line() > line, "line numbers do not grow");
    line = csv.line();
    malformed = malformed || csv.malformed();
    records.emplace_back(csv.fields().begin(), csv.fields().end());
    for (const std::string_view field : csv.fields()) {
      (void)prism::parse_int(field);
      (void)prism::parse_double(field);
    }
  }
  return records;
}

/// Blank lines are skipped on reading, so a record of one empty field cannot come back.
bool is_blank(const std::vector<std::string>& record) {
  return record.size() == 1 && record.front().empty();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    bool malformed = false;
    const Records records = read_all(text, malformed);
    if (malformed) return 0;
    std::string written;
    for (const auto& record : records) {
      if (is_blank(record)) return 0;
      written += prism::csv_row(record);
    }
    bool still_malformed = false;
    prism::fuzz::require(read_all(written, still_malformed) == records, "write and read is not the identity");
    prism::fuzz::require(!still_malformed, "a written record is malformed");
  } catch (const prism::InputError&) {
    return 0;
  }
  return 0;
}
