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
  ImportEntry entry{severity, std::string(reason), 1, {}};
  if (!place.empty()) entry.places.emplace_back(place);
  add(std::move(entry));
}

void ImportReport::add(ImportEntry entry) {
  const auto known = std::ranges::find_if(entries_, [&](const ImportEntry& other) {
    return other.severity == entry.severity && other.reason == entry.reason;
  });
  if (known == entries_.end()) {
    if (entry.places.size() > kMaxPlaces) entry.places.resize(kMaxPlaces);
    entries_.push_back(std::move(entry));
    return;
  }
  known->count += entry.count;
  for (std::string& place : entry.places) {
    if (known->places.size() < kMaxPlaces) known->places.push_back(std::move(place));
  }
}

}  // namespace prism
