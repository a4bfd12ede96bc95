// SPDX-License-Identifier: Apache-2.0
// What GPU ops wait for on other streams: recorded waits or, where the profiler did not record them, edges inferred
// from times.
#pragma once

#include "prism/kernels/op_search.hpp"
#include "prism/kernels/rank_dependencies.hpp"

namespace prism {

/// Adds edges between streams. Call it last: late starts are judged against all edges found before.
void add_stream_dependencies(const RankTrace& trace, const Launches& launches, const StreamOrder& streams,
                             const RankCommunication& communication, const UsualLags& lags,
                             const OpSearch& search, RankDependencies& dependencies);

}  // namespace prism
