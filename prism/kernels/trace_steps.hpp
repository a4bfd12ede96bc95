// SPDX-License-Identifier: Apache-2.0
// The training steps of one rank's profiler trace: host windows and the GPU work launched in them.
//
// A step's window is its ProfilerStep annotation on the host; a GPU op belongs to the step in which its
// launch began, however much later it runs. On the GPU a step lasts from the last GPU end of the step before
// to its own last GPU end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "prism/kernels/launches.hpp"
#include "prism/kernels/stream_order.hpp"
#include "prism/trace/import_report.hpp"
#include "prism/trace/rank_trace.hpp"

namespace prism {

struct TraceStep {
  int number = 0;                  ///< as annotated; only its order means anything
  std::int64_t host_start_ns = 0;  ///< begin of the annotation, or of the first call where there is none
  /// Last GPU end before the step: of the step before or of work enqueued before the trace. None: the GPU had
  /// nothing to do, the step begins with the host.
  std::optional<std::int64_t> previous_end_ns;
  std::int64_t end_ns = 0;             ///< last GPU end of the step
  std::vector<std::uint32_t> gpu_ops;  ///< indices, in order of start
  std::vector<std::uint32_t> calls;    ///< launches and blocking calls of all threads, in order of start

  [[nodiscard]] std::int64_t begin_ns() const { return previous_end_ns.value_or(host_start_ns); }
};

/// The steps with GPU work, in order. Annotations that overlap a step before them, and a last step with fewer
/// than 80 % of the ops of the one before, are left out and reported. Without annotations the whole trace is
/// step 0.
std::vector<TraceStep> find_trace_steps(const RankTrace& trace, const Launches& launches,
                                        const StreamOrder& streams, ImportReport& report,
                                        const std::string& annotation = "ProfilerStep#");

}  // namespace prism
