// SPDX-License-Identifier: Apache-2.0
// A rank's trace as lines of text, one per event, with names in place of ids: for comparing traces whatever the
// order in which their names were met.
#pragma once

#include <string>
#include <vector>

#include "prism/trace/rank_trace.hpp"

namespace prism {

/// All that a trace says, but for where it was read from and the counts of the file.
std::vector<std::string> trace_text(const RankTrace& trace);

}  // namespace prism
