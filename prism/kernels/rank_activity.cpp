// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/rank_activity.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace prism {

namespace {

using Interval = std::pair<std::int64_t, std::int64_t>;

/// Length of the union of intervals. Sorts them.
std::int64_t covered(std::vector<Interval>& intervals) {
  std::ranges::sort(intervals);
  std::int64_t total = 0;
  std::int64_t until = INT64_MIN;
  for (const auto& [begin, end] : intervals) {
    if (end <= until) continue;
    total += end - std::max(begin, until);
    until = end;
  }
  return total;
}

/// The GPU ops of one rank on the common clock, to find those that run in a time without looking at all.
class RunningOps {
 public:
  RunningOps(const RankTrace& trace, const TraceClock& clock) {
    std::int64_t latest = INT64_MIN;
    for (const GpuOp& op : trace.gpu_ops) {
      start_ns_.push_back(clock.aligned(op.start_ns));
      end_ns_.push_back(clock.aligned(op.end_ns()));
      latest = std::max(latest, end_ns_.back());
      latest_end_ns_.push_back(latest);
    }
  }
  [[nodiscard]] Interval interval(std::size_t op) const { return {start_ns_[op], end_ns_[op]}; }
  /// Ops from the first that may run after `begin` up to the last that starts before `end`.
  [[nodiscard]] std::pair<std::size_t, std::size_t> between(std::int64_t begin, std::int64_t end) const {
    const auto first = std::ranges::upper_bound(latest_end_ns_, begin) - latest_end_ns_.begin();
    const auto last = std::ranges::lower_bound(start_ns_, end) - start_ns_.begin();
    return {static_cast<std::size_t>(first), static_cast<std::size_t>(std::max(first, last))};
  }

 private:
  std::vector<std::int64_t> start_ns_;
  std::vector<std::int64_t> end_ns_;
  std::vector<std::int64_t> latest_end_ns_;  // of the op and all before
};

/// Time of each kind in the steps of one rank.
struct Times {
  std::int64_t total_ns = 0;
  std::int64_t busy_ns = 0;
  std::int64_t transferring_ns = 0;
  std::int64_t waiting_ns = 0;
  [[nodiscard]] double share(std::int64_t ns) const {
    return static_cast<double>(ns) / static_cast<double>(total_ns);
  }
};

Times times_of(const KernelRecording& job, const JobSteps& steps, std::size_t rank) {
  const TraceClock& clock = job.matching.clocks[rank];
  const RunningOps running(job.traces[rank], clock);
  Times times;
  for (std::size_t k = 0; k < steps.size(); ++k) {
    std::vector<Interval> compute;
    std::vector<Interval> transfer;
    std::vector<Interval> any;
    const auto [first, last] = running.between(steps.begin_ns[k], steps.end_ns[k]);
    for (std::size_t i = first; i < last; ++i) {
      const auto [op_start, op_end] = running.interval(i);
      const std::int64_t start = std::max(op_start, steps.begin_ns[k]);
      const std::int64_t end = std::min(op_end, steps.end_ns[k]);
      if (end <= start) continue;
      any.emplace_back(start, end);
      const auto comm = job.communication[rank].of_gpu_op[i];
      if (!comm) {
        compute.emplace_back(start, end);
      } else if (const std::int64_t ready = op_start + job.split.ops[rank][*comm].wait_ns; ready < end) {
        transfer.emplace_back(std::max(ready, start), end);
      }
    }
    const std::int64_t busy = covered(compute);
    transfer.insert(transfer.end(), compute.begin(), compute.end());
    const std::int64_t with_transfer = covered(transfer);
    times.total_ns += steps.end_ns[k] - steps.begin_ns[k];
    times.busy_ns += busy;
    times.transferring_ns += with_transfer - busy;
    times.waiting_ns += covered(any) - with_transfer;
  }
  return times;
}

}  // namespace

std::vector<RankActivity> find_rank_activity(const KernelRecording& job, const JobSteps& steps) {
  std::vector<RankActivity> result;
  for (std::size_t r = 0; r < job.ranks.size(); ++r) {
    const Times times = times_of(job, steps, r);
    const std::int64_t idle = times.total_ns - times.busy_ns - times.transferring_ns - times.waiting_ns;
    result.push_back({.rank = job.traces[r].rank.value_or(static_cast<int>(r)),
                      .busy = times.share(times.busy_ns),
                      .communicating = times.share(times.transferring_ns),
                      .waiting_host = times.share(idle),
                      .waiting_ranks = times.share(times.waiting_ns)});
  }
  return result;
}

}  // namespace prism
