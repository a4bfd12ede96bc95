// SPDX-License-Identifier: Apache-2.0
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "prism/analysis/open_model.hpp"
#include "prism/analysis/plan_sweep.hpp"
#include "prism/report/plan_report.hpp"
#include "prism/trace/error.hpp"

namespace prism::cli {

int run_plan_sweep(const PlanSweepOptions& options) {
  const CommonOptions& common = options.common;
  const std::optional<Plan> plan = open_plan(common.inputs.front());
  if (!plan)
    throw InputError({common.inputs.front(), {}, {}}, "this is no plan",
                     "a TOML file with a [model]; docs/plans.md");
  const SweepResult result = sweep_plan(*plan, options.sweep, common.control);
  emit(common, common.format == Format::Json  ? sweep_json(result, {.seed = options.sweep.seed})
               : common.format == Format::Csv ? sweep_csv(result)
                                              : sweep_text(result, options.shown));
  return kDone;
}

}  // namespace prism::cli
