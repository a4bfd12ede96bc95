// SPDX-License-Identifier: Apache-2.0
#include "prism/engine/sweep_kernel.hpp"

#include <type_traits>

#include "prism/engine/sweep_kernel_levels.hpp"

namespace prism {

namespace {

template <class Real, class Double, class Float>
SweepFunction<Real> pick(Double sweep_double, Float sweep_float) {
  if constexpr (std::is_same_v<Real, double>) {
    return sweep_double();
  } else {
    return sweep_float();
  }
}

}  // namespace

#if defined(__x86_64__)

SimdLevel best_simd_level() {
  if (__builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
      __builtin_cpu_supports("avx512cd") != 0) {
    return SimdLevel::V4;
  }
  if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
      __builtin_cpu_supports("bmi2") != 0) {
    return SimdLevel::V3;
  }
  if (__builtin_cpu_supports("sse4.2") != 0 && __builtin_cpu_supports("popcnt") != 0) return SimdLevel::V2;
  return SimdLevel::Baseline;
}

template <class Real>
SweepFunction<Real> sweep_kernel(SimdLevel level) {
  if (level > best_simd_level()) return nullptr;
  switch (level) {
    case SimdLevel::V4:
      return pick<Real>(kernel_v4::sweep_double, kernel_v4::sweep_float);
    case SimdLevel::V3:
      return pick<Real>(kernel_v3::sweep_double, kernel_v3::sweep_float);
    case SimdLevel::V2:
      return pick<Real>(kernel_v2::sweep_double, kernel_v2::sweep_float);
    case SimdLevel::Baseline:
      break;
  }
  return pick<Real>(kernel_baseline::sweep_double, kernel_baseline::sweep_float);
}

#else

SimdLevel best_simd_level() {
  return SimdLevel::Baseline;
}

template <class Real>
SweepFunction<Real> sweep_kernel(SimdLevel level) {
  if (level != SimdLevel::Baseline) return nullptr;
  return pick<Real>(kernel_baseline::sweep_double, kernel_baseline::sweep_float);
}

#endif

template SweepFunction<double> sweep_kernel<double>(SimdLevel);
template SweepFunction<float> sweep_kernel<float>(SimdLevel);

const char* simd_level_name(SimdLevel level) {
  switch (level) {
    case SimdLevel::V4:
      return "x86-64-v4";
    case SimdLevel::V3:
      return "x86-64-v3";
    case SimdLevel::V2:
      return "x86-64-v2";
    case SimdLevel::Baseline:
      break;
  }
  return "baseline";
}

}  // namespace prism
