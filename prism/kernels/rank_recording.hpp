// SPDX-License-Identifier: Apache-2.0
// A profiled job, rank by rank: each trace with all that is derived from it alone (launches, communication,
// streams, steps, dependencies), and how the ranks' communication and clocks fit together.
#pragma once

#include <vector>

#include "prism/kernels/communication.hpp"
#include "prism/kernels/launches.hpp"
#include "prism/kernels/match_collectives.hpp"
#include "prism/kernels/rank_dependencies.hpp"
#include "prism/kernels/split_collectives.hpp"
#include "prism/kernels/stream_order.hpp"
#include "prism/kernels/trace_steps.hpp"
#include "prism/kernels/usual_lags.hpp"
#include "prism/run/control.hpp"
#include "prism/trace/import_report.hpp"
#include "prism/trace/rank_trace.hpp"

namespace prism {

struct RankRecording {
  const RankTrace* trace = nullptr;                  ///< in KernelRecording::traces
  const RankCommunication* communication = nullptr;  ///< in KernelRecording::communication
  Launches launches;
  StreamOrder streams;
  UsualLags lags;
  std::vector<TraceStep> steps;
  RankDependencies dependencies;
};

/// Not copyable: `ranks` point into it.
struct KernelRecording {
  std::vector<RankTrace> traces;
  std::vector<RankCommunication> communication;  ///< [trace]
  std::vector<RankRecording> ranks;              ///< [trace]
  CollectiveMatching matching;
  CollectiveSplit split;

  KernelRecording() = default;
  KernelRecording(KernelRecording&&) = default;
  KernelRecording& operator=(KernelRecording&&) = default;
  KernelRecording(const KernelRecording&) = delete;
  KernelRecording& operator=(const KernelRecording&) = delete;
};

/// Derives everything; traces in parallel. `patterns` tell communication ops that nothing else tells. Throws what
/// match_collectives throws.
KernelRecording record_ranks(
    std::vector<RankTrace> traces, const RunControl& control, ImportReport& report,
    const std::vector<CommunicationPattern>& patterns = default_communication_patterns());

}  // namespace prism
