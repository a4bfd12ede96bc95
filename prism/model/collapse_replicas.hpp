// SPDX-License-Identifier: Apache-2.0
// One replica in place of D that cannot differ.
#pragma once

#include <string>

#include "prism/model/step_model.hpp"

namespace prism {

/// What tells the replicas of a model of composed durations apart: an own draw per replica, a factor of a GPU, host, link or
/// microbatch, a base or rank factor by replica. Empty if nothing does.
std::string distinguishing_fact(const StepModel& model);

/// The same job with one replica, whose samples equal those of all, bit for bit. Throws InputError naming what
/// distinguishes the replicas if anything does.
StepModel collapse_replicas(const StepModel& model);

}  // namespace prism
