// SPDX-License-Identifier: Apache-2.0
// Steps of a model with the times of all nodes: profiled ones replayed, or samples.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "prism/engine/reference.hpp"
#include "prism/model/sampling.hpp"
#include "prism/model/step_model.hpp"
#include "prism/run/control.hpp"

namespace prism {

struct SimulatedStepsOptions {
  std::optional<std::pair<int, int>> recorded_steps;  ///< replay these profiled steps (inclusive), or else
  std::pair<std::uint32_t, std::uint32_t> samples{0, 0};  ///< draw these samples (inclusive)
  std::optional<Sampling> sampling;                       ///< of samples; else default_sampling()
  std::uint32_t seed = 1;
};

/// One step with all node times.
struct SimulatedStep {
  int number = 0;  ///< profiled step or sample number
  NodeTimes times;
};

/// Throws InputError if a profiled step is asked for that the model does not have.
std::vector<SimulatedStep> simulate_steps(const StepModel& model, const SimulatedStepsOptions& options,
                                          const RunControl& control);

}  // namespace prism
