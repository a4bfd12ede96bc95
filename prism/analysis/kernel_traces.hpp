// SPDX-License-Identifier: Apache-2.0
// Simulated steps of a kernel-level model as profiler traces: host calls on their threads, GPU ops on their
// streams, communication with metadata. Part of simulated_trace.hpp, which says what they promise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "prism/analysis/kernel_communication.hpp"
#include "prism/analysis/kernel_roles.hpp"
#include "prism/analysis/kernel_step_plan.hpp"
#include "prism/analysis/simulated_steps.hpp"
#include "prism/trace/rank_trace.hpp"

namespace prism {

class KernelTraces {
 public:
  /// Keeps references to both; the first step begins at `first_step_ns`. Precondition: has_lanes(model).
  KernelTraces(const StepModel& model, std::span<const SimulatedStep> steps, std::int64_t first_step_ns);

  [[nodiscard]] std::size_t rank_count() const { return communications_.rank_count(); }
  /// The trace with GPU ops, calls and what belongs to them; who and when it is of is for the caller to add.
  [[nodiscard]] RankTrace rank(std::size_t index) const;
  [[nodiscard]] std::int32_t world_size() const { return communications_.world_size(); }

 private:
  class RankWriter;

  [[nodiscard]] StepPlan plan(std::size_t rank, std::size_t step) const;
  void place_steps(std::int64_t first_step_ns);

  const StepModel& model_;
  std::span<const SimulatedStep> steps_;
  KernelRoles roles_;
  KernelCommunications communications_;
  std::vector<std::int64_t> begin_ns_;  // [step]
  std::vector<bool> continues_;         // [step] goes on where the step before it ended
};

}  // namespace prism
