// SPDX-License-Identifier: Apache-2.0
#include "prism/stats/normal_table.hpp"

#include <cmath>

#include "prism/stats/portable_math.hpp"

namespace prism {

namespace {

/// The cubic through four points, by divided differences, as powers of m.
std::array<double, 4> cubic_through(const std::array<double, 4>& at, std::array<double, 4> value) {
  for (std::size_t order = 1; order < 4; ++order) {
    for (std::size_t i = 3; i >= order; --i) value[i] = (value[i] - value[i - 1]) / (at[i] - at[i - order]);
  }
  // Newton's form into powers: from the innermost factor outwards.
  std::array<double, 4> power{value[3], 0, 0, 0};
  for (std::size_t step = 3; step-- > 0;) {
    for (std::size_t i = 3; i > 0; --i) power[i] = power[i - 1] - at[step] * power[i];
    power[0] = value[step] - at[step] * power[0];
  }
  return power;
}

NormalTable make_table() {
  // Chebyshev points of [0, 1/8), written out: cos is not the same on every machine.
  constexpr std::array<double, 4> kPoints = {
      0.0625 - 0.0625 * 0.92387953251128674, 0.0625 - 0.0625 * 0.38268343236508977,
      0.0625 + 0.0625 * 0.38268343236508977, 0.0625 + 0.0625 * 0.92387953251128674};
  NormalTable table;
  for (std::size_t segment = 0; segment < NormalTable::kSegments; ++segment) {
    const double octave = std::ldexp(1.0, static_cast<int>(segment / 8) - 33);  // of the probability d / 2^33
    const double begin = 1 + static_cast<double>(segment % 8) / 8;
    std::array<double, 4> z{};
    for (std::size_t i = 0; i < 4; ++i) z[i] = portable_normal(octave * (begin + kPoints[i]));
    const std::array<double, 4> power = cubic_through(kPoints, z);
    for (std::size_t i = 0; i < 4; ++i) table.c[i][segment] = power[i];
  }
  return table;
}

}  // namespace

const NormalTable& normal_table() {
  static const NormalTable table = make_table();
  return table;
}

}  // namespace prism
