// SPDX-License-Identifier: Apache-2.0
// From a stream of text to the trace in it: the pass over the top level and the events of a profiler trace,
// and how it finds its way on after text that is not JSON. Internal; see kineto.hpp.
#pragma once

#include <cstddef>

#include "prism/ingest/kineto_notes.hpp"
#include "prism/io/byte_stream.hpp"
#include "prism/run/control.hpp"
#include "prism/trace/rank_trace.hpp"

namespace prism {

struct KinetoLimits {
  std::size_t window_bytes = 256 * 1024;  ///< fits into the second-level cache with what is made of it
  std::size_t most_window_bytes = std::size_t{64} << 20;  ///< longer events are left out
};

/// Reads all of `stream`. The trace's `rank` is what the file says, `source` is left to the caller. Throws
/// InputError if the stream holds no such trace, Cancelled if a stop was requested. What is read does not depend
/// on `limits`, but for events that do not fit.
[[nodiscard]] RankTrace read_kineto_stream(ByteStream& stream, const RunControl& control, KinetoNotes& notes,
                                           const KinetoLimits& limits = {});

}  // namespace prism
