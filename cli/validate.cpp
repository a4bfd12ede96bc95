// SPDX-License-Identifier: Apache-2.0
#include "prism/analysis/validate.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "cli/commands.hpp"
#include "cli/input.hpp"
#include "cli/output.hpp"
#include "prism/analysis/replay.hpp"
#include "prism/report/csv.hpp"
#include "prism/report/json.hpp"
#include "prism/report/text.hpp"

namespace prism::cli {

namespace {

/// Over both fold kinds of the chosen model. `misfit` is 1 if KS is above its 95 % limit, or p95 is off by
/// more than 2 % and by more than chance explains.
std::map<std::string_view, double> metrics_of(const ValidateResult& result) {
  double ks_excess = -1;
  double p95_error = 0;
  double misfit = 0;
  for (const ModelScore& score : result.models) {
    if (score.name != sampling_name(result.chosen)) continue;
    ks_excess = std::max(ks_excess, score.ks / score.ks_noise - 1);
    p95_error = std::max(p95_error, std::abs(score.p95_error));
    const bool beyond_chance = score.p95_low > 0 || score.p95_high < 0;
    if (score.ks > score.ks_noise || (std::abs(score.p95_error) > 0.02 && beyond_chance)) misfit = 1;
  }
  return {{"ks_excess", ks_excess}, {"p95_error", p95_error}, {"misfit", misfit}};
}

}  // namespace

int run_validate(const ValidateCommandOptions& options) {
  const CommonOptions& common = options.common;
  const FailConditions fail_if(common.fail_if,
                               std::array<std::string_view, 3>{"ks_excess", "p95_error", "misfit"});
  const LaunchDelays delays = options.replayed_target ? LaunchDelays::None : LaunchDelays::Clean;
  StepModel model = open_input(common, delays);
  if (options.replayed_target) model = with_replayed_times(std::move(model), common.control);
  const ValidateResult result =
      validate(model, {.samples = options.sampling.samples, .seed = options.sampling.seed}, common.control);
  warn_losses(common, model.report);
  emit(common, common.format == Format::Json  ? validate_json(model, result, {.seed = options.sampling.seed})
               : common.format == Format::Csv ? validate_csv(result)
                                              : validate_text(model, result));
  return fail_if.check(metrics_of(result));
}

}  // namespace prism::cli
