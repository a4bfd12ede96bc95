// SPDX-License-Identifier: Apache-2.0
// Forecast: the step-time distribution of a model, with two kinds of interval.
//
// The order-statistic interval says how well N samples know the model's quantile; it shrinks with N. The
// input interval says how well the profiled steps know the model: profiled steps are resampled, the model is
// rebuilt from them, and the quantile taken again. More samples do not shrink that; more profiled steps do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "prism/analysis/anchor.hpp"
#include "prism/analysis/spread_sources.hpp"
#include "prism/engine/summary.hpp"
#include "prism/model/sampling.hpp"
#include "prism/model/step_model.hpp"
#include "prism/run/control.hpp"

namespace prism {

struct ForecastOptions {
  std::uint32_t samples = 1000;
  std::uint32_t seed = 1;
  std::optional<Sampling>
      sampling;  ///< default: hierarchical, or iid for pools that are not from profiled steps
  std::optional<double> precision;        ///< sample until the p95 interval is within +- this share of p95
  std::uint32_t max_samples = 1'000'000;  ///< where --precision gives up
  bool input_intervals = true;            ///< bootstrap over profiled steps
  std::optional<AnchorSteps> anchor;      ///< unprofiled steps that it is scaled to; needs profiled steps
};

/// Interval of one quantile over resampled inputs.
struct InputInterval {
  double low_ns = 0;
  double high_ns = 0;
};

/// "With `confidence`, a share p of steps takes no longer than bound": or why that cannot be said.
struct Guarantee {
  double p = 0.95;
  double confidence = 0.95;
  std::optional<double> bound_ns;
  std::string reason;  ///< why there is no bound; or what the bound rests on
};

/// Mean observed step time of a run of neighbouring profiled steps (at most 100 apart).
struct ProfiledWindow {
  int first_step = 0;
  int last_step = 0;
  std::size_t steps = 0;
  double mean_ns = 0;
  bool differs = false;  ///< from the other windows, by more than 3 standard errors
};

struct ForecastResult {
  Sampling sampling = Sampling::Hierarchical;
  std::vector<double> samples_ns;  ///< in order of sample number
  StepSummary summary;
  std::vector<InputInterval> input_intervals;  ///< at kReportedQuantiles; empty without profiled steps
  std::optional<Anchor> anchor;  ///< if there was one; samples, summary and intervals are anchored
  Guarantee guarantee;
  std::vector<ProfiledWindow> windows;  ///< empty without profiled steps
  SpreadSources spread;                 ///< which pools make the distribution wide
  std::vector<std::string> warnings;
  std::uint64_t nodes_per_sample = 0;
  double sampling_seconds = 0;  ///< wall time of the samples alone, for --timing
};

/// The forecast, with warnings of the replay of the profiled steps. A model that was extended is not its own
/// recording any more: replay the model it was made from. Throws InputError if the sampling model or the anchor
/// needs profiled steps that are not there, or there is only one.
ForecastResult forecast(const StepModel& model, const ForecastOptions& options, const RunControl& control);

}  // namespace prism
