// SPDX-License-Identifier: Apache-2.0
// exp, ln and the normal quantile with the same bits on every processor, for doubles. The sweep kernel computes the same
// for vectors, from the same text (portable_math.inc).
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace prism {

namespace portable {

/// Arithmetic of one double.
struct Scalar {
  using V = double;
  using B = std::uint64_t;
  static V set(double x) { return x; }
  static V add(V a, V b) { return a + b; }
  static V sub(V a, V b) { return a - b; }
  static V mul(V a, V b) { return a * b; }
  static V div(V a, V b) { return a / b; }
  static V sqrt(V a) { return std::sqrt(a); }
  static V min(V a, V b) { return b < a ? b : a; }
  static V less(V a, V b, V x, V y) { return a < b ? x : y; }
  static B bits(V a) { return std::bit_cast<B>(a); }
  static V real(B a) { return std::bit_cast<V>(a); }
  static B set_bits(std::uint64_t a) { return a; }
  static B add_bits(B a, B b) { return a + b; }
  static B and_bits(B a, B b) { return a & b; }
  static B or_bits(B a, B b) { return a | b; }
  static B shift_left52(B a) { return a << 52U; }
  static B shift_right52(B a) { return a >> 52U; }
};

#include "prism/stats/portable_math.inc"

}  // namespace portable

/// exp(x), |x| < 700, to 1e-8.
inline double portable_exp(double x) {
  return portable::portable_exp<portable::Scalar>(x);
}

/// The standard normal quantile of u in [2^-34, 1 - 2^-34], to 3e-7.
inline double portable_normal(double u) {
  return portable::portable_normal<portable::Scalar>(u);
}

}  // namespace prism
