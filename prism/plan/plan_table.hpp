// SPDX-License-Identifier: Apache-2.0
// Strict access to a plan file's tables: every key is known, has a type and a range, and is recorded with where its value
// comes from. The only place that sees the TOML library.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "prism/plan/plan.hpp"
#include "prism/trace/error.hpp"

namespace prism {

/// A parsed file and what has been read from it.
struct PlanDocument;

/// One table of the file. A table that is absent reads as empty.
class PlanTable {
 public:
  /// The table at the root. Throws InputError with the line for text that is no TOML.
  static PlanTable parse(std::string_view text, const std::string& source);

  [[nodiscard]] bool has(const std::string& key) const;
  /// Whether the table is in the file.
  [[nodiscard]] bool present() const;
  /// File and line of a key, or of the table.
  [[nodiscard]] Place place(const std::string& key = {}) const;

  // Each reads a key, checks type and range, and records it as given; nothing if it is absent.
  std::optional<std::int64_t> integer(const std::string& key, std::int64_t least, std::int64_t most);
  std::optional<double> number(const std::string& key, double least, double most);
  /// A share: 0.02 or "2 %".
  std::optional<double> share(const std::string& key, double most = 1);
  std::optional<bool> flag(const std::string& key);
  std::optional<std::string> text(const std::string& key);
  std::vector<std::int64_t> integers(const std::string& key, std::int64_t least, std::int64_t most);
  /// A text or a list of texts.
  std::vector<std::string> texts(const std::string& key);

  // The same with a default, which is recorded with its source.
  std::int64_t integer(const std::string& key, std::int64_t least, std::int64_t most, std::int64_t otherwise,
                       const std::string& source);
  double number(const std::string& key, double least, double most, double otherwise,
                const std::string& source);
  double share(const std::string& key, double most, double otherwise, const std::string& source);
  bool flag(const std::string& key, bool otherwise, const std::string& source);
  /// One of the names; its index.
  std::size_t choice(const std::string& key, const std::vector<std::string>& names, std::size_t otherwise,
                     const std::string& source);

  /// A table inside it, and an array of tables.
  PlanTable table(const std::string& key);
  std::vector<PlanTable> tables(const std::string& key);

  /// Refuses keys that nobody asked for, naming the nearest known one.
  void finish() const;
  /// Refuses the value of a key.
  [[noreturn]] void refuse(const std::string& key, const std::string& problem, const std::string& fix) const;
  /// Records a value that follows from others.
  void record(const std::string& key, const std::string& value, const std::string& source);
  /// All that has been recorded in the document.
  [[nodiscard]] std::vector<Setting> settings() const;

 private:
  PlanTable(std::shared_ptr<PlanDocument> document, const void* table, std::string path);
  const void* find(const std::string& key);
  void given(const std::string& key, const std::string& value);

  std::shared_ptr<PlanDocument> document_;
  const void* table_ = nullptr;  // toml::table of the document; null: absent
  std::string path_;
  std::shared_ptr<std::vector<std::string>> known_;
};

/// The shortest text of a number.
std::string number_text(double value);

}  // namespace prism
