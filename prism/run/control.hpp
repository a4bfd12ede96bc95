// SPDX-License-Identifier: Apache-2.0
// How a long computation is run: threads, cancellation and progress, passed down as one small value. Results
// never depend on it.
#pragma once

#include <atomic>
#include <functional>

#include "prism/trace/error.hpp"

namespace prism {

struct RunControl {
  unsigned threads = 0;                          ///< 0: all cores
  const std::atomic<bool>* cancelled = nullptr;  ///< set from outside (Ctrl-C); may be null
  std::function<void(double done)> progress;  ///< called with a share in [0, 1] from any thread; may be empty

  /// Number of worker threads to start for `work_items` items: at least 1, never more than there are items.
  [[nodiscard]] unsigned workers(std::size_t work_items) const;

  /// Throws Cancelled if a stop was requested.
  void check_cancelled() const {
    if (cancelled != nullptr && cancelled->load(std::memory_order_relaxed)) throw Cancelled();
  }
};

}  // namespace prism
