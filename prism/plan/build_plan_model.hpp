// SPDX-License-Identifier: Apache-2.0
// Plan -> StepModel: the step graph of one replica, a duration for each op, and laws.
#pragma once

#include "prism/model/step_model.hpp"
#include "prism/plan/plan.hpp"

namespace prism {

/// Throws InputError (place: plan.source) for plans that cannot run: inadmissible schedule or degrees, too few GPUs, a
/// schedule that deadlocks, more memory than a GPU has (with the numbers, per pipeline rank).
StepModel build_plan_model(const Plan& plan);

}  // namespace prism
