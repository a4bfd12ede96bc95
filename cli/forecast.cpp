// SPDX-License-Identifier: Apache-2.0
#include "prism/analysis/forecast.hpp"

#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "prism/analysis/open_model.hpp"
#include "prism/report/csv.hpp"
#include "prism/report/json.hpp"
#include "prism/report/text.hpp"
#include "prism/trace/time.hpp"

namespace prism::cli {

int run_forecast(const ForecastCommandOptions& options) {
  const CommonOptions& common = options.common;
  const StepModel model = open_model(common.input, {.steps = common.steps});
  const ForecastResult result = forecast(model,
                                         {.samples = options.sampling.samples,
                                          .seed = options.sampling.seed,
                                          .sampling = options.model,
                                          .precision = options.precision},
                                         common.control);
  const RunInfo info{.seed = options.sampling.seed, .timing = options.timing};
  emit(common, common.format == Format::Json  ? forecast_json(model, result, info)
               : common.format == Format::Csv ? forecast_csv(result)
                                              : forecast_text(model, result, info));
  std::map<std::string, double> metrics{{"mean", seconds_from_ns(result.summary.moments_ns.mean)},
                                        {"cv", result.summary.moments_ns.cv}};
  for (const QuantileEstimate& q : result.summary.quantiles) {
    metrics["p" + std::to_string(static_cast<int>(100 * q.p + 0.5))] = seconds_from_ns(q.value_ns);
  }
  return check(common.fail_if, metrics);
}

}  // namespace prism::cli
