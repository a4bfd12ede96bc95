// SPDX-License-Identifier: Apache-2.0
#include "prism/model/step_model.hpp"

#include <algorithm>
#include <array>

#include "prism/trace/error.hpp"

namespace prism {

std::string_view launch_delays_name(LaunchDelays delays) {
  constexpr std::array<std::string_view, 4> kNames = {"clean", "none", "raw", "off"};
  return kNames[static_cast<std::size_t>(delays)];
}

std::string_view phase_name(Phase phase) {
  constexpr std::array<std::string_view, 5> kNames = {"", "forward", "backward", "optimizer",
                                                      "communication"};
  return kNames[static_cast<std::size_t>(phase)];
}

StepModel with_steps(const StepModel& model, std::span<const std::size_t> selected) {
  StepModel result{.source = model.source,
                   .digest = model.digest,
                   .mesh = model.mesh,
                   .replicas = model.replicas,
                   .traced_replicas = model.traced_replicas,
                   .template_ranks = model.template_ranks,
                   .graph = model.graph,
                   .nodes = model.nodes,
                   .delays = model.delays,
                   .cells = model.cells,
                   .lead_ns = model.lead_ns,
                   .rank_factors = model.rank_factors,
                   .world_ranks = model.world_ranks,
                   .activity = model.activity,
                   .inferences = model.inferences,
                   .clock_offsets_ns = model.clock_offsets_ns,
                   .report = model.report,
                   .recording = model.recording};
  for (const std::size_t k : selected) {
    result.steps.push_back(model.steps[k]);
    result.observed_ns.push_back(model.observed_ns[k]);
    if (!model.step_kinds.empty()) result.step_kinds.push_back(model.step_kinds[k]);
  }
  result.pools = with_steps(model.pools, model.step_count(), selected);
  const std::size_t replicas = model.pool_replicas();
  if (!model.recorded_start_ns.empty()) {
    for (std::size_t i = 0; i < model.nodes.size(); ++i) {
      for (const std::size_t k : selected) {
        const double* from = model.recorded_start_ns.data() + (i * model.step_count() + k) * replicas;
        result.recorded_start_ns.insert(result.recorded_start_ns.end(), from, from + replicas);
      }
    }
  }
  return result;
}

bool is_composed(const StepModel& model) {
  return std::ranges::any_of(model.pools.classes,
                             [](const DurationClass& c) { return c.own != OwnDraw::None; });
}

void refuse_composed(const StepModel& model, const std::string& fix) {
  if (!is_composed(model)) return;
  throw InputError({model.source, {}, {}},
                   "this model is of a plan: its durations follow from laws, not from pools", fix);
}

}  // namespace prism
