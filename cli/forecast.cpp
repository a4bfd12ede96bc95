// SPDX-License-Identifier: Apache-2.0
#include "prism/analysis/forecast.hpp"

#include <array>

#include "cli/commands.hpp"
#include "cli/input.hpp"
#include "cli/output.hpp"
#include "prism/analysis/replay.hpp"
#include "prism/model/collapse_replicas.hpp"
#include "prism/report/csv.hpp"
#include "prism/report/json.hpp"
#include "prism/report/text.hpp"
#include "prism/trace/time.hpp"

namespace prism::cli {

namespace {

/// Names for --fail-if; times in seconds. The quantiles follow kReportedQuantiles.
constexpr std::array<std::string_view, 8> kMetrics = {"mean", "cv", "p5", "p25", "p50", "p75", "p95", "p99"};
constexpr std::size_t kFirstQuantile = 2;
static_assert(kMetrics.size() == kFirstQuantile + kReportedQuantiles.size());

}  // namespace

int run_forecast(const ForecastCommandOptions& options) {
  const CommonOptions& common = options.common;
  const FailConditions fail_if(common.fail_if, kMetrics);
  const StepModel traced = open_input(common);
  StepModel model = extended(traced, options.extension, true, options.sampling.seed);
  if (options.collapse) model = collapse_replicas(model);
  std::optional<AnchorSteps> anchor;
  if (!options.anchor.empty()) anchor = read_anchor(options.anchor, model.report);
  ForecastResult result = forecast(model,
                                   {.samples = options.sampling.samples,
                                    .seed = options.sampling.seed,
                                    .sampling = options.model,
                                    .precision = options.precision,
                                    .input_intervals = options.input_intervals,
                                    .anchor = anchor},
                                   common.control);
  if (model.replicas != traced.replicas && traced.step_count() > 0) {
    const std::vector<std::string> replayed = replay_steps(traced, common.control).warnings;
    result.warnings.insert(result.warnings.begin(), replayed.begin(), replayed.end());
  }
  const RunInfo info{.seed = options.sampling.seed, .timing = options.timing};
  warn_losses(common, model.report);
  emit(common, common.format == Format::Json  ? forecast_json(model, result, info)
               : common.format == Format::Csv ? forecast_csv(result)
                                              : forecast_text(model, result, info));
  std::map<std::string_view, double> metrics{{"mean", seconds_from_ns(result.summary.moments_ns.mean)},
                                             {"cv", result.summary.moments_ns.cv}};
  for (std::size_t i = 0; i < kReportedQuantiles.size(); ++i) {
    metrics[kMetrics[kFirstQuantile + i]] = seconds_from_ns(result.summary.quantiles[i].value_ns);
  }
  return fail_if.check(metrics);
}

}  // namespace prism::cli
