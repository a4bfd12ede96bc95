// SPDX-License-Identifier: Apache-2.0
// Profiler traces of one or more ranks -> step model with every traced rank explicit.
#pragma once

#include "prism/kernels/rank_recording.hpp"
#include "prism/model/step_model.hpp"
#include "prism/trace/import_report.hpp"

namespace prism {

/// The model of the steps that all ranks share. `report` holds what happened to the input before. Throws InputError
/// if no step is left.
StepModel build_kernel_model(const KernelRecording& job, ImportReport report);

}  // namespace prism
