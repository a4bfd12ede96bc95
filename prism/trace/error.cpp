// SPDX-License-Identifier: Apache-2.0
#include "prism/trace/error.hpp"

namespace prism {

std::string Place::text() const {
  if (line) return file + ":" + std::to_string(*line);
  if (byte) return file + " at byte " + std::to_string(*byte);
  return file;
}

namespace {

std::string message(const Place& place, const std::string& problem, const std::string& fix) {
  std::string text = place.text() + ": " + problem;
  if (!fix.empty()) text += "\n  fix: " + fix;
  return text;
}

}  // namespace

InputError::InputError(const Place& place, const std::string& problem, const std::string& fix)
    : std::runtime_error(message(place, problem, fix)) {}

}  // namespace prism
