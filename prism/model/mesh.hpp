// SPDX-License-Identifier: Apache-2.0
// The mesh of a job: how many ranks along each parallel axis, and in which order global ranks run through
// them.
//
// Order "tp-cp-ep-dp-pp" means that tensor-parallel neighbours have consecutive ranks and pipeline stages are
// farthest apart (Megatron's default). rank = sum of coordinate * stride, strides growing in the order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace prism {

enum class Axis : std::uint8_t { Tp, Cp, Ep, Dp, Pp };
inline constexpr std::size_t kAxisCount = 5;

/// "tp", "cp", "ep", "dp" or "pp".
std::string_view axis_name(Axis axis);

struct Mesh {
  std::array<int, kAxisCount> sizes = {1, 1, 1, 1, 1};                                      ///< by Axis
  std::array<Axis, kAxisCount> order = {Axis::Tp, Axis::Cp, Axis::Ep, Axis::Dp, Axis::Pp};  ///< fastest first

  [[nodiscard]] int size(Axis axis) const { return sizes[static_cast<std::size_t>(axis)]; }
  int& size(Axis axis) { return sizes[static_cast<std::size_t>(axis)]; }

  /// Number of ranks: the product of the sizes.
  [[nodiscard]] std::int64_t world_size() const;

  /// Distance in ranks between neighbours along `axis`.
  [[nodiscard]] std::int64_t stride(Axis axis) const;

  /// Coordinate of a global rank along `axis`.
  [[nodiscard]] int coordinate(std::int64_t rank, Axis axis) const;

  /// Global ranks of the process group along `axis` that holds `rank`, ascending.
  [[nodiscard]] std::vector<std::int64_t> group(std::int64_t rank, Axis axis) const;

  /// "tp 4 x dp 4 x pp 4"; axes of size 1 are left out.
  [[nodiscard]] std::string text() const;

  /// "tp-cp-ep-dp-pp".
  [[nodiscard]] std::string order_text() const;

  /// Reads what order_text writes; nothing unless it names each axis once.
  static std::optional<std::array<Axis, kAxisCount>> parse_order(std::string_view text);

  friend bool operator==(const Mesh&, const Mesh&) = default;
};

}  // namespace prism
