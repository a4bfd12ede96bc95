// SPDX-License-Identifier: Apache-2.0
// Replay: the deterministic re-run of each profiled step from its own durations, against what was observed.
// The first check of a graph: what replay misses, no forecast can contain.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "prism/analysis/cross_step.hpp"
#include "prism/model/step_model.hpp"
#include "prism/run/control.hpp"

namespace prism {

struct ReplayedStep {
  int step = 0;
  double observed_ns = 0;
  double replayed_ns = 0;
  [[nodiscard]] double error() const { return replayed_ns / observed_ns - 1; }
};

/// |replayed - recorded start| over all ops and steps.
struct StartErrors {
  std::size_t ops = 0;
  double p50_ns = 0;
  double p99_ns = 0;
};

struct ReplayResult {
  std::vector<ReplayedStep> steps;
  double mean_observed_ns = 0;
  double mean_replayed_ns = 0;
  std::optional<StartErrors> start_errors;  ///< absent if the model holds no recorded starts
  std::vector<CrossStep> across_steps;
  std::optional<double> unexplained_share;  ///< of the step: mean over ranks of lags that nothing explains
  std::vector<std::string> warnings;
  /// |difference of the means| / observed.
  [[nodiscard]] double discrepancy() const;
};

/// Replays all profiled steps in 64-bit arithmetic: their times and warnings alone. Throws InputError if the model has
/// none.
ReplayResult replay_steps(const StepModel& model, const RunControl& control);

/// The same, with what else a kernel-level model shows: start errors, steps across steps, unexplained lags.
ReplayResult replay(const StepModel& model, const RunControl& control);

/// The model with its replayed step times in place of the observed ones, so that validation scores the
/// sampling alone.
StepModel with_replayed_times(StepModel model, const RunControl& control);

}  // namespace prism
