// SPDX-License-Identifier: Apache-2.0
// What happened to the input between the file and the model: skipped, repaired or doubtful, with a named
// reason, a count and the first places. Nothing is dropped without an entry here; every command prints the
// entries.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace prism {

enum class Severity {
  Info,      ///< worth knowing, nothing changed
  Repaired,  ///< the input was changed (a duplicate row removed, a clock shifted)
  DataLoss,  ///< a part of the input does not reach the result
};

/// "info", "repaired" or "data loss".
std::string_view severity_name(Severity severity);

struct ImportEntry {
  Severity severity = Severity::Info;
  std::string reason;               ///< one sentence part, the same for all records it stands for
  std::size_t count = 0;            ///< how many records (rows, steps, ranks; the reason says which)
  std::vector<std::string> places;  ///< the first kMaxPlaces of them
};

class ImportReport {
 public:
  static constexpr std::size_t kMaxPlaces = 3;

  /// Counts one record under `reason`; keeps `place` if it is among the first.
  void add(Severity severity, std::string_view reason, std::string_view place = {});

  /// Adds records that were counted elsewhere. An entry of the same severity and reason grows; at most
  /// kMaxPlaces places are kept.
  void add(ImportEntry entry);

  /// In order of first appearance.
  [[nodiscard]] const std::vector<ImportEntry>& entries() const { return entries_; }

 private:
  std::vector<ImportEntry> entries_;
};

}  // namespace prism
