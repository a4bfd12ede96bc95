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

}  // namespace

std::vector<RankActivity> find_rank_activity(const KernelRecording& job, const JobSteps& steps) {
  std::vector<RankActivity> result;
  for (std::size_t r = 0; r < job.ranks.size(); ++r) {
    double total = 0;
    double busy = 0;
    double transferring = 0;
    double waiting = 0;
    for (std::size_t k = 0; k < steps.size(); ++k) {
      std::vector<Interval> compute;
      std::vector<Interval> transfer;
      std::vector<Interval> any;
      for (std::uint32_t i = 0; i < job.traces[r].gpu_ops.size(); ++i) {
        const GpuOp& op = job.traces[r].gpu_ops[i];
        const TraceClock& clock = job.matching.clocks[r];
        const std::int64_t start = std::max(clock.aligned(op.start_ns), steps.begin_ns[k]);
        const std::int64_t end = std::min(clock.aligned(op.end_ns()), steps.end_ns[k]);
        if (end <= start) continue;
        any.emplace_back(start, end);
        const auto comm = job.communication[r].of_gpu_op[i];
        if (!comm) {
          compute.emplace_back(start, end);
        } else if (const std::int64_t ready = clock.aligned(op.start_ns) + job.split.ops[r][*comm].wait_ns;
                   ready < end) {
          transfer.emplace_back(std::max(ready, start), end);
        }
      }
      const std::int64_t busy_ns = covered(compute);
      transfer.insert(transfer.end(), compute.begin(), compute.end());
      const std::int64_t with_transfer = covered(transfer);
      total += static_cast<double>(steps.end_ns[k] - steps.begin_ns[k]);
      busy += static_cast<double>(busy_ns);
      transferring += static_cast<double>(with_transfer - busy_ns);
      waiting += static_cast<double>(covered(any) - with_transfer);
    }
    result.push_back({.rank = job.traces[r].rank.value_or(static_cast<int>(r)),
                      .busy = busy / total,
                      .communicating = transferring / total,
                      .waiting_host = 1 - (busy + transferring + waiting) / total,
                      .waiting_ranks = waiting / total});
  }
  return result;
}

}  // namespace prism
