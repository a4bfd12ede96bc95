// SPDX-License-Identifier: Apache-2.0
// What a profiler keeps of a rank's run: events from its window on, in its host's clock, with the metadata of
// its version.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tests/made_trace/machine.hpp"
#include "tests/made_trace/program.hpp"

namespace prism::made {

inline constexpr std::int64_t kBaseTimeNs = 1'760'000'000'000'000'000;
inline constexpr std::int64_t kJobStartNs = kBaseTimeNs + 5'000'000'000'000;

struct RecordedRank {
  RankTrace trace;
  std::vector<std::optional<std::size_t>> gpu_op_of;  ///< per op of the program: index into trace.gpu_ops
  std::int64_t clock_offset_ns = 0;                   ///< recorded minus true time at kJobStartNs
  double clock_drift_ppm = 0;
};

RecordedRank record_rank(const MadeTraceSpec& spec, const Program& program, const RanRank& ran, int rank);

}  // namespace prism::made
