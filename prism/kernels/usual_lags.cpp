// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/usual_lags.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>

namespace prism {

namespace {

constexpr std::int64_t kLongestGapNs = 20'000;  // between queued kernels; beyond, something else delayed them
constexpr std::int64_t kQueuedNs = 20'000;  // launched this long before the stream was free: it was queued
constexpr std::size_t kFewest = 8;
constexpr double kShortestShare = 0.01;

/// The value at a share of the way through, 0 the smallest. Precondition: not empty.
double at_share(std::vector<std::int64_t>& values, double share) {
  const auto place = static_cast<std::size_t>(share * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(place));
  return static_cast<double>(values[place]);
}

/// Ends of GPU ops, ascending, by device.
std::map<std::int32_t, std::vector<std::int64_t>> ends_by_device(const RankTrace& trace) {
  std::map<std::int32_t, std::vector<std::int64_t>> ends;
  for (const GpuOp& op : trace.gpu_ops) ends[op.device].push_back(op.end_ns());
  for (auto& [device, of_device] : ends) std::ranges::sort(of_device);
  return ends;
}

/// Whether any op of a device ended in (from, to]: what started at `to` may have waited for it.
bool any_ended(const std::vector<std::int64_t>& ends, std::int64_t from_ns, std::int64_t to_ns) {
  const auto after = std::ranges::upper_bound(ends, to_ns);
  return after != ends.begin() && *(after - 1) > from_ns;
}

}  // namespace

UsualLags measure_usual_lags(const RankTrace& trace, const Launches& launches, const StreamOrder& streams) {
  const auto ends = ends_by_device(trace);
  std::vector<std::int64_t> gaps;
  std::vector<std::int64_t> all_launches;
  std::vector<std::vector<std::int64_t>> by_name(trace.names.size());

  for (std::size_t i = 0; i < trace.gpu_ops.size(); ++i) {
    const auto call = launches.call_of[i];

    if (!call) continue;
    const HostCall& launch = trace.calls[*call];
    const std::int64_t start = trace.gpu_ops[i].start_ns;
    const auto before = streams.previous[i];
    const bool was_free = !before || trace.gpu_ops[*before].end_ns() < launch.start_ns;
    if (was_free && !any_ended(ends.at(trace.gpu_ops[i].device), launch.start_ns, start)) {
      const std::int64_t lag = std::max<std::int64_t>(0, start - launch.start_ns);
      all_launches.push_back(lag);
      by_name[launch.name.value].push_back(lag);
    }
    if (before) {
      const std::int64_t free = trace.gpu_ops[*before].end_ns();
      if (launch.start_ns + kQueuedNs < free && std::abs(start - free) < kLongestGapNs)
        gaps.push_back(start - free);
    }
  }
  UsualLags lags;
  if (!gaps.empty()) lags.gap_ns = at_share(gaps, 0.5);
  if (all_launches.size() >= kFewest) lags.any_launch_ns = at_share(all_launches, kShortestShare);
  lags.launch_ns.assign(trace.names.size(), lags.any_launch_ns);
  for (std::size_t n = 0; n < by_name.size(); ++n) {
    if (by_name[n].size() >= kFewest) lags.launch_ns[n] = at_share(by_name[n], kShortestShare);
  }
  return lags;
}

}  // namespace prism
