// SPDX-License-Identifier: Apache-2.0
// What goes wrong with traces in practice, done to one on purpose. Each returns how many events it changed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "prism/trace/rank_trace.hpp"

namespace prism {

/// Takes out the first `n` GPU ops, as a profiler that started late on the device.
std::size_t lose_first_gpu_ops(RankTrace& trace, std::size_t n);

/// Takes out each GPU op with probability `share`.
std::size_t lose_gpu_ops_at_random(RankTrace& trace, double share, std::uint32_t seed);

/// Sets start and duration of each GPU op with probability `share` to what is written as 0.
std::size_t zero_gpu_times(RankTrace& trace, double share, std::uint32_t seed);

/// Makes each GPU op with probability `share` last 1.6 s, over what follows on its stream.
std::size_t stretch_gpu_durations(RankTrace& trace, double share, std::uint32_t seed);

/// Shifts all GPU times against those of the host.
void shift_gpu_clock(RankTrace& trace, std::int64_t by_ns);

}  // namespace prism
