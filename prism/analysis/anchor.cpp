// SPDX-License-Identifier: Apache-2.0
#include "prism/analysis/anchor.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "prism/io/bytes.hpp"
#include "prism/io/csv.hpp"
#include "prism/stats/quantiles.hpp"
#include "prism/stats/random.hpp"
#include "prism/trace/error.hpp"

namespace prism {

namespace {

constexpr double kSlow = 1.5;  // times the median (sampling.md section 8)
constexpr double kFast = 0.5;
constexpr double kWarmUpDeviations = 5;   // robust standard deviations above the median
constexpr double kLeastWarmUp = 0.02;     // of the median
constexpr double kMostWarmUp = 0.1;       // of the steps
constexpr std::size_t kMinDistinct = 10;  // different times in a log whose spread is used
constexpr double kNormalMad = 1.4826;     // standard deviation over median absolute deviation

double median(std::vector<double> values) {
  return quantile(std::move(values), 0.5);
}

std::optional<double> seconds_of(const std::string& text) {
  std::string_view number = text;
  double scale = 1;
  if (number.ends_with("ms")) {
    number.remove_suffix(2);
    scale = 1e-3;
  } else if (number.ends_with('s')) {
    number.remove_suffix(1);
  }
  const auto value = parse_double(number);
  if (!value) return std::nullopt;
  return *value * scale;
}

/// How many steps at the start are above the usual range.
std::size_t warm_up_steps(const std::vector<double>& times, double middle) {
  std::vector<double> distances;
  for (const double time : times) distances.push_back(std::abs(time - middle));
  const double usual =
      middle + std::max(kWarmUpDeviations * kNormalMad * median(std::move(distances)), kLeastWarmUp * middle);
  const auto most = static_cast<std::size_t>(std::ceil(kMostWarmUp * static_cast<double>(times.size())));
  std::size_t count = 0;
  while (count < most && times[count] > usual) ++count;
  return count;
}

/// Relative deviations from the median.
std::vector<double> deviations_of(const std::vector<double>& times) {
  const double middle = median(times);
  std::vector<double> deviations;
  for (const double time : times) deviations.push_back(time / middle - 1);
  return deviations;
}

/// How many different times there are: few if the log rounds them, or has one value for all.
std::size_t distinct(std::vector<double> times) {
  std::ranges::sort(times);
  return static_cast<std::size_t>(std::unique(times.begin(), times.end()) - times.begin());
}

void widen(std::vector<double>& samples, const Anchor& anchor, double cv_ratio, const Moments& deviations,
           std::uint32_t seed) {
  // (1 + cv^2 of samples)(1 + t^2) = 1 + cv^2 of the log, t the variation of 1 + c r.
  const double t = std::sqrt(cv_ratio - 1);
  const double c = t / (deviations.sd - t * deviations.mean);
  const auto n = static_cast<std::uint32_t>(anchor.deviations.size());
  const double before = median(samples);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::uint32_t word = random_word(seed, Purpose::Anchor, 0, 0, static_cast<std::uint32_t>(i));
    samples[i] *= 1 + c * anchor.deviations[index_from_word(word, n)];
  }
  // The median of a product of skewed factors is a little off the product of their medians.
  const double level = before / median(samples);
  for (double& sample : samples) sample *= level;
}

void narrow(std::vector<double>& samples, const Moments& m, double cv) {
  const double middle = median(samples);
  const double shrink = cv * middle / (m.sd - cv * (m.mean - middle));
  for (double& sample : samples) sample = middle + shrink * (sample - middle);
}

void add_doubts(const AnchorSteps& steps, Anchor& anchor) {
  constexpr double kSlower = 1.02;
  constexpr double kMuchFaster = 0.5;
  char factor[32];
  std::snprintf(factor, sizeof factor, "%.3g", anchor.factor);
  if (anchor.factor > kSlower) {
    anchor.warnings.push_back("unprofiled steps are slower than the profiled ones (factor " +
                              std::string(factor) + "): is the anchor of the same job?");
  } else if (anchor.factor < kMuchFaster) {
    anchor.warnings.push_back("unprofiled steps take less than half of the profiled ones (factor " +
                              std::string(factor) + "): is the anchor of the same job, and its unit right?");
  }
  if (!steps.is_log || anchor.uses_log_variation) return;
  std::string why = "the log's times are too coarse";
  if (steps.averaged > 1) {
    why = "the log's times are means over " + std::to_string(steps.averaged) + " steps";
  } else if (anchor.steps < kMinVariationSteps) {
    why = "there are only " + std::to_string(anchor.steps) + " steps in the log, " +
          std::to_string(kMinVariationSteps) + " would do";
  }
  anchor.warnings.push_back("the forecast's spread is that of profiled steps: " + why);
}

}  // namespace

AnchorSteps steady_steps(const StepLog& log, ImportReport& report) {
  std::vector<double> times;
  for (const LoggedStep& step : log.steps) times.push_back(step.time_ns);
  std::vector<double> sorted = times;
  std::ranges::sort(sorted);
  const double middle = sorted[sorted.size() / 2];  // a step's, so that one is always left
  const std::size_t warm_up = warm_up_steps(times, middle);
  AnchorSteps steps{.source = log.source, .is_log = true, .averaged = log.averaged};
  for (std::size_t i = 0; i < times.size(); ++i) {
    const char* reason = nullptr;
    if (i < warm_up) {
      reason = "logged step left out: warm-up";
    } else if (times[i] > kSlow * middle) {
      reason = "logged step left out: over 1.5 times the median (checkpoint, evaluation, hiccup)";
    } else if (times[i] < kFast * middle) {
      reason = "logged step left out: under half the median";
    }
    if (reason == nullptr) {
      steps.times_ns.push_back(times[i]);
    } else {
      report.add(Severity::Info, reason, Place{log.source, log.steps[i].line, {}}.text());
    }
  }
  return steps;
}

AnchorSteps read_anchor(const std::string& text, ImportReport& report) {
  if (const auto seconds = seconds_of(text)) {
    if (!(*seconds > 0 && *seconds <= 1e6)) {
      throw InputError({"--anchor " + text, {}, {}}, "a step takes more than 0 and at most 1e6 seconds",
                       "give seconds such as 1.25, or a log of step times");
    }
    return {.source = text, .times_ns = {*seconds * 1e9}};
  }
  return steady_steps(parse_step_log(read_bytes(text), text, report), report);
}

Anchor make_anchor(const AnchorSteps& steps, std::span<const double> observed_ns) {
  assert(!steps.times_ns.empty() && !observed_ns.empty());
  Anchor anchor{.source = steps.source, .steps = steps.is_log ? steps.times_ns.size() : 0};
  anchor.factor = median(steps.times_ns) / median({observed_ns.begin(), observed_ns.end()});
  if (steps.is_log && steps.averaged == 1 && steps.times_ns.size() >= kMinVariationSteps &&
      distinct(steps.times_ns) >= kMinDistinct) {
    anchor.uses_log_variation = true;
    anchor.deviations = deviations_of(steps.times_ns);
  }
  add_doubts(steps, anchor);
  return anchor;
}

std::vector<double> anchored(std::vector<double> samples_ns, const Anchor& anchor, std::uint32_t seed) {
  for (double& sample : samples_ns) sample *= anchor.factor;
  if (!anchor.uses_log_variation) return samples_ns;
  const Moments deviations = moments(anchor.deviations);
  const double cv = deviations.sd / (1 + deviations.mean);  // of the log
  const Moments m = moments(samples_ns);
  const double cv_ratio = (1 + cv * cv) / (1 + m.cv * m.cv);
  if (cv_ratio > 1) {
    widen(samples_ns, anchor, cv_ratio, deviations, seed);
  } else if (m.sd > 0) {
    narrow(samples_ns, m, cv);
  }
  return samples_ns;
}

}  // namespace prism
