// SPDX-License-Identifier: Apache-2.0
// Checked reading of a saved model's tables: every value has its type and range tested before use.
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "prism/io/sqlite.hpp"
#include "prism/model/saved_model_schema.hpp"
#include "prism/trace/error.hpp"

namespace prism::saved_model {

/// The file and how much of it may still be read. In a damaged file one page can stand in many places, so
/// that a few kilobytes would read as endless rows; an intact file never yields more bytes than it has.
class SavedFile {
 public:
  explicit SavedFile(const std::filesystem::path& path)
      : database_(Database::open(path)), bytes_left_(std::filesystem::file_size(path)) {}

  Database& database() { return database_; }

  [[noreturn]] void fail(const std::string& problem,
                         const std::string& fix =
                             "copy the file again, or make it again with 'prism model "
                             "save'; it is damaged or was changed") const {
    throw InputError({database_.file(), {}, {}}, problem, fix);
  }

  void spend(std::size_t bytes) {
    if (bytes > bytes_left_) fail("its tables hold more than the file has room for");
    bytes_left_ -= bytes;
  }

 private:
  Database database_;
  std::uintmax_t bytes_left_;
};

/// The rows of a table as stored. Columns are read from left to right, each once, with their type and range
/// checked.
class Rows {
 public:
  Rows(SavedFile& file, const std::string& table, std::vector<std::string> columns)
      : file_(file),
        table_(table),
        columns_(std::move(columns)),
        statement_(file.database().prepare(query(table, columns_))) {}

  bool next() {
    if (!statement_.step()) return false;
    file_.spend(1);
    ++count_;
    column_ = -1;
    return true;
  }

  /// Rows so far.
  [[nodiscard]] std::size_t count() const { return count_; }

  template <std::integral Int>
  Int integer(Int low = std::numeric_limits<Int>::min(), Int high = std::numeric_limits<Int>::max()) {
    expect(SqlType::Integer, "whole number");
    const std::int64_t value = statement_.column_int(column_);
    if (std::cmp_less(value, low) || std::cmp_greater(value, high)) {
      fail("is " + std::to_string(value) + ", expected " + std::to_string(low) + " to " +
           std::to_string(high));
    }
    return static_cast<Int>(value);
  }

  /// All 64 bits, without sign.
  std::uint64_t bits() { return static_cast<std::uint64_t>(integer<std::int64_t>()); }

  bool flag() { return integer<int>(0, 1) == 1; }

  /// The column that counts the rows from 0.
  void row_number() {
    const auto expected = static_cast<std::int64_t>(count_ - 1);
    integer(expected, expected);
  }

  double time_ns(double low) {
    expect(SqlType::Real, "number");
    const double value = statement_.column_double(column_);
    if (!(value >= low && value <= kMaxNs)) fail("is not a time");
    return value;
  }

  double share() {
    expect(SqlType::Real, "number");
    const double value = statement_.column_double(column_);
    if (!(value >= 0 && value <= 1)) fail("is not a share of 0 to 1");
    return value;
  }

  std::string text() {
    expect(SqlType::Text, "text");
    std::string value = statement_.column_text(column_);
    file_.spend(value.size());
    return value;
  }

  std::string blob() {
    expect(SqlType::Blob, "blob");
    std::string value = statement_.column_blob(column_);
    file_.spend(value.size());
    return value;
  }

  /// One of the first `count` values of an enumeration, by its name.
  template <class Enum>
  Enum named(std::size_t count, std::string_view (*name_of)(Enum)) {
    const std::string name = text();
    for (std::size_t i = 0; i < count; ++i) {
      if (name_of(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
    }
    fail("is unknown: '" + name.substr(0, 40) + "'");
  }

  ReplicaGroup group(std::uint32_t replicas) {
    const ReplicaGroup group{integer<std::uint32_t>(1), integer<std::uint32_t>(1)};
    if (replicas % (std::uint64_t{group.size} * group.stride) != 0) {
      fail("makes a group of " + std::to_string(group.size) + " replicas, " + std::to_string(group.stride) +
           " apart, which does not divide the " + std::to_string(replicas) + " replicas");
    }
    return group;
  }

  /// `problem` goes on from the name of the column read last.
  [[noreturn]] void fail(const std::string& problem) const {
    file_.fail("table " + table_ + ", row " + std::to_string(count_) + ": " +
               columns_[static_cast<std::size_t>(column_)] + " " + problem);
  }

 private:
  static std::string query(const std::string& table, const std::vector<std::string>& columns) {
    std::string text;
    for (const std::string& column : columns) text += (text.empty() ? "SELECT " : ", ") + column;
    return text + " FROM " + table;
  }

  void expect(SqlType type, const char* name) {
    ++column_;
    const SqlType found = statement_.column_type(column_);
    const bool fits = found == type || (type == SqlType::Real && found == SqlType::Integer);
    if (!fits) fail(std::string("is not a ") + name);
  }

  SavedFile& file_;
  std::string table_;
  std::vector<std::string> columns_;
  Statement statement_;
  std::size_t count_ = 0;
  int column_ = -1;
};

}  // namespace prism::saved_model
