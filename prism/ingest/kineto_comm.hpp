// SPDX-License-Identifier: Apache-2.0
// The communication that an event's arguments describe. Internal to the reader of profiler traces.
#pragma once

#include <functional>

#include "prism/ingest/kineto_event.hpp"
#include "prism/trace/rank_trace.hpp"

namespace prism {

/// From the named fields (PyTorch since October 2023) and, where they are absent, from the positional "Concrete
/// Inputs" of older records: [tensors,] sequence, group, rank, name, input splits, output splits, ..., group
/// size. A positional record without tensors is that of a wait. The number of elements of an older record is
/// that of its first input. `intern` makes names out of raw text.
[[nodiscard]] CommRecord kineto_comm(const KinetoArgs& args,
                                     const std::function<NameId(std::string_view)>& intern);

}  // namespace prism
