// SPDX-License-Identifier: Apache-2.0
// The sections of a plan file, each read by a function of its own. Internal to read_plan.
#pragma once

#include <filesystem>

#include "prism/plan/plan.hpp"
#include "prism/plan/plan_table.hpp"

namespace prism {

/// [model] and [batch]: the shape and how much of it a step trains. Degrees and dp must have been read.
void read_model(PlanTable root, const std::filesystem::path& folder, Plan& plan);
void read_batch(PlanTable root, Plan& plan);
/// [parallel], [schedule] and [precision].
void read_parallel(PlanTable root, Plan& plan);
void read_schedule(PlanTable root, const std::filesystem::path& folder, Plan& plan);
void read_precision(PlanTable root, Plan& plan);
/// [cluster] and [[gpu]]; degrees must have been read.
void read_cluster(PlanTable root, const std::filesystem::path& folder, Plan& plan);
/// [variability].
void read_variability(PlanTable root, const std::filesystem::path& folder, Plan& plan);
/// [[op]].
void read_free_ops(PlanTable root, Plan& plan);

/// A file that the plan names, seen from the plan's folder.
std::filesystem::path named_file(const std::filesystem::path& folder, const std::string& name);

}  // namespace prism
