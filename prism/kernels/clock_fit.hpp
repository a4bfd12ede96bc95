// SPDX-License-Identifier: Apache-2.0
// One clock against another from differences that scatter: a middle, a spread, and a drift where it stands out.
#pragma once

#include <cstdint>
#include <vector>

namespace prism {

/// At `time_ns` of its own clock, a clock was seen `difference_ns` ahead of another.
struct ClockSample {
  std::int64_t time_ns = 0;
  std::int64_t difference_ns = 0;
};

struct ClockFit {
  std::int64_t offset_ns = 0;  ///< difference at origin_ns
  double drift = 0;            ///< further nanoseconds per nanosecond
  std::int64_t origin_ns = 0;
  double spread_ns = 0;  ///< of the samples about the fit: robust standard deviation

  /// Difference at a time of the fitted clock.
  [[nodiscard]] std::int64_t at(std::int64_t time_ns) const {
    return offset_ns + static_cast<std::int64_t>(drift * static_cast<double>(time_ns - origin_ns));
  }
};

/// Median and, for at least 16 samples over at least two seconds, the median slope between samples half the span apart
/// (after Theil and Sen), if it is below 1e-3 and at least halves the spread. `samples` in order of time; none: all 0.
ClockFit fit_clock(const std::vector<ClockSample>& samples);

}  // namespace prism
