// SPDX-License-Identifier: Apache-2.0
// What a plan runs, before it is placed on ranks: the schedule, and the ops of each virtual stage.
#pragma once

#include <vector>

#include "prism/plan/pass_program.hpp"
#include "prism/plan/plan.hpp"
#include "prism/plan/schedule.hpp"
#include "prism/plan/stage_programs.hpp"

namespace prism {

struct PlanPrograms {
  PipelineSchedule schedule;
  std::vector<StageLayers> layers;     ///< per virtual stage; empty for free-form plans
  std::vector<StagePrograms> stages;   ///< per virtual stage
  std::vector<PassProgram> step_ends;  ///< per pipeline rank
  double boundary_bytes = 0;           ///< sent from stage to stage per microbatch and rank
};

/// Throws InputError (place: plan.source) if the schedule, the split of layers or the degrees are not admissible, and for a
/// free-form op of a stage that does not exist.
PlanPrograms plan_programs(const Plan& plan);

}  // namespace prism
