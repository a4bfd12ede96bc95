// SPDX-License-Identifier: Apache-2.0
#include "prism/analysis/simulated_steps.hpp"

#include <string>

#include "prism/engine/draws.hpp"
#include "prism/trace/error.hpp"

namespace prism {

std::vector<SimulatedStep> simulate_steps(const StepModel& model, const SimulatedStepsOptions& options,
                                          const RunControl& control) {
  std::vector<std::pair<int, std::uint32_t>> wanted;  // number, sample
  Sampling sampling = Sampling::Recorded;
  if (options.recorded_steps) {
    for (std::size_t k = 0; k < model.step_count(); ++k) {
      const int number = model.steps[k];
      if (number < options.recorded_steps->first || number > options.recorded_steps->second) continue;
      wanted.emplace_back(number, static_cast<std::uint32_t>(k));
    }
    if (wanted.empty()) {
      throw InputError(
          {model.source, {}, {}},
          "there is no profiled step " + std::to_string(options.recorded_steps->first) +
              (model.step_count() > 0 ? "; profiled are steps " + std::to_string(model.steps.front()) +
                                            " to " + std::to_string(model.steps.back())
                                      : "; the pools are not from profiled steps"),
          "prism inspect lists them; --sample N draws a step");
    }
  } else {
    sampling = options.sampling.value_or(default_sampling(model));
    for (std::uint32_t i = options.samples.first; i <= options.samples.second; ++i) {
      wanted.emplace_back(static_cast<int>(i), i);
    }
  }
  const StepEffects effects =
      sampling == Sampling::Hierarchical ? estimate_step_effects(model) : StepEffects{};
  const Draws draws(model, sampling, effects);
  std::vector<SimulatedStep> steps;
  for (const auto& [number, sample] : wanted) {
    control.check_cancelled();
    steps.push_back({number, reference_times(model, draws, options.seed, sample)});
  }
  return steps;
}

}  // namespace prism
