// SPDX-License-Identifier: Apache-2.0
// Time in traces: whole nanoseconds in 64 bits. Readers convert to it once; results convert to seconds once.
#pragma once

#include <chrono>
#include <cstdint>

namespace prism {

using Nanos = std::chrono::duration<std::int64_t, std::nano>;

inline constexpr double kNanosPerSecond = 1e9;

/// A time in nanoseconds (any number type) as seconds.
constexpr double seconds_from_ns(double ns) {
  return ns / kNanosPerSecond;
}

}  // namespace prism
