// SPDX-License-Identifier: Apache-2.0
// What the command line names as INPUT, as a step model.
#pragma once

#include "cli/commands.hpp"
#include "prism/model/step_model.hpp"

namespace prism::cli {

/// The model of the options' inputs with their profiled steps. Throws InputError as open_model does.
StepModel open_input(const CommonOptions& options, LaunchDelays delays = LaunchDelays::Clean);

}  // namespace prism::cli
