// SPDX-License-Identifier: Apache-2.0
#include "prism/ingest/kineto_numbers.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

namespace prism {

namespace {

template <class T>
std::optional<T> whole(std::string_view text, int base = 10) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::uint64_t> kineto_id(std::string_view text) {
  if (text.starts_with("0x") || text.starts_with("0X")) return whole<std::uint64_t>(text.substr(2), 16);
  if (const std::size_t point = text.find('.');
      point != std::string_view::npos && text.find_first_not_of('0', point + 1) == std::string_view::npos) {
    text = text.substr(0, point);
  }
  if (text.starts_with('-')) {
    const auto value = whole<std::int64_t>(text);
    if (!value) return std::nullopt;
    return static_cast<std::uint64_t>(*value);
  }
  return whole<std::uint64_t>(text);
}

std::optional<std::int64_t> kineto_int(std::string_view text, std::int64_t low, std::int64_t high) {
  const auto bits = kineto_id(text);
  if (!bits) return std::nullopt;
  constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (*bits > kLargest && !text.starts_with('-')) return std::nullopt;
  const auto value = static_cast<std::int64_t>(*bits);
  if (value < low || value > high) return std::nullopt;
  return value;
}

std::vector<std::int32_t> kineto_ranks(std::string_view list) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto trim = [&](std::string_view text) {
    text.remove_prefix(std::min(text.size(), text.find_first_not_of(kSpace)));
    return text.substr(0, text.find_last_not_of(kSpace) + 1);
  };
  list = trim(list);
  if (!list.starts_with('[') || !list.ends_with(']') || list.size() < 2) return {};
  list = list.substr(1, list.size() - 2);
  std::vector<std::int32_t> ranks;
  while (!trim(list).empty()) {
    const std::size_t comma = list.find(',');
    const auto rank = kineto_int(trim(list.substr(0, comma)), 0, std::numeric_limits<std::int32_t>::max());
    if (!rank) return {};
    ranks.push_back(static_cast<std::int32_t>(*rank));
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
  return ranks;
}

}  // namespace prism
