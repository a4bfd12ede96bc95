// SPDX-License-Identifier: Apache-2.0
// The compiled levels of the sweep kernel, for the dispatcher in sweep_kernel.cpp only.
#pragma once

#include "prism/engine/sweep_kernel.hpp"

namespace prism::kernel_baseline {
SweepFunction<double> sweep_double();
SweepFunction<float> sweep_float();
}  // namespace prism::kernel_baseline

namespace prism::kernel_v2 {
SweepFunction<double> sweep_double();
SweepFunction<float> sweep_float();
}  // namespace prism::kernel_v2

namespace prism::kernel_v3 {
SweepFunction<double> sweep_double();
SweepFunction<float> sweep_float();
}  // namespace prism::kernel_v3

namespace prism::kernel_v4 {
SweepFunction<double> sweep_double();
SweepFunction<float> sweep_float();
}  // namespace prism::kernel_v4
