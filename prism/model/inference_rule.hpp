// SPDX-License-Identifier: Apache-2.0
// When times are taken to prove a dependency that the trace does not record. One rule for all inferences.
#pragma once

#include <cstddef>

namespace prism {

/// Recorded clocks scatter by about 0.1 ms; a start this much before the event it waits for still agrees.
inline constexpr double kInferenceToleranceNs = 200e3;

/// Arrivals that differ less than this on average cannot tell a wait from a coincidence.
inline constexpr double kMinSpreadNs = 1e6;

/// At least 95 % of the cases agree.
constexpr bool nearly_all(std::size_t agreeing, std::size_t cases) {
  return agreeing * 100 >= cases * 95;
}

}  // namespace prism
