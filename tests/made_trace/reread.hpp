// SPDX-License-Identifier: Apache-2.0
// Traces as they are after being written to files and read again.
#pragma once

#include <span>
#include <vector>

#include "prism/trace/import_report.hpp"
#include "prism/trace/rank_trace.hpp"

namespace prism {

/// In memory. What reading had to repair or drop is added to `report`.
std::vector<RankTrace> reread(std::span<const RankTrace> traces, ImportReport& report);

}  // namespace prism
