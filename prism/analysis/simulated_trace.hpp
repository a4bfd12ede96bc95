// SPDX-License-Identifier: Apache-2.0
// Simulated steps as a profiler would have recorded them: the one place that turns nodes of a step model into
// GPU ops, host calls and communication records of ranks.
//
//   const auto steps = simulate_steps(model, {.samples = {0, 9}});
//   const SimulatedTraces traces(model, steps);
//   for (std::size_t i = 0; i < traces.rank_count(); ++i) use(traces.rank(i));
//
// Of an op-level model an op is a kernel on its rank: compute and local ops on stream 7, communication on streams
// from 20 on, one per pool key. A communication's kernel begins when its own rank has arrived and ends with the
// transfer, so waiting is inside, as in recorded traces. Delays are gaps between kernels; joins and ops without
// length leave none. The host launches everything ahead of time, with events and recorded synchronisations wherever
// an op waits for another stream, and awaits the device in the end. What a profiler cannot record is lost: edges
// between ranks that are no communication.
//
// Of a kernel-level model (kernel_traces.hpp) calls happen on their threads and ops on their streams as simulated.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "prism/analysis/kernel_traces.hpp"
#include "prism/analysis/simulated_groups.hpp"
#include "prism/analysis/simulated_steps.hpp"
#include "prism/trace/rank_trace.hpp"

namespace prism {

class SimulatedTraces {
 public:
  /// Keeps references to both.
  SimulatedTraces(const StepModel& model, std::span<const SimulatedStep> steps);

  [[nodiscard]] std::size_t rank_count() const {
    return kernels_ ? kernels_->rank_count() : global_rank_.size();
  }

  /// The trace of rank number `index` (ordered by replica, then template rank), steps one after the other.
  ///
  /// Times are Unix nanoseconds of a made-up date, by one clock. A kernel without a launch ends where the first
  /// step begins, so that the first step's time is known too: every step's time is its last GPU end over the ranks
  /// less the one before. Kernel-level steps that cannot follow each other on some rank (its host or a stream would
  /// do two things at once) have a pause between them; an op that was launched in it ends where the step begins.
  [[nodiscard]] RankTrace rank(std::size_t index) const;

 private:
  class RankWriter;

  /// Ops that move data together in one step.
  struct Communication {
    std::vector<std::pair<NodeId, std::uint32_t>> members;  ///< (node, replica)
    std::size_t group = 0;                                  ///< index into groups_
    std::int64_t ordinal = 0;                               ///< among those of its group in a step
    bool pair = false;                                      ///< a send and its receive
  };

  [[nodiscard]] std::size_t rank_index(NodeId node, std::uint32_t replica) const {
    return std::size_t{replica} * model_.template_ranks + static_cast<std::size_t>(model_.nodes[node].rank);
  }
  [[nodiscard]] std::size_t at(NodeId node, std::uint32_t replica) const {
    return std::size_t{node.value} * model_.replicas + replica;
  }
  [[nodiscard]] int world_size() const;
  void find_communications();
  void find_sources();
  [[nodiscard]] std::size_t group_of(const Communication& communication);

  const StepModel& model_;
  std::span<const SimulatedStep> steps_;
  std::optional<KernelTraces> kernels_;      // of a kernel-level model; what follows is of op-level ones
  std::vector<int> global_rank_;             // by rank index
  std::vector<std::int64_t> step_start_ns_;  // per step, and the end of the last
  std::vector<Communication> communications_;
  std::vector<std::optional<std::size_t>> communication_of_;  // [node * replicas + replica]
  SimulatedGroups groups_;
  IdVector<NodeId, std::vector<NodeId>>
      sources_;  // ops behind a node's predecessors, through joins and delays
};

}  // namespace prism
