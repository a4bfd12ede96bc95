// SPDX-License-Identifier: Apache-2.0
#include "prism/model/mesh.hpp"

#include <algorithm>

namespace prism {

namespace {

constexpr std::array<std::string_view, kAxisCount> kNames = {"tp", "cp", "ep", "dp", "pp"};

}  // namespace

std::string_view axis_name(Axis axis) {
  return kNames[static_cast<std::size_t>(axis)];
}

std::int64_t Mesh::world_size() const {
  std::int64_t product = 1;
  for (const int size : sizes) product *= size;
  return product;
}

std::int64_t Mesh::stride(Axis axis) const {
  std::int64_t product = 1;
  for (const Axis inner : order) {
    if (inner == axis) break;
    product *= size(inner);
  }
  return product;
}

int Mesh::coordinate(std::int64_t rank, Axis axis) const {
  return static_cast<int>(rank / stride(axis) % size(axis));
}

std::vector<std::int64_t> Mesh::group(std::int64_t rank, Axis axis) const {
  const std::int64_t step = stride(axis);
  const std::int64_t first = rank - coordinate(rank, axis) * step;
  std::vector<std::int64_t> ranks;
  for (int i = 0; i < size(axis); ++i) ranks.push_back(first + i * step);
  return ranks;
}

std::string Mesh::text() const {
  std::string text;
  for (const Axis axis : order) {
    if (size(axis) == 1) continue;
    text += (text.empty() ? "" : " x ") + std::string(axis_name(axis)) + " " + std::to_string(size(axis));
  }
  return text.empty() ? "1 rank" : text;
}

std::string Mesh::order_text() const {
  std::string text;
  for (const Axis axis : order) text += (text.empty() ? "" : "-") + std::string(axis_name(axis));
  return text;
}

std::optional<std::array<Axis, kAxisCount>> Mesh::parse_order(std::string_view text) {
  std::array<Axis, kAxisCount> order{};
  std::array<bool, kAxisCount> seen{};
  for (std::size_t i = 0; i < kAxisCount; ++i) {
    const bool last = i + 1 == kAxisCount;
    const std::size_t end = last ? text.size() : text.find('-');
    if (end == std::string_view::npos) return std::nullopt;
    const auto axis =
        static_cast<std::size_t>(std::ranges::find(kNames, text.substr(0, end)) - kNames.begin());
    if (axis == kAxisCount || seen[axis]) return std::nullopt;
    seen[axis] = true;
    order[i] = static_cast<Axis>(axis);
    text.remove_prefix(last ? end : end + 1);
  }
  return order;
}

}  // namespace prism
