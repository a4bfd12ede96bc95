// SPDX-License-Identifier: Apache-2.0
// The parallel loop: independent work items over one index, taken by std::jthread workers one at a time.
//
// Items write to disjoint outputs, so results do not depend on the number of threads. Plain threads rather
// than a task library because the loop is flat and stays clean under ThreadSanitizer.
#pragma once

#include <cstddef>
#include <functional>

#include "prism/run/control.hpp"

namespace prism {

/// Calls `body(item, worker)` for every item in [0, items); `worker` is below control.workers(items) and
/// belongs to one thread at a time, for scratch memory. The first exception (lowest item among those that
/// threw) is rethrown after all workers stopped; Cancelled is thrown if a stop was requested.
void parallel_for(std::size_t items, const RunControl& control,
                  const std::function<void(std::size_t item, std::size_t worker)>& body);

}  // namespace prism
