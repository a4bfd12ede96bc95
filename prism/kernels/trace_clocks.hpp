// SPDX-License-Identifier: Apache-2.0
// Clock of each trace from matched communication: members of a barrier-like collective end together.
#pragma once

#include <span>
#include <vector>

#include "prism/kernels/match_collectives.hpp"
#include "prism/kernels/relative_clocks.hpp"

namespace prism {

/// [trace] clocks relative to the first trace, each the median of its ends' differences over the better half (smallest
/// spread) of each group's collectives, balanced over groups by least absolute deviations. Groups without barrier-like
/// collectives use all their matches. A drift is added where it stands out (fit_clock).
/// A trace with few matches takes the clock of its host, if recorded. `known` removes whole differences first.
std::vector<TraceClock> estimate_trace_clocks(std::span<const RankTrace> traces,
                                              std::span<const RankCommunication> communication,
                                              std::span<const MatchedCollective> matched,
                                              const RelativeClocks& known, ImportReport& report);

}  // namespace prism
