// SPDX-License-Identifier: Apache-2.0
#include "prism/run/parallel.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace prism {

unsigned RunControl::workers(std::size_t work_items) const {
  const unsigned wanted = threads != 0 ? threads : std::max(1U, std::thread::hardware_concurrency());
  return static_cast<unsigned>(std::clamp<std::size_t>(work_items, 1, wanted));
}

void parallel_for(std::size_t items, const RunControl& control,
                  const std::function<void(std::size_t, std::size_t)>& body) {
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> finished{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::exception_ptr error;
  std::size_t error_item = items;

  const auto work = [&](std::size_t worker) {
    for (;;) {
      const std::size_t item = next.fetch_add(1);
      if (item >= items || failed.load(std::memory_order_relaxed)) return;
      try {
        control.check_cancelled();
        body(item, worker);
      } catch (...) {
        failed = true;
        const std::lock_guard lock(mutex);
        if (item < error_item) {
          error_item = item;
          error = std::current_exception();
        }
        return;
      }
      const std::size_t done = finished.fetch_add(1) + 1;
      if (control.progress) control.progress(static_cast<double>(done) / static_cast<double>(items));
    }
  };

  const unsigned workers = control.workers(items);
  {
    std::vector<std::jthread> threads;
    threads.reserve(workers - 1);
    for (unsigned worker = 1; worker < workers; ++worker) threads.emplace_back(work, worker);
    work(0);
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace prism
