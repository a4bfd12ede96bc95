// SPDX-License-Identifier: Apache-2.0
// The standard normal quantile of a random word by table: a cubic for each eighth of an octave of the tail probability.
// Cheap enough for every op of every sample, and the same bits in scalar and vector code.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace prism {

/// z = c0 + m (c1 + m (c2 + m c3)): c[i][segment], of the lower tail. The tail probability is d / 2^33 for the odd number d = 2 k
/// + 1, k the word or, in the upper half, its complement; the segment is d's exponent and the three bits after its leading
/// one, m the rest of its mantissa, below 1/8.
struct NormalTable {
  static constexpr std::size_t kSegments = 32 * 8;
  alignas(64) std::array<std::array<double, kSegments>, 4> c{};
};

/// Built once, from portable_normal; absolute error below 1e-6 with it.
const NormalTable& normal_table();

/// z with P(Z <= z) = (word + 1/2) / 2^32.
inline double normal_from_word(const NormalTable& table, std::uint32_t word) {
  constexpr std::uint64_t kRest = (std::uint64_t{1} << 49U) - 1;
  constexpr std::uint64_t kOne = 0x3FF0000000000000U;
  const std::uint32_t k = (word >> 31U) != 0 ? ~word : word;
  const auto bits = std::bit_cast<std::uint64_t>(static_cast<double>(2 * std::uint64_t{k} + 1));
  const std::size_t segment = (bits >> 49U) - (kOne >> 49U);
  const double m = std::bit_cast<double>((bits & kRest) | kOne) - 1;
  const auto& c = table.c;
  const double low = ((c[3][segment] * m + c[2][segment]) * m + c[1][segment]) * m + c[0][segment];
  return (word >> 31U) != 0 ? -low : low;
}

}  // namespace prism
