// SPDX-License-Identifier: Apache-2.0
// GPU ops of one rank in the orders that its dependency rules search them in: by start, by end, by launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "prism/kernels/launches.hpp"
#include "prism/kernels/stream_order.hpp"
#include "prism/trace/rank_trace.hpp"

namespace prism {

/// GPU ops in some order of time.
struct OpsByTime {
  std::vector<std::uint32_t> ops;
  std::vector<std::int64_t> time_ns;  ///< [place in ops] ascending

  /// How many are before `time`.
  [[nodiscard]] std::size_t before(std::int64_t time) const;
  /// How many are not after `time`.
  [[nodiscard]] std::size_t up_to(std::int64_t time) const;
};

/// Made once per rank. The arguments must outlive it.
class OpSearch {
 public:
  OpSearch(const RankTrace& trace, const Launches& launches, const StreamOrder& streams);

  /// Ops that a call launched, in order of start; empty for a call that launched none.
  [[nodiscard]] std::span<const std::uint32_t> ops_of(std::uint32_t call) const;

  /// Begin of the call that launched an op; none for the backlog at the start.
  [[nodiscard]] std::optional<std::int64_t> launch_time(std::uint32_t gpu_op) const;

  [[nodiscard]] const OpsByTime& by_start() const { return by_start_; }
  [[nodiscard]] const OpsByTime& by_end() const { return by_end_; }

  /// The last op of a stream (index into StreamOrder) that was launched before a time.
  [[nodiscard]] std::optional<std::uint32_t> last_launched(std::size_t stream, std::int64_t before_ns) const;

  /// The first op of a stream that was launched at a time or later.
  [[nodiscard]] std::optional<std::uint32_t> next_launched(std::size_t stream, std::int64_t from_ns) const;

 private:
  const RankTrace& trace_;
  const Launches& launches_;
  std::vector<std::uint32_t> ops_by_call_;
  std::vector<std::uint32_t> first_of_call_;  // [call] into ops_by_call_; one more than there are calls
  OpsByTime by_start_;
  OpsByTime by_end_;
  std::vector<OpsByTime> by_launch_;  // [stream]
};

}  // namespace prism
