// SPDX-License-Identifier: Apache-2.0
// Records of a CSV text in memory (RFC 4180, with the departures that real files have).
//
// Fields are views into the text; only quoted fields with doubled quotes are copied. Accepted beyond the RFC:
// a UTF-8 byte order mark, LF as well as CRLF, no newline at the end, empty lines (skipped). What a record
// with too few fields or a broken quote means is the caller's decision: it is delivered, and malformed() says
// so.
//
//   CsvReader rows(text, "steps.csv");
//   const auto step = rows.column("step");
//   while (rows.next()) use(parse_int(rows.fields()[*step]), rows.line());
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "prism/trace/error.hpp"

namespace prism {

class CsvReader {
 public:
  /// Reads the header, the first line that is not empty; `text` must outlive the reader.
  ///
  /// Throws InputError if there is none, or if a quote in it is broken.
  CsvReader(std::string_view text, std::string file);

  CsvReader(const CsvReader&) = delete;
  CsvReader& operator=(const CsvReader&) = delete;

  /// Column names as written.
  [[nodiscard]] const std::vector<std::string>& header() const { return header_; }

  /// Index of the first column with this name, if any.
  [[nodiscard]] std::optional<std::size_t> column(std::string_view name) const;

  /// Goes to the next record; false at the end of the text.
  bool next();

  /// Fields of the current record, as many as it has (not always header().size()); valid until the next call
  /// of next().
  [[nodiscard]] std::span<const std::string_view> fields() const { return fields_; }

  /// Line on which the current record starts, from 1.
  [[nodiscard]] std::uint64_t line() const { return line_; }

  /// File and line of the current record, for messages.
  [[nodiscard]] Place place() const { return {file_, line_, {}}; }

  /// Whether a quote in the current record is never closed, or a closing quote is followed by more text.
  ///
  /// A record with a quote that is never closed ends with its first line; the lines after it are read as
  /// usual.
  [[nodiscard]] bool malformed() const { return malformed_; }

 private:
  struct Buffered {
    std::size_t field = 0;
    std::size_t begin = 0;  ///< in buffer_
    std::size_t size = 0;
  };

  void split_plain(std::size_t line_end);
  bool read_field();
  bool read_quoted_field();
  void read_unclosed_field();
  bool end_field(std::size_t end);

  std::string_view text_;
  std::string file_;
  std::vector<std::string> header_;
  std::size_t position_ = 0;    ///< start of the next record
  std::size_t next_quote_ = 0;  ///< first quote at or after position_, once looked for
  std::uint64_t next_line_ = 1;
  std::uint64_t line_ = 0;
  bool malformed_ = false;
  std::vector<std::string_view> fields_;
  std::string buffer_;              ///< text of the fields that are not a piece of text_
  std::vector<Buffered> buffered_;  ///< those fields; views are made when buffer_ no longer grows
};

/// The whole field as an integer; spaces around it and a leading '+' are allowed, nothing if out of range.
[[nodiscard]] std::optional<std::int64_t> parse_int(std::string_view field);

/// The whole field as a number; spaces around it and a leading '+' are allowed, nothing if out of range.
///
/// "nan" and "inf" are read as such: callers that need finite values check.
[[nodiscard]] std::optional<double> parse_double(std::string_view field);

/// The field as written in CSV: quoted if it holds a comma, a quote or a line break.
[[nodiscard]] std::string csv_field(std::string_view field);

/// A record with its newline; CsvReader reads the same fields back.
[[nodiscard]] std::string csv_row(std::span<const std::string> fields);

/// The shortest decimal text that parse_double reads back as the same number.
[[nodiscard]] std::string csv_number(double value);

}  // namespace prism
