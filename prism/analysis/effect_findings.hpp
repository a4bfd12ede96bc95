// SPDX-License-Identifier: Apache-2.0
// What the estimated effects say about a job, in words (sampling.md section 5). Labels for people; the
// sampler needs none.
#pragma once

#include <string>
#include <vector>

#include "prism/model/sampling.hpp"

namespace prism {

/// One sentence per effect that its test calls present (99 % F quantile in at least half of the classes).
std::vector<std::string> describe_effects(const StepModel& model, const StepEffects& effects,
                                          double coupling);

}  // namespace prism
