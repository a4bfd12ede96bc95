// SPDX-License-Identifier: Apache-2.0
// The sweep kernel compiled for one instruction set level (flags: CMakeLists.txt beside this file).
#include "prism/engine/sweep_kernel_levels.hpp"

namespace prism::kernel_baseline {

#include "prism/engine/sweep_kernel.inc"

SweepFunction<double> sweep_double() {
  return &sweep<double>;
}
SweepFunction<float> sweep_float() {
  return &sweep<float>;
}

}  // namespace prism::kernel_baseline
