// SPDX-License-Identifier: Apache-2.0
// From a stream of text to the trace in it: the pass over the top level and the events of a profiler trace,
// and how it finds its way on after text that is not JSON. Internal; see kineto.hpp.
#pragma once

#include "prism/ingest/kineto_notes.hpp"
#include "prism/io/byte_stream.hpp"
#include "prism/run/control.hpp"
#include "prism/trace/rank_trace.hpp"

namespace prism {

/// Reads all of `stream`. The trace's `rank` is what the file says, `source` is left to the caller. Throws
/// InputError if the stream holds no such trace, Cancelled if a stop was requested.
[[nodiscard]] RankTrace read_kineto_stream(ByteStream& stream, const RunControl& control, KinetoNotes& notes);

}  // namespace prism
