// SPDX-License-Identifier: Apache-2.0
#include "tests/made_trace/damage.hpp"

#include <algorithm>
#include <vector>

#include "prism/stats/random.hpp"

namespace prism {

namespace {

enum class Damage : std::uint64_t { Lost, Zeroed, Stretched };
constexpr std::int64_t kStretchedNs = 1'600'000'000;

/// Which GPU ops are hit, each with probability `share`.
std::vector<bool> hit(const RankTrace& trace, Damage damage, double share, std::uint32_t seed) {
  std::vector<bool> hits;
  for (std::size_t i = 0; i < trace.gpu_ops.size(); ++i) {
    const std::uint64_t id = mix_id(static_cast<std::uint64_t>(damage), i);
    const auto rank = static_cast<std::uint32_t>(trace.rank.value_or(0));
    hits.push_back(unit_from_word(random_word(seed, Purpose::Generator, id, rank, 0)) < share);
  }
  return hits;
}

std::size_t count(const std::vector<bool>& hits) {
  return static_cast<std::size_t>(std::ranges::count(hits, true));
}

void sort_by_start(RankTrace& trace) {
  std::ranges::stable_sort(trace.gpu_ops, {}, &GpuOp::start_ns);
}

}  // namespace

std::size_t lose_first_gpu_ops(RankTrace& trace, std::size_t n) {
  const std::size_t lost = std::min(n, trace.gpu_ops.size());
  trace.gpu_ops.erase(trace.gpu_ops.begin(), trace.gpu_ops.begin() + static_cast<std::ptrdiff_t>(lost));
  return lost;
}

std::size_t lose_gpu_ops_at_random(RankTrace& trace, double share, std::uint32_t seed) {
  const std::vector<bool> hits = hit(trace, Damage::Lost, share, seed);
  std::vector<GpuOp> kept;
  for (std::size_t i = 0; i < hits.size(); ++i) {
    if (!hits[i]) kept.push_back(trace.gpu_ops[i]);
  }
  trace.gpu_ops = std::move(kept);
  return count(hits);
}

std::size_t zero_gpu_times(RankTrace& trace, double share, std::uint32_t seed) {
  const std::vector<bool> hits = hit(trace, Damage::Zeroed, share, seed);
  for (std::size_t i = 0; i < hits.size(); ++i) {
    if (!hits[i]) continue;
    trace.gpu_ops[i].start_ns = trace.base_time_ns.value_or(0);
    trace.gpu_ops[i].duration_ns = 0;
  }
  sort_by_start(trace);
  return count(hits);
}

std::size_t stretch_gpu_durations(RankTrace& trace, double share, std::uint32_t seed) {
  const std::vector<bool> hits = hit(trace, Damage::Stretched, share, seed);
  for (std::size_t i = 0; i < hits.size(); ++i) {
    if (hits[i]) trace.gpu_ops[i].duration_ns = kStretchedNs;
  }
  return count(hits);
}

void shift_gpu_clock(RankTrace& trace, std::int64_t by_ns) {
  for (GpuOp& op : trace.gpu_ops) op.start_ns += by_ns;
}

}  // namespace prism
