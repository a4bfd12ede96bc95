// SPDX-License-Identifier: Apache-2.0
#include "prism/analysis/replay.hpp"

#include <cmath>

#include "prism/engine/simulate.hpp"
#include "prism/trace/error.hpp"

namespace prism {

namespace {

constexpr double kMostDiscrepancy = 0.05;  // beyond it Lin et al. leave a trace out

}  // namespace

double ReplayResult::discrepancy() const {
  return std::abs(mean_replayed_ns - mean_observed_ns) / mean_observed_ns;
}

ReplayResult replay(const StepModel& model, const RunControl& control) {
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

StepModel with_replayed_times(StepModel model, const RunControl& control) {
  const ReplayResult replayed = replay(model, control);
  for (std::size_t k = 0; k < model.step_count(); ++k) model.observed_ns[k] = replayed.steps[k].replayed_ns;
  return model;
}

}  // namespace prism
