// SPDX-License-Identifier: Apache-2.0
// What each node of a kernel-level graph took in each profiled step.
//
// The graph is walked in order with the recorded times: a node's value is its recorded finish less the latest
// recorded finish of what it waits for. So a replay with these values gives back every recorded time, whatever
// the graph misses; what it misses shows in the gaps.
#pragma once

#include <vector>

#include "prism/kernels/kernel_graph.hpp"

namespace prism {

struct KernelDurations {
  std::vector<double>
      value_ns;  ///< [node * K + step]; 0 where the step did not run it, kDidNotRunNs of transfers, negative if it would outlast the step
  std::vector<double>
      start_ns;  ///< same shape: of compute and transfers against the begin of the step; NaN elsewhere
  /// [node] Gaps: whether in some step a start is later than dependencies and usual lags explain.
  std::vector<bool> unexplained;
  std::vector<bool> host_bound;  ///< [node] launches: whether in some step the call itself took long
};

KernelDurations measure_durations(const KernelRecording& job, const JobSteps& steps,
                                  const KernelGraph& graph);

}  // namespace prism
