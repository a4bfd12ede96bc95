// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/op_search.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace prism {

namespace {

template <class TimeOf>
OpsByTime sorted_by(std::vector<std::uint32_t> ops, const TimeOf& time_of) {
  OpsByTime result;
  if (!std::ranges::is_sorted(ops, {}, time_of)) std::ranges::stable_sort(ops, {}, time_of);
  result.time_ns.reserve(ops.size());
  for (const std::uint32_t op : ops) result.time_ns.push_back(time_of(op));
  result.ops = std::move(ops);
  return result;
}

}  // namespace

std::size_t OpsByTime::before(std::int64_t time) const {
  return static_cast<std::size_t>(std::ranges::lower_bound(time_ns, time) - time_ns.begin());
}

std::size_t OpsByTime::up_to(std::int64_t time) const {
  return static_cast<std::size_t>(std::ranges::upper_bound(time_ns, time) - time_ns.begin());
}

OpSearch::OpSearch(const RankTrace& trace, const Launches& launches, const StreamOrder& streams)
    : trace_(trace), launches_(launches), first_of_call_(trace.calls.size() + 1, 0) {
  std::vector<std::uint32_t> all(trace.gpu_ops.size());
  std::iota(all.begin(), all.end(), 0U);
  const auto has_launch = [&](std::uint32_t i) { return launches.call_of[i].has_value(); };
  std::ranges::copy_if(all, std::back_inserter(ops_by_call_), has_launch);
  std::ranges::stable_sort(ops_by_call_, {}, [&](std::uint32_t i) { return *launches.call_of[i]; });
  for (const std::uint32_t i : ops_by_call_) ++first_of_call_[*launches.call_of[i] + 1];
  std::partial_sum(first_of_call_.begin(), first_of_call_.end(), first_of_call_.begin());
  by_start_ = sorted_by(all, [&](std::uint32_t i) { return trace.gpu_ops[i].start_ns; });
  by_end_ = sorted_by(std::move(all), [&](std::uint32_t i) { return trace.gpu_ops[i].end_ns(); });
  for (const std::vector<std::uint32_t>& ops : streams.ops) {
    std::vector<std::uint32_t> launched;
    std::ranges::copy_if(ops, std::back_inserter(launched), has_launch);
    by_launch_.push_back(sorted_by(std::move(launched), [&](std::uint32_t i) { return *launch_time(i); }));
  }
}

std::span<const std::uint32_t> OpSearch::ops_of(std::uint32_t call) const {
  return std::span(ops_by_call_)
      .subspan(first_of_call_[call], first_of_call_[call + 1] - first_of_call_[call]);
}

std::optional<std::int64_t> OpSearch::launch_time(std::uint32_t gpu_op) const {
  const auto call = launches_.call_of[gpu_op];
  return call ? std::optional(trace_.calls[*call].start_ns) : std::nullopt;
}

std::optional<std::uint32_t> OpSearch::last_launched(std::size_t stream, std::int64_t before_ns) const {
  const std::size_t count = by_launch_[stream].before(before_ns);
  return count > 0 ? std::optional(by_launch_[stream].ops[count - 1]) : std::nullopt;
}

std::optional<std::uint32_t> OpSearch::next_launched(std::size_t stream, std::int64_t from_ns) const {
  const std::size_t place = by_launch_[stream].before(from_ns);
  return place < by_launch_[stream].ops.size() ? std::optional(by_launch_[stream].ops[place]) : std::nullopt;
}

}  // namespace prism
