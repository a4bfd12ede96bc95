// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/launches.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace prism {

namespace {

struct Correlated {
  std::int64_t correlation;
  std::uint32_t index;  // events are sorted by start, so equal correlations stay in start order
  friend auto operator<=>(const Correlated&, const Correlated&) = default;
};

/// Events with a correlation, by correlation, then start. Correlations mostly grow with time already.
template <class Event>
std::vector<Correlated> by_correlation(const std::vector<Event>& events) {
  std::vector<Correlated> sorted;
  sorted.reserve(events.size());
  for (std::uint32_t i = 0; i < events.size(); ++i) {
    if (events[i].correlation > 0) sorted.push_back({events[i].correlation, i});
  }
  if (!std::ranges::is_sorted(sorted)) std::ranges::sort(sorted);
  return sorted;
}

void join_calls(const RankTrace& trace, Launches& launches) {
  const std::vector<Correlated> calls = by_correlation(trace.calls);
  auto call = calls.begin();
  for (const Correlated& op : by_correlation(trace.gpu_ops)) {
    // Ops of one correlation come in start order, so the best call only moves forward.
    while (call != calls.end() && call->correlation < op.correlation) ++call;
    if (call == calls.end()) break;
    if (call->correlation != op.correlation) continue;
    const std::int64_t latest = trace.gpu_ops[op.index].start_ns + kClockJitterNs;
    for (auto next = call + 1; next != calls.end() && next->correlation == op.correlation &&
                               trace.calls[next->index].start_ns <= latest;
         ++next) {
      call = next;
    }
    launches.call_of[op.index] = call->index;
  }
}

/// Sorts indices by thread, keeping their order within one. `thread_of` maps an index to its thread's number.
template <class ThreadOf>
std::vector<std::uint32_t> by_thread(std::size_t threads, std::span<const std::uint32_t> indices,
                                     const ThreadOf& thread_of) {
  std::vector<std::uint32_t> begin_of_thread(threads + 1);
  for (const std::uint32_t i : indices) ++begin_of_thread[thread_of(i) + 1];
  for (std::size_t t = 1; t < begin_of_thread.size(); ++t) begin_of_thread[t] += begin_of_thread[t - 1];
  std::vector<std::uint32_t> order(indices.size());
  for (const std::uint32_t i : indices) order[begin_of_thread[thread_of(i)]++] = i;
  return order;
}

std::int64_t middle_ns(const HostCall& call) {
  return call.start_ns + call.duration_ns / 2;
}

/// The calls that launched something, by (thread, middle).
std::vector<std::uint32_t> launch_calls(const RankTrace& trace, const Launches& launches) {
  std::vector<bool> launches_work(trace.calls.size());
  for (const auto& call : launches.call_of) {
    if (call) launches_work[*call] = true;
  }
  std::vector<std::uint32_t> calls;
  for (std::uint32_t i = 0; i < trace.calls.size(); ++i) {
    if (launches_work[i]) calls.push_back(i);
  }
  std::vector<std::uint32_t> order =
      by_thread(trace.threads.size(), calls, [&](std::uint32_t i) { return trace.calls[i].thread.value; });
  const auto key = [&](std::uint32_t i) {
    return std::pair(trace.calls[i].thread.value, middle_ns(trace.calls[i]));
  };
  if (!std::ranges::is_sorted(order, {}, key)) std::ranges::stable_sort(order, {}, key);
  return order;
}

/// Ranges by (thread, start, longest first): a range comes after all that contain it.
template <class Range>
std::vector<std::uint32_t> outside_in(std::size_t threads, const std::vector<Range>& ranges,
                                      std::span<const std::uint32_t> chosen) {
  std::vector<std::uint32_t> order =
      by_thread(threads, chosen, [&](std::uint32_t i) { return ranges[i].thread.value; });
  const auto key = [&](std::uint32_t i) {
    return std::tuple(ranges[i].thread.value, ranges[i].start_ns, -ranges[i].duration_ns);
  };
  if (!std::ranges::is_sorted(order, {}, key)) std::ranges::stable_sort(order, {}, key);
  return order;
}

/// One sweep over launches and ranges of each thread, with a stack of the ranges that are open.
template <class Range>
std::vector<std::optional<std::uint32_t>> around_launches(const RankTrace& trace, const Launches& launches,
                                                          const std::vector<Range>& ranges,
                                                          std::span<const std::uint32_t> chosen) {
  const std::vector<std::uint32_t> order = outside_in(trace.threads.size(), ranges, chosen);
  std::vector<std::optional<std::uint32_t>> around_call(trace.calls.size());
  std::vector<std::uint32_t> open;
  std::uint32_t thread = 0;
  auto next = order.begin();
  for (const std::uint32_t call : launch_calls(trace, launches)) {
    const std::int64_t middle = middle_ns(trace.calls[call]);
    if (trace.calls[call].thread.value != thread) open.clear();
    thread = trace.calls[call].thread.value;
    for (; next != order.end(); ++next) {
      const Range& range = ranges[*next];
      if (range.thread.value > thread || (range.thread.value == thread && range.start_ns > middle)) break;
      if (range.thread.value < thread) continue;
      while (!open.empty() && ranges[open.back()].end_ns() < range.start_ns) open.pop_back();
      open.push_back(*next);
    }
    while (!open.empty() && ranges[open.back()].end_ns() < middle) open.pop_back();
    if (!open.empty()) around_call[call] = open.back();
  }
  std::vector<std::optional<std::uint32_t>> around(launches.call_of.size());
  for (std::size_t op = 0; op < around.size(); ++op) {
    if (launches.call_of[op]) around[op] = around_call[*launches.call_of[op]];
  }
  return around;
}

}  // namespace

std::vector<std::optional<std::uint32_t>> operators_around_launches(
    const RankTrace& trace, const Launches& launches, std::span<const std::uint32_t> operators) {
  return around_launches(trace, launches, trace.cpu_ops, operators);
}

std::vector<std::optional<std::uint32_t>> annotations_around_launches(
    const RankTrace& trace, const Launches& launches, std::span<const std::uint32_t> annotations) {
  return around_launches(trace, launches, trace.annotations, annotations);
}

Launches find_launches(const RankTrace& trace) {
  Launches launches;
  launches.call_of.resize(trace.gpu_ops.size());
  join_calls(trace, launches);
  std::vector<std::uint32_t> all(trace.cpu_ops.size());
  std::iota(all.begin(), all.end(), 0U);
  launches.operator_of = operators_around_launches(trace, launches, all);
  for (std::size_t op = 0; op < launches.call_of.size(); ++op) {
    if (!launches.call_of[op]) {
      ++launches.without_launch;
    } else if (trace.gpu_ops[op].start_ns + kClockJitterNs < trace.calls[*launches.call_of[op]].start_ns) {
      ++launches.started_before_launch;
    }
  }
  return launches;
}

}  // namespace prism
