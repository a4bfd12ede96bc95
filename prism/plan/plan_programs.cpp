// SPDX-License-Identifier: Apache-2.0
#include "prism/plan/plan_programs.hpp"

#include <string>
#include <utility>

#include "prism/trace/error.hpp"

namespace prism {

namespace {

PipelineSchedule schedule_of(const Plan& plan) {
  if (plan.schedule.kind != ScheduleKind::Table) {
    return make_schedule(plan.schedule, plan.parallel.pp, plan.microbatches, plan.source);
  }
  PipelineSchedule schedule = parse_schedule_table(plan.schedule_table, plan.schedule.table);
  if (schedule.ranks != plan.parallel.pp || schedule.microbatches != plan.microbatches) {
    throw InputError({plan.schedule.table, {}, {}},
                     "the table is for " + std::to_string(schedule.ranks) + " pipeline ranks and " +
                         std::to_string(schedule.microbatches) + " microbatches, the plan for " +
                         std::to_string(plan.parallel.pp) + " and " + std::to_string(plan.microbatches),
                     "make them equal");
  }
  return schedule;
}

/// The virtual stages that a pipeline rank holds, each once.
std::vector<std::int32_t> stages_on(const PipelineSchedule& schedule, std::int32_t rank) {
  std::vector<std::int32_t> found;
  for (std::int32_t stage = 0; stage < schedule.stages; ++stage) {
    for (std::int32_t copy = 0; copy < schedule.copies; ++copy) {
      if (schedule.rank(copy, stage) != rank) continue;
      found.push_back(stage);
      break;
    }
  }
  return found;
}

void add_transformer(const Plan& plan, PlanPrograms& programs) {
  const Transformer& model = *plan.model;
  check_split(model, plan.parallel, plan.microbatch, plan.source);
  programs.layers = split_layers(model, plan.schedule, programs.schedule.stages, plan.source);
  for (const StageLayers& layers : programs.layers) {
    programs.stages.push_back(
        transformer_passes(model, plan.parallel, plan.precisions, plan.microbatch, layers));
  }
  for (std::int32_t rank = 0; rank < programs.schedule.ranks; ++rank) {
    std::vector<StageLayers> held;
    for (const std::int32_t stage : stages_on(programs.schedule, rank)) {
      held.push_back(programs.layers[static_cast<std::size_t>(stage)]);
    }
    programs.step_ends.push_back(transformer_step_end(model, plan.parallel, plan.precisions, held));
  }
  programs.boundary_bytes = boundary_bytes(model, plan.parallel, plan.microbatch);
}

/// Appends an op; what is passed on is ready after the last op that runs in every pass.
void append(PassProgram& program, const PassOp& op) {
  program.ops.push_back(op);
  if (op.when == When::Always) program.output = static_cast<int>(program.ops.size()) - 1;
}

/// Input gradients, then weight gradients, which take what the former leave.
PassProgram joined(const PassProgram& input, const PassProgram& weight) {
  PassProgram whole = input;
  const auto before = static_cast<int>(input.ops.size());
  for (PassOp op : weight.ops) {
    for (int& after : op.after) after = after == kPassInput ? input.output : after + before;
    whole.ops.push_back(std::move(op));
  }
  return whole;
}

void add_free_ops(const Plan& plan, PlanPrograms& programs) {
  programs.stages.resize(static_cast<std::size_t>(programs.schedule.stages));
  programs.step_ends.resize(static_cast<std::size_t>(programs.schedule.ranks));
  for (const FreeOp& free : plan.free_ops) {
    const bool at_end = free.phase == FreeOp::Phase::StepEnd;
    const auto places =
        static_cast<std::int64_t>(at_end ? programs.step_ends.size() : programs.stages.size());
    if (free.stage < 0 || free.stage >= places) {
      throw InputError({plan.source, {}, {}},
                       "op '" + free.op.name + "' is of stage " + std::to_string(free.stage) + ", of " +
                           std::to_string(places),
                       "stages count from 0");
    }
    const auto place = static_cast<std::size_t>(free.stage);
    switch (free.phase) {
      case FreeOp::Phase::Forward:
        append(programs.stages[place].forward, free.op);
        break;
      case FreeOp::Phase::Backward:
        append(programs.stages[place].backward_input, free.op);
        break;
      case FreeOp::Phase::BackwardWeight:
        append(programs.stages[place].backward_weight, free.op);
        break;
      case FreeOp::Phase::StepEnd:
        append(programs.step_ends[place], free.op);
        break;
    }
  }
  for (StagePrograms& stage : programs.stages)
    stage.backward = joined(stage.backward_input, stage.backward_weight);
  programs.boundary_bytes = plan.boundary_bytes;
}

}  // namespace

PlanPrograms plan_programs(const Plan& plan) {
  PlanPrograms programs;
  programs.schedule = schedule_of(plan);
  if (plan.model) {
    add_transformer(plan, programs);
  } else {
    add_free_ops(plan, programs);
  }
  return programs;
}

}  // namespace prism
