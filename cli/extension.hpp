// SPDX-License-Identifier: Apache-2.0
// --replicas and --spatial-cv: how far beyond the traced ranks a command goes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "prism/model/step_model.hpp"

namespace prism::cli {

struct ExtensionOptions {
  std::optional<std::uint32_t> replicas;  ///< nothing: the command's default
  std::optional<double> spatial_cv;
};

/// The model as asked for. Without --replicas, `whole_job` extends a job of which only some ranks were traced
/// to all of its ranks, and says so in the model's report.
StepModel extended(const StepModel& traced, const ExtensionOptions& options, bool whole_job,
                   std::uint32_t seed);

}  // namespace prism::cli
