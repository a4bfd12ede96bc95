// SPDX-License-Identifier: Apache-2.0
// The order and memory of a sweep: a step graph compiled into instructions, segments and liveness slots.
//
// A node that spans replicas can finish only after all of them have arrived, so such nodes cut the
// topological order: segment s holds what needs s earlier meetings. The sweep runs segment by segment and,
// inside a segment, one replica after the other. A finish time lives in a scratch slot that is reused once
// its last reader ran; one that is read in a later segment lives in a carried slot of its replica. So memory
// is what is alive at once, not samples x nodes.
#pragma once

#include <cstdint>
#include <vector>

#include "prism/engine/sweep_kernel.hpp"
#include "prism/model/step_graph.hpp"

namespace prism {

struct SweepProgram {
  std::vector<Instruction> instructions;     ///< in execution order; draws are not set yet
  std::vector<NodeId> node_of;               ///< of each instruction
  std::vector<std::uint32_t> inputs;         ///< slot numbers
  std::vector<std::uint32_t> segment_begin;  ///< segments + 1 offsets into instructions
  std::vector<Meeting> meetings;
  std::uint64_t meeting_blocks = 0;  ///< blocks of lanes for all meetings
  std::uint32_t scratch_slots = 0;
  std::uint32_t carried_slots = 0;  ///< per replica

  [[nodiscard]] std::size_t segments() const { return segment_begin.size() - 1; }
};

/// Compiles the graph for `replicas` replicas. Precondition: replica groups divide `replicas`.
/// Throws InputError if what is alive at once would not fit into memory.
SweepProgram compile_sweep(const StepGraph& graph, std::uint32_t replicas);

}  // namespace prism
