// SPDX-License-Identifier: Apache-2.0
// Whether traces can be of one run of one job: each rank once, and a time that all of them saw.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "prism/trace/rank_trace.hpp"

namespace prism {

/// "2024-05-22 22:15:22.422880181 UTC (1716416122422880181 ns)"; "1716416122422880181 ns of the rank's own clock" if
/// the trace has no Unix time.
std::string time_text(const RankTrace& trace, std::int64_t time_ns);

/// Throws InputError naming two files: one rank or one file twice; GPU work of traces with Unix time that lies more than
/// a second apart; times beyond 146 years around 1970.
void check_trace_set(std::span<const RankTrace> traces);

}  // namespace prism
