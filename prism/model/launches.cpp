// SPDX-License-Identifier: Apache-2.0
#include "prism/model/launches.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace prism {

namespace {

constexpr std::int64_t kClockJitterNs = 1000;  // between host and GPU times of one trace

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

/// A launch call seen from its thread.
struct Point {
  std::uint32_t thread;
  std::int64_t middle_ns;
  std::uint32_t call;
  [[nodiscard]] auto key() const { return std::tuple(thread, middle_ns, call); }
};

std::vector<Point> launch_points(const RankTrace& trace, const Launches& launches) {
  std::vector<bool> launches_work(trace.calls.size());
  for (const auto& call : launches.call_of) {
    if (call) launches_work[*call] = true;
  }
  std::vector<Point> points;
  for (std::uint32_t i = 0; i < trace.calls.size(); ++i) {
    if (!launches_work[i]) continue;
    const HostCall& call = trace.calls[i];
    points.push_back({call.thread.value, call.start_ns + call.duration_ns / 2, i});
  }
  std::ranges::sort(points, {}, &Point::key);
  return points;
}

/// The operators by (thread, start, longest first): an operator comes after all that contain it.
std::vector<std::uint32_t> outside_in(const RankTrace& trace, std::span<const std::uint32_t> operators) {
  std::vector<std::uint32_t> begin_of_thread(trace.threads.size() + 1);
  for (const std::uint32_t i : operators) ++begin_of_thread[trace.cpu_ops[i].thread.value + 1];
  for (std::size_t t = 1; t < begin_of_thread.size(); ++t) begin_of_thread[t] += begin_of_thread[t - 1];
  std::vector<std::uint32_t> order(operators.size());
  for (const std::uint32_t i : operators) order[begin_of_thread[trace.cpu_ops[i].thread.value]++] = i;
  const auto key = [&](std::uint32_t i) {
    const CpuOp& op = trace.cpu_ops[i];
    return std::tuple(op.thread.value, op.start_ns, -op.duration_ns);
  };
  if (!std::ranges::is_sorted(order, {}, key)) std::ranges::stable_sort(order, {}, key);
  return order;
}

}  // namespace

// One sweep over launches and operators of each thread, with a stack of the operators that are open.
std::vector<std::optional<std::uint32_t>> operators_around_launches(
    const RankTrace& trace, const Launches& launches, std::span<const std::uint32_t> operators) {
  const std::vector<std::uint32_t> order = outside_in(trace, operators);
  std::vector<std::optional<std::uint32_t>> operator_of_call(trace.calls.size());
  std::vector<std::uint32_t> open;
  std::uint32_t thread = 0;
  auto next = order.begin();
  for (const Point& point : launch_points(trace, launches)) {
    if (point.thread != thread) open.clear();
    thread = point.thread;
    for (; next != order.end(); ++next) {
      const CpuOp& op = trace.cpu_ops[*next];
      if (op.thread.value > thread || (op.thread.value == thread && op.start_ns > point.middle_ns)) break;
      if (op.thread.value < thread) continue;
      while (!open.empty() && trace.cpu_ops[open.back()].end_ns() < op.start_ns) open.pop_back();
      open.push_back(*next);
    }
    while (!open.empty() && trace.cpu_ops[open.back()].end_ns() < point.middle_ns) open.pop_back();
    if (!open.empty()) operator_of_call[point.call] = open.back();
  }
  std::vector<std::optional<std::uint32_t>> operator_of(launches.call_of.size());
  for (std::size_t op = 0; op < operator_of.size(); ++op) {
    if (launches.call_of[op]) operator_of[op] = operator_of_call[*launches.call_of[op]];
  }
  return operator_of;
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
