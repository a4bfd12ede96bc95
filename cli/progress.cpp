// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.hpp"

#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>

#include <unistd.h>

namespace prism::cli {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kQuietFor = std::chrono::seconds(1);  // short runs show nothing
constexpr auto kRefresh = std::chrono::milliseconds(200);

class Line {
 public:
  void show(double done) {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    if (done >= 1) {
      if (shown_) std::fputs("\r\033[K", stderr);
      shown_ = false;
      began_ = now;  // the next loop is another task
      return;
    }
    if (now - began_ < kQuietFor || now - last_ < kRefresh || done <= 0) return;
    last_ = now;
    shown_ = true;
    const double elapsed = std::chrono::duration<double>(now - began_).count();
    std::fprintf(stderr, "\r\033[K%3.0f %%, about %.0f s left", 100 * done, elapsed * (1 - done) / done);
  }

 private:
  std::mutex mutex_;
  Clock::time_point began_ = Clock::now();
  Clock::time_point last_ = Clock::now();
  bool shown_ = false;
};

}  // namespace

std::function<void(double)> terminal_progress() {
  if (isatty(STDERR_FILENO) == 0) return {};
  return [line = std::make_shared<Line>()](double done) { line->show(done); };
}

}  // namespace prism::cli
