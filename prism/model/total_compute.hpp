// SPDX-License-Identifier: Apache-2.0
// How long each rank or cell computes in each profiled step: what the effects common to all its kernels are
// estimated from.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "prism/model/step_model.hpp"

namespace prism {

/// Sums of recorded compute in nanoseconds over groups of nodes, [(replica * groups + group) * K + step], of
/// the replicas whose durations the pools hold. `group_of` is below `groups`. Precondition: profiled steps.
std::vector<double> total_compute(const StepModel& model, std::size_t groups,
                                  const std::function<std::size_t(const Node&)>& group_of);

/// Takes the mean of each kind of steps out of values by step, and puts the mean of all back. `kinds` is as
/// StepModel::step_kinds: empty if all steps are alike.
void centre_by_kind(std::span<double> values, std::span<const int> kinds);

}  // namespace prism
