// SPDX-License-Identifier: Apache-2.0
#include "prism/analysis/replay.hpp"

#include <algorithm>
#include <cmath>

#include "prism/engine/reference.hpp"
#include "prism/engine/simulate.hpp"
#include "prism/stats/quantiles.hpp"
#include "prism/trace/error.hpp"

namespace prism {

namespace {

constexpr double kMostDiscrepancy = 0.05;  // beyond it Lin et al. leave a trace out

/// Start of each op in its replayed step against the recorded one.
std::optional<StartErrors> start_errors(const StepModel& model) {
  if (model.recorded_start_ns.empty()) return std::nullopt;
  const StepEffects none;
  const Draws draws(model, Sampling::Recorded, none);
  std::vector<double> errors;
  for (std::size_t k = 0; k < model.step_count(); ++k) {
    const NodeTimes times = reference_times(model, draws, 0, static_cast<std::uint32_t>(k));
    for (std::size_t i = 0; i < model.nodes.size(); ++i) {
      for (std::size_t d = 0; d < model.replicas; ++d) {
        const double recorded = model.recorded_start_ns[(i * model.step_count() + k) * model.replicas + d];
        if (std::isnan(recorded)) continue;
        errors.push_back(std::abs(times.start_ns[i * model.replicas + d] - model.lead_ns - recorded));
      }
    }
  }
  if (errors.empty()) return std::nullopt;
  std::ranges::sort(errors);
  return StartErrors{errors.size(), quantile_sorted(errors, 0.5), quantile_sorted(errors, 0.99)};
}

std::optional<double> unexplained_share(const StepModel& model) {
  if (model.recorded_start_ns.empty()) return std::nullopt;
  double unexplained = 0;
  for (std::size_t c = 0; c < model.pools.classes.size(); ++c) {
    if (model.pools.classes[ClassId(c)].category != Category::Unexplained) continue;
    for (const double value : model.pools.all(ClassId(c), model.replicas))
      unexplained += std::max(0.0, value);
  }
  double observed = 0;
  for (const double step : model.observed_ns) observed += step;
  return unexplained / observed / static_cast<double>(model.template_ranks * model.replicas);
}

}  // namespace

double ReplayResult::discrepancy() const {
  return std::abs(mean_replayed_ns - mean_observed_ns) / mean_observed_ns;
}

ReplayResult replay_steps(const StepModel& model, const RunControl& control) {
  if (model.step_count() == 0) {
    throw InputError({model.source, {}, {}}, "nothing to replay: the pools are not from profiled steps",
                     "prism forecast samples them");
  }
  const Simulation simulation(model, Sampling::Recorded, {});
  const std::vector<double> times =
      simulation.step_times_ns(0, 0, static_cast<std::uint32_t>(model.step_count()), control);
  ReplayResult result;
  const auto n = static_cast<double>(model.step_count());
  for (std::size_t k = 0; k < model.step_count(); ++k) {
    result.steps.push_back({model.steps[k], model.observed_ns[k], times[k]});
    result.mean_observed_ns += model.observed_ns[k] / n;
    result.mean_replayed_ns += times[k] / n;
  }
  if (result.discrepancy() > kMostDiscrepancy) {
    result.warnings.emplace_back(
        "the replay is off by more than 5 %: the graph misses something; do not trust forecasts of this "
        "input");
  }
  return result;
}

ReplayResult replay(const StepModel& model, const RunControl& control) {
  ReplayResult result = replay_steps(model, control);
  result.start_errors = start_errors(model);
  result.across_steps = replay_across_steps(model, control);
  result.unexplained_share = unexplained_share(model);
  return result;
}

StepModel with_replayed_times(StepModel model, const RunControl& control) {
  const ReplayResult replayed = replay_steps(model, control);
  for (std::size_t k = 0; k < model.step_count(); ++k) model.observed_ns[k] = replayed.steps[k].replayed_ns;
  return model;
}

}  // namespace prism
