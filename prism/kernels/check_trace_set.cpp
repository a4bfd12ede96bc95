// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/check_trace_set.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <optional>

#include "prism/trace/error.hpp"
#include "prism/trace/time.hpp"

namespace prism {

namespace {

constexpr std::int64_t kMaxGapNs = 1'000'000'000;
constexpr std::int64_t kMaxTimeNs = std::int64_t{1} << 62;  // so that differences fit

struct Window {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

std::optional<Window> window_of(const RankTrace& trace) {
  if (trace.gpu_ops.empty()) return std::nullopt;
  Window window{trace.gpu_ops.front().start_ns, trace.gpu_ops.front().end_ns()};
  for (const GpuOp& op : trace.gpu_ops) {
    const bool fits = op.start_ns >= -kMaxTimeNs && op.start_ns <= kMaxTimeNs && op.duration_ns >= 0 &&
                      op.duration_ns <= kMaxTimeNs - std::max<std::int64_t>(op.start_ns, 0);
    if (!fits) {
      throw InputError({trace.source, {}, {}},
                       "a GPU op lasts " + std::to_string(op.duration_ns) + " ns from " +
                           std::to_string(op.start_ns) + " ns",
                       "the file is damaged");
    }
    window.start_ns = std::min(window.start_ns, op.start_ns);
    window.end_ns = std::max(window.end_ns, op.end_ns());
  }
  return window;
}

void check_ranks(std::span<const RankTrace> traces) {
  std::map<int, const RankTrace*> by_rank;
  for (const RankTrace& trace : traces) {
    if (!trace.rank) continue;
    const auto [known, is_new] = by_rank.try_emplace(*trace.rank, &trace);
    if (is_new) continue;
    throw InputError({trace.source, {}, {}},
                     "rank " + std::to_string(*trace.rank) + " is in " + known->second->source + " too",
                     "give each rank once, or name the ranks");
  }
}

}  // namespace

std::string time_text(const RankTrace& trace, std::int64_t time_ns) {
  if (!trace.absolute_time) return std::to_string(time_ns) + " ns of the rank's own clock";
  const std::chrono::sys_time<Nanos> time{Nanos(time_ns)};
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  char text[96];
  std::snprintf(text, sizeof text, "%04d-%02u-%02u %02d:%02d:%02d.%09lld UTC (%lld ns)",
                static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()), static_cast<int>(clock.hours().count()),
                static_cast<int>(clock.minutes().count()), static_cast<int>(clock.seconds().count()),
                static_cast<long long>(clock.subseconds().count()), static_cast<long long>(time_ns));
  return text;
}

void check_trace_set(std::span<const RankTrace> traces) {
  check_ranks(traces);
  struct Edge {
    const RankTrace* trace = nullptr;
    std::int64_t time_ns = 0;
  };
  Edge first_end;
  Edge last_start;
  for (const RankTrace& trace : traces) {
    const std::optional<Window> window = window_of(trace);
    if (!window || !trace.absolute_time) continue;
    if (first_end.trace == nullptr || window->end_ns < first_end.time_ns)
      first_end = {&trace, window->end_ns};
    if (last_start.trace == nullptr || window->start_ns > last_start.time_ns)
      last_start = {&trace, window->start_ns};
  }
  if (first_end.trace == nullptr || last_start.time_ns <= first_end.time_ns + kMaxGapNs) return;
  throw InputError({last_start.trace->source, {}, {}},
                   "its GPU work starts at " + time_text(*last_start.trace, last_start.time_ns) +
                       ", after all work of " + first_end.trace->source + ", which ends at " +
                       time_text(*first_end.trace, first_end.time_ns),
                   "give the files of one run of one job, recorded at the same time");
}

}  // namespace prism
