// SPDX-License-Identifier: Apache-2.0
// Profiler traces of a few ranks with anything in them, drawn by rapidcheck: steps that are nearly equal, or
// not at all; threads that hand over; waits, recorded or not; communication that fits together, or does not.
#pragma once

#include <vector>

#include "prism/trace/rank_trace.hpp"

namespace prism {

/// Inside a rapidcheck property only. One to three ranks.
std::vector<RankTrace> random_traces();

}  // namespace prism
