// SPDX-License-Identifier: Apache-2.0
// Cross-step replay: durations and lags of one profiled step put into the graph of another.
//
// Replaying a step with its own lags gives back its time whatever the graph misses. Replaying it with those of
// another step does not: what depends on what must carry the difference.
#pragma once

#include <cstddef>
#include <vector>

#include "prism/model/step_model.hpp"
#include "prism/run/control.hpp"

namespace prism {

struct CrossStep {
  int from = 0;                ///< step that gave durations and lags
  int to = 0;                  ///< step whose structure and state at its begin were used
  double error = 0;            ///< all durations and lags of `from`: replayed / observed time of `to` - 1
  double gpu_error = 0;        ///< durations of GPU ops and lags of `from`, host work of `to`
  double lags_error = 0;       ///< only lags of `from`, all durations of `to`
  double observed_change = 0;  ///< observed time of `from` / of `to` - 1: what the job itself varied
  double kept_share =
      0;  ///< of the nodes of `to`, those that `from` did not run and that kept their own values
};

/// Pairs of different steps of one kind: all of them for at most 8 steps, else from the step of median time to all
/// others of its kind. Empty for models that are not of kernels: their graphs hold no lags to carry over.
std::vector<CrossStep> replay_across_steps(const StepModel& model, const RunControl& control);

}  // namespace prism
