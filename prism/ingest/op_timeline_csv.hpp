// SPDX-License-Identifier: Apache-2.0
// Reader for op-level timelines as CSV: one row per recorded op (the tables of the NDTimeline family).
//
// Columns, in any order: dp_rank, stage, rank, step, optype, start_ts, duration, seq_id; optional mc, mb_id.
// Times in seconds, start relative to the step. Others are ignored. A bad row is counted and left out; the
// step it belongs to is then incomplete and leaves at alignment (prism/model).
#pragma once

#include <string>
#include <string_view>

#include "prism/trace/import_report.hpp"
#include "prism/trace/op_timeline.hpp"

namespace prism {

/// True if the first line that is not blank names the columns optype and start_ts.
bool looks_like_op_timeline(std::string_view text);

/// All usable rows of `text`, in file order. `file` is used in messages. Throws InputError if a required
/// column is missing, no row is usable, or a row's op type merges a send with a receive (which hides who
/// waited for whom).
OpTimeline parse_op_timeline(std::string_view text, const std::string& file, ImportReport& report);

}  // namespace prism
