// SPDX-License-Identifier: Apache-2.0
#include "prism/analysis/forecast.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "prism/analysis/replay.hpp"
#include "prism/engine/simulate.hpp"
#include "prism/model/extend_replicas.hpp"
#include "prism/run/parallel.hpp"
#include "prism/stats/random.hpp"
#include "prism/trace/error.hpp"

namespace prism {

namespace {

constexpr std::uint32_t kBootstrapRepeats = 200;
constexpr std::uint32_t kBootstrapSamples = 256;
constexpr int kWindowGap = 100;  // steps further apart are another window of the run
constexpr double kDriftErrors = 3;

/// Half the width of the p95 interval as a share of p95; nothing if the interval is open.
std::optional<double> relative_half_width(const StepSummary& summary) {
  for (const QuantileEstimate& q : summary.quantiles) {
    if (q.p == 0.95 && q.low_ns && q.high_ns) return (*q.high_ns - *q.low_ns) / 2 / q.value_ns;
  }
  return std::nullopt;
}

std::vector<double> anchored_if(const std::optional<Anchor>& anchor, std::vector<double> samples,
                                std::uint32_t seed) {
  return anchor ? anchored(std::move(samples), *anchor, seed) : std::move(samples);
}

std::vector<double> draw_samples(const Simulation& simulation, const std::optional<Anchor>& anchor,
                                 const ForecastOptions& options, const RunControl& control) {
  std::vector<double> samples = simulation.step_times_ns(options.seed, 0, options.samples, control);
  // Doubling keeps the number of samples a function of the samples alone, so results stay reproducible.
  while (options.precision && samples.size() < options.max_samples) {
    const auto width = relative_half_width(summarise(anchored_if(anchor, samples, options.seed)));
    if (width && *width <= *options.precision) break;
    const auto have = static_cast<std::uint32_t>(samples.size());
    const std::uint32_t more = std::min(have, options.max_samples - have);
    const auto added = simulation.step_times_ns(options.seed, have, more, control);
    samples.insert(samples.end(), added.begin(), added.end());
  }
  return anchored_if(anchor, std::move(samples), options.seed);
}

/// The anchor of resampled inputs: the profiled steps of `model`, the log's steps drawn with replacement.
std::optional<Anchor> resampled_anchor(const StepModel& model, const ForecastOptions& options,
                                       std::size_t repeat) {
  if (!options.anchor) return std::nullopt;
  AnchorSteps steps = *options.anchor;
  const auto n = static_cast<std::uint32_t>(steps.times_ns.size());
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint32_t word = random_word(options.seed, Purpose::Bootstrap, repeat, 1, i);
    steps.times_ns[i] = options.anchor->times_ns[index_from_word(word, n)];
  }
  return make_anchor(steps, model.observed_ns);
}

/// What sampling reads; names and provenance of thousands of nodes would be copied hundreds of times.
StepModel without_labels(StepModel model) {
  for (Node& node : model.nodes) node.name = {};
  for (DurationClass& c : model.pools.classes) c.key = {};
  model.recorded_start_ns = {};
  model.inferences = {};
  model.report = {};
  return model;
}

std::vector<InputInterval> bootstrap_inputs(const StepModel& full, Sampling sampling,
                                            const ForecastOptions& options, const RunControl& control) {
  const StepModel model = without_labels(full);
  const auto steps = static_cast<std::uint32_t>(model.step_count());
  std::vector<std::vector<double>> values(kReportedQuantiles.size(), std::vector<double>(kBootstrapRepeats));
  const RunControl inner{.threads = 1, .cancelled = control.cancelled};
  RunControl outer = control;
  outer.progress = {};
  parallel_for(kBootstrapRepeats, outer, [&](std::size_t repeat, std::size_t) {
    std::vector<std::size_t> selected(steps);
    for (std::uint32_t i = 0; i < steps; ++i) {
      selected[i] = index_from_word(random_word(options.seed, Purpose::Bootstrap, repeat, 0, i), steps);
    }
    std::ranges::sort(selected);
    const StepModel resampled = with_steps(model, selected);
    const Simulation simulation(resampled, sampling, estimate_step_effects(resampled));
    auto samples =
        anchored_if(resampled_anchor(resampled, options, repeat),
                    simulation.step_times_ns(options.seed, 0, kBootstrapSamples, inner), options.seed);
    std::ranges::sort(samples);
    for (std::size_t q = 0; q < kReportedQuantiles.size(); ++q) {
      values[q][repeat] = quantile_sorted(samples, kReportedQuantiles[q]);
    }
  });
  std::vector<InputInterval> intervals;
  for (auto& at_quantile : values) {
    std::ranges::sort(at_quantile);
    intervals.push_back({quantile_sorted(at_quantile, (1 - kConfidence) / 2),
                         quantile_sorted(at_quantile, (1 + kConfidence) / 2)});
  }
  return intervals;
}

/// Ranks that the model simulates.
std::uint64_t simulated_ranks(const StepModel& model) {
  return std::uint64_t{model.replicas} * model.template_ranks;
}

/// Whether the observed step times are of a job as large as the model's.
bool is_as_observed(const StepModel& model) {
  const std::uint64_t job = std::max<std::uint64_t>(model.world_ranks, model.traced_ranks());
  return model.replicas == model.pool_replicas() || simulated_ranks(model) == job;
}

/// Values that the guarantee may rest on, what they are, and why there are none.
struct Basis {
  std::vector<double> values_ns;
  std::string what;        ///< "profiled steps"
  std::string of_values;   ///< "the observed times of 24 profiled steps"
  std::string impossible;  ///< nothing can be guaranteed, since ...
};

Basis basis_of(const StepModel& model, const ForecastOptions& options, std::span<const double> samples_ns) {
  if (model.step_count() == 0) {
    return {{samples_ns.begin(), samples_ns.end()},
            "samples",
            "takes the pools as exact; rests on the samples alone",
            ""};
  }
  if (!is_as_observed(model)) {
    return {
        {}, "", "", "needs observed steps of a job of " + std::to_string(simulated_ranks(model)) + " ranks"};
  }
  if (!options.anchor) {
    return {model.observed_ns, "profiled steps",
            "rests on the observed times of " + std::to_string(model.step_count()) + " profiled steps", ""};
  }
  if (!options.anchor->is_log || options.anchor->averaged > 1) {
    return {{}, "", "", "needs a log of the times of single unprofiled steps as anchor"};
  }
  const std::vector<double>& times = options.anchor->times_ns;
  return {times, "unprofiled steps",
          "rests on the times of " + std::to_string(times.size()) + " unprofiled steps", ""};
}

/// A distribution-free upper tolerance bound from observed step times, or why there is none.
Guarantee guarantee_of(const StepModel& model, const ForecastOptions& options,
                       std::span<const double> samples_ns) {
  Guarantee guarantee;
  Basis basis = basis_of(model, options, samples_ns);
  guarantee.reason = basis.impossible;
  if (!basis.impossible.empty()) return guarantee;
  std::ranges::sort(basis.values_ns);
  const auto rank = tolerance_upper_rank(basis.values_ns.size(), guarantee.p, guarantee.confidence);
  if (rank) {
    guarantee.bound_ns = basis.values_ns[*rank - 1];
    guarantee.reason = basis.of_values;
  } else {
    guarantee.reason = "needs " + std::to_string(tolerance_min_samples(guarantee.p, guarantee.confidence)) +
                       " " + basis.what + ", there are " + std::to_string(basis.values_ns.size());
  }
  return guarantee;
}

std::vector<ProfiledWindow> windows_of(const StepModel& model) {
  std::vector<ProfiledWindow> windows;
  std::vector<std::vector<double>> times;
  for (std::size_t k = 0; k < model.step_count(); ++k) {
    if (windows.empty() || model.steps[k] - windows.back().last_step > kWindowGap) {
      windows.push_back({.first_step = model.steps[k]});
      times.emplace_back();
    }
    windows.back().last_step = model.steps[k];
    ++windows.back().steps;
    times.back().push_back(model.observed_ns[k]);
  }
  for (std::size_t w = 0; w < windows.size(); ++w) windows[w].mean_ns = moments(times[w]).mean;
  for (std::size_t w = 0; w < windows.size() && windows.size() > 1; ++w) {
    std::vector<double> others;
    for (std::size_t v = 0; v < windows.size(); ++v) {
      if (v != w) others.insert(others.end(), times[v].begin(), times[v].end());
    }
    const Moments own = moments(times[w]);
    const Moments rest = moments(others);
    if (times[w].size() < 2 || others.size() < 2) continue;
    const double error = std::sqrt(own.sd * own.sd / static_cast<double>(times[w].size()) +
                                   rest.sd * rest.sd / static_cast<double>(others.size()));
    windows[w].differs = std::abs(own.mean - rest.mean) > kDriftErrors * error;
  }
  return windows;
}

/// What the number of profiled steps can carry (measured coverage: docs/model.md).
void warn_few_steps(const StepModel& model, std::vector<std::string>& warnings) {
  const std::size_t steps = model.step_count();
  if (steps >= 16) return;
  const std::string coverage = steps < 8 ? "75 %" : "83 %";
  warnings.push_back("only " + std::to_string(steps) +
                     " profiled steps: a 90 % interval of this forecast holds about " + coverage +
                     " of steps; profile 16 or more");
}

}  // namespace

ForecastResult forecast(const StepModel& model, const ForecastOptions& options, const RunControl& control) {
  const bool profiled = model.step_count() > 0;
  if (model.step_count() == 1) {
    throw InputError({model.source, {}, {}}, "one profiled step says nothing about the spread between steps",
                     "prism replay shows that step; profile 16 steps or more for a forecast");
  }
  if (options.anchor && !profiled) {
    throw InputError({model.source, {}, {}}, "nothing to anchor: the pools are not from profiled steps",
                     "leave --anchor out, or scale the pools");
  }
  ForecastResult result;
  if (options.anchor) result.anchor = make_anchor(*options.anchor, model.observed_ns);
  result.sampling = options.sampling.value_or(default_sampling(model));
  const StepEffects effects = estimate_step_effects(model);
  const Simulation simulation(model, result.sampling, effects);
  const auto begin = std::chrono::steady_clock::now();
  result.samples_ns = draw_samples(simulation, result.anchor, options, control);
  result.sampling_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  result.summary = summarise(result.samples_ns);
  result.nodes_per_sample = simulation.nodes_per_sample();
  if (profiled && options.input_intervals) {
    result.input_intervals = bootstrap_inputs(model, result.sampling, options, control);
  }
  result.spread = find_spread_sources(model, result.sampling, effects, options.seed, control);
  result.guarantee = guarantee_of(model, options, result.samples_ns);
  result.windows = windows_of(model);

  if (profiled && model.replicas == model.pool_replicas()) {
    result.warnings = replay_steps(model, control).warnings;
  }
  for (std::string& warning : extension_warnings(model)) result.warnings.push_back(std::move(warning));
  if (profiled) warn_few_steps(model, result.warnings);
  if (result.anchor) {
    for (const std::string& warning : result.anchor->warnings) result.warnings.push_back(warning);
  } else if (profiled) {
    result.warnings.push_back(
        "profiled steps run slower than unprofiled ones; this forecast is of the job as profiled");
  }
  for (const ProfiledWindow& window : result.windows) {
    if (!window.differs) continue;
    result.warnings.push_back("steps " + std::to_string(window.first_step) + " to " +
                              std::to_string(window.last_step) +
                              " differ from the other profiled steps by more than 3 standard errors");
  }
  const auto width = relative_half_width(result.summary);
  if (options.precision && (!width || *width > *options.precision)) {
    result.warnings.push_back("the precision asked for was not reached with " +
                              std::to_string(result.samples_ns.size()) + " samples");
  }
  return result;
}

}  // namespace prism
