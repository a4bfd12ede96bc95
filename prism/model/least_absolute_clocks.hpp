// SPDX-License-Identifier: Apache-2.0
// Offsets of clocks from observed differences between pairs of them.
#pragma once

#include <cstddef>
#include <vector>

namespace prism {

/// "clock a minus clock b is about this"; a clock may be a rank, or the hub that stands for a collective.
struct ClockDifference {
  std::size_t a = 0;
  std::size_t b = 0;
  double difference_ns = 0;
};

/// One offset per clock that minimises the sum of absolute deviations from `differences`, so one odd difference (a
/// rank that leaves a collective late because it is busy) does not move a clock that the others agree on. Deviations
/// below `agreement_ns` weigh as squares. Clocks without differences, and one clock of each connected set, stay at
/// about 0. By reweighted least squares.
std::vector<double> least_absolute_clocks(std::size_t clocks, const std::vector<ClockDifference>& differences,
                                          double agreement_ns);

}  // namespace prism
