// SPDX-License-Identifier: Apache-2.0
// Which host call launched each GPU op of a trace, and inside which operator.
//
// Launch and GPU op share a correlation. Operators are found by time on the launch's thread; the profiler's own
// link (External id) is wrong in many versions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "prism/trace/rank_trace.hpp"

namespace prism {

/// Host and GPU times of one trace agree no better.
inline constexpr std::int64_t kClockJitterNs = 1'000;

struct Launches {
  /// [GPU op] index into RankTrace::calls. None: no call with its correlation, as for the backlog that was enqueued
  /// before the profiler started. Several ops of one call are normal (CUDA graphs).
  std::vector<std::optional<std::uint32_t>> call_of;
  /// [GPU op] index into RankTrace::cpu_ops: the innermost operator on the launch's thread that contains the middle
  /// of the launch call. Ranges of one thread may cross by some microseconds; the middle is then still inside.
  std::vector<std::optional<std::uint32_t>> operator_of;
  std::size_t without_launch = 0;  ///< GPU ops
  /// GPU ops that start more than a microsecond before their launch begins: beyond clock jitter, so host and GPU
  /// clocks disagree.
  std::size_t started_before_launch = 0;
};

/// Of several calls with one correlation (wrapped counters, runtime and driver call of one launch) the last one that
/// begins before the op counts; if none does, the first. Linear but for sorting.
Launches find_launches(const RankTrace& trace);

/// [GPU op] the innermost of `operators` (indices into RankTrace::cpu_ops, ascending) that contains the middle of the
/// op's launch on its thread. As Launches::operator_of, but among chosen ones.
std::vector<std::optional<std::uint32_t>> operators_around_launches(const RankTrace& trace,
                                                                    const Launches& launches,
                                                                    std::span<const std::uint32_t> operators);

/// The same for annotations (indices into RankTrace::annotations, ascending).
std::vector<std::optional<std::uint32_t>> annotations_around_launches(
    const RankTrace& trace, const Launches& launches, std::span<const std::uint32_t> annotations);

}  // namespace prism
