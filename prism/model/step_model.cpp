// SPDX-License-Identifier: Apache-2.0
#include "prism/model/step_model.hpp"

#include <array>

namespace prism {

std::string_view launch_delays_name(LaunchDelays delays) {
  constexpr std::array<std::string_view, 4> kNames = {"clean", "none", "raw", "off"};
  return kNames[static_cast<std::size_t>(delays)];
}

StepModel with_steps(const StepModel& model, std::span<const std::size_t> selected) {
  StepModel result{.source = model.source,
                   .digest = model.digest,
                   .mesh = model.mesh,
                   .replicas = model.replicas,
                   .template_ranks = model.template_ranks,
                   .graph = model.graph,
                   .nodes = model.nodes,
                   .delays = model.delays,
                   .inferences = model.inferences,
                   .clock_offsets_ns = model.clock_offsets_ns,
                   .report = model.report,
                   .recording = model.recording};
  for (const std::size_t k : selected) {
    result.steps.push_back(model.steps[k]);
    result.observed_ns.push_back(model.observed_ns[k]);
  }
  result.pools = with_steps(model.pools, model.step_count(), selected);
  return result;
}

}  // namespace prism
