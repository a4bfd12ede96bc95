// SPDX-License-Identifier: Apache-2.0
#include "prism/analysis/replay.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "cli/commands.hpp"
#include "cli/input.hpp"
#include "cli/output.hpp"
#include "prism/report/csv.hpp"
#include "prism/report/json.hpp"
#include "prism/report/text.hpp"

namespace prism::cli {

int run_replay(const ReplayOptions& options) {
  const CommonOptions& common = options.common;
  const FailConditions fail_if(common.fail_if, std::array<std::string_view, 2>{"discrepancy", "worst_error"});
  const StepModel model = open_input(common, options.delays);
  const ReplayResult result = replay(model, common.control);
  warn_losses(common, model.report);
  emit(common, common.format == Format::Json  ? replay_json(model, result, {})
               : common.format == Format::Csv ? replay_csv(result)
                                              : replay_text(model, result));
  double worst = 0;
  for (const ReplayedStep& step : result.steps) worst = std::max(worst, std::abs(step.error()));
  return fail_if.check({{"discrepancy", result.discrepancy()}, {"worst_error", worst}});
}

}  // namespace prism::cli
