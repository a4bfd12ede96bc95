// SPDX-License-Identifier: Apache-2.0
// Recorded job -> step model: dependencies, waits split from work, nodes and pools.
#pragma once

#include <memory>

#include "prism/model/step_model.hpp"

namespace prism {

/// The model of a recorded job with its launch delays treated as `delays` says. Keeps a reference to `job`.
/// Throws InputError if the recorded order implies a cycle. What happened to the input before may be passed
/// in `report`.
StepModel build_step_model(std::shared_ptr<const RecordedJob> job, LaunchDelays delays,
                           ImportReport report = {});

}  // namespace prism
