// SPDX-License-Identifier: Apache-2.0
#include "prism/analysis/inspect.hpp"

#include <array>

#include "cli/commands.hpp"
#include "cli/input.hpp"
#include "cli/output.hpp"
#include "prism/analysis/open_model.hpp"
#include "prism/plan/plan_summary.hpp"
#include "prism/report/csv.hpp"
#include "prism/report/json.hpp"
#include "prism/report/plan_report.hpp"
#include "prism/report/text.hpp"

namespace prism::cli {

namespace {

constexpr std::uint32_t kSpeedSeed = 1;  // of copied ranks: that of a forecast without --seed

}  // namespace

int run_inspect(const InspectOptions& options) {
  const CommonOptions& common = options.common;
  const FailConditions fail_if(common.fail_if, std::array<std::string_view, 2>{"dropped", "steps"});
  if (common.inputs.size() == 1) {
    if (const std::optional<Plan> plan = open_plan(common.inputs.front())) {
      emit(common, common.format == Format::Json  ? plan_json(*plan, summarise_plan(*plan))
                   : common.format == Format::Csv ? plan_csv(*plan)
                                                  : plan_text(*plan, summarise_plan(*plan)));
      return fail_if.check({{"dropped", 0}, {"steps", 0}});
    }
  }
  const StepModel model = extended(open_input(common), options.extension, false, kSpeedSeed);
  const InspectResult result = inspect(model, common.control);
  warn_losses(common, model.report);
  emit(common, common.format == Format::Json  ? inspect_json(model, result, {})
               : common.format == Format::Csv ? inspect_csv(result)
                                              : inspect_text(model, result));
  std::size_t lost = 0;
  for (const ImportEntry& entry : model.report.entries()) {
    if (entry.severity == Severity::DataLoss) lost += entry.count;
  }
  return fail_if.check(
      {{"dropped", static_cast<double>(lost)}, {"steps", static_cast<double>(model.step_count())}});
}

}  // namespace prism::cli
