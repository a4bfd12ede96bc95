// SPDX-License-Identifier: Apache-2.0
// A model of D replicas as a model of one: every rank of the job in the template.
#pragma once

#include "prism/model/step_model.hpp"

namespace prism {

/// The same job with replicas = 1 and template_ranks = all ranks (number replica * template_ranks + rank). Where replicas meet
/// there is a join of their nodes. Samples are equal, bit for bit, for the same seed. For models of composed durations; throws
/// InputError for others, and for jobs of more than 2^26 nodes.
StepModel with_every_rank(const StepModel& model);

}  // namespace prism
