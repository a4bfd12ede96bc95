// SPDX-License-Identifier: Apache-2.0
#include "prism/trace/import_report.hpp"

#include <algorithm>

namespace prism {

std::string_view severity_name(Severity severity) {
  switch (severity) {
    case Severity::Info:
      return "info";
    case Severity::Repaired:
      return "repaired";
    case Severity::DataLoss:
      return "data loss";
  }
  return "";
}

void ImportReport::add(Severity severity, std::string_view reason, std::string_view place) {
  auto entry = std::ranges::find_if(entries_, [&](const ImportEntry& known) {
    return known.severity == severity && known.reason == reason;
  });
  if (entry == entries_.end()) {
    entries_.push_back({severity, std::string(reason), 0, {}});
    entry = entries_.end() - 1;
  }
  ++entry->count;
  if (!place.empty() && entry->places.size() < kMaxPlaces) entry->places.emplace_back(place);
}

}  // namespace prism
