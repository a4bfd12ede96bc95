// SPDX-License-Identifier: Apache-2.0
// Work and waiting told apart: recorded times become durations of work (pools) and launch delays.
//
// A communication op's work is its transfer part: its end minus the latest start of its group; what lies
// before is waiting, which the simulation makes again. A launch delay is the time from an op's last arrival
// (latest end among what it depends on) to its start. Delays can hide waits for peers that the graph does not
// know; the clean split finds and removes them.
#pragma once

#include <vector>

#include "prism/model/op_graph.hpp"
#include "prism/model/recorded_job.hpp"
#include "prism/model/step_model.hpp"

namespace prism {

/// One value per (step, replica): [step * D + replica], nanoseconds.
using CellValues = std::vector<double>;

struct SplitTimes {
  IdVector<OpId, CellValues> work_ns;  ///< duration of compute and local ops, transfer part of communication
  IdVector<OpId, CellValues> delay_before_ns;    ///< before an op runs or joins its group; empty: none
  IdVector<GroupId, CellValues> delay_after_ns;  ///< after the members of a group have met; empty: none
  IdVector<OpId, char> barrier;                  ///< 1: the local op waits for its copies in all replicas
  std::vector<Inference> inferences;
};

/// Splits as the mode says (see LaunchDelays). Transfer parts and raw delays of -10 ms or less are set to 0
/// and reported: clocks disagree. In the clean split every negative delay becomes 0.
SplitTimes split_times(const RecordedJob& job, const OpGraph& graph, LaunchDelays mode, ImportReport& report);

}  // namespace prism
