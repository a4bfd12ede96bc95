// SPDX-License-Identifier: Apache-2.0
// A model that can leave a site: same graph, pools and times, without names of jobs, files, ops or machines.
#pragma once

#include "prism/model/step_model.hpp"

namespace prism {

/// The model with source, digest, trial name and places of the report removed, global rank numbers renumbered
/// in order, and node, pool and inference texts replaced by "op N" and "pool N" unless they only consist of
/// op type names that prism knows and numbers. Stable ids stay; those of a user's graph are hashes of node
/// names, so a guessed name can be confirmed.
StepModel anonymous_copy(StepModel model);

}  // namespace prism
