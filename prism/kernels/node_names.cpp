// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/node_names.hpp"

namespace prism {

namespace {

constexpr std::string_view kOf = " of rank ";
constexpr std::string_view kDigits = "0123456789";

}  // namespace

std::string numbered_node_name(std::string_view what, std::uint32_t occurrence, std::string_view rank) {
  return std::string(what) + " " + std::to_string(occurrence) + " of " + std::string(rank);
}

std::optional<std::string_view> what_of_node_name(std::string_view name) {
  const std::size_t of = name.rfind(kOf);
  if (of == std::string_view::npos || of + kOf.size() == name.size()) return std::nullopt;
  if (name.find_first_not_of(kDigits, of + kOf.size()) != std::string_view::npos) return std::nullopt;
  name = name.substr(0, of);
  const std::size_t space = name.find_last_not_of(kDigits);
  const bool numbered = space != std::string_view::npos && space + 1 < name.size() && name[space] == ' ';
  if (!numbered || space == 0) return std::nullopt;
  return name.substr(0, space);
}

}  // namespace prism
