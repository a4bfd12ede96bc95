// SPDX-License-Identifier: Apache-2.0
#include "prism/analysis/validate.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <numeric>

#include "prism/analysis/effect_findings.hpp"
#include "prism/engine/simulate.hpp"
#include "prism/stats/distance.hpp"
#include "prism/stats/quantiles.hpp"
#include "prism/stats/random.hpp"
#include "prism/stats/scores.hpp"
#include "prism/trace/error.hpp"

namespace prism {

namespace {

constexpr std::size_t kMinSteps = 4;
constexpr std::uint32_t kMatchedSets = 400;
constexpr double kChoiceMargin = 0.02;  // prefer the default within 2 % of the best CRPS
constexpr std::array kFoldKinds = {FoldKind::Alternating, FoldKind::Blocks};

/// Fold number of each step.
std::vector<std::size_t> folds_of(FoldKind kind, std::size_t steps) {
  std::vector<std::size_t> fold(steps);
  for (std::size_t i = 0; i < steps; ++i) fold[i] = kind == FoldKind::Alternating ? i % 2 : 4 * i / steps;
  return fold;
}

/// One fold's prediction and the steps it is for.
struct Fold {
  std::vector<std::size_t> train;
  std::vector<double> observed_ns;  ///< of the steps left out
  std::vector<double> samples_ns;   ///< predicted
};

std::vector<Fold> split(const StepModel& model, FoldKind kind) {
  const std::vector<std::size_t> fold_of = folds_of(kind, model.step_count());
  std::vector<Fold> folds(fold_of.back() + 1);
  if (kind == FoldKind::Alternating) folds.resize(2);
  for (std::size_t f = 0; f < folds.size(); ++f) {
    for (std::size_t k = 0; k < fold_of.size(); ++k) {
      if (fold_of[k] == f) {
        folds[f].observed_ns.push_back(model.observed_ns[k]);
      } else {
        folds[f].train.push_back(k);
      }
    }
  }
  return folds;
}

/// Errors of the matched quantile: sets of as many values as there are observed steps, drawn from the folds'
/// samples with weights by left-out steps, and the same interpolated quantile of each as of the observed
/// ones.
struct MatchedErrors {
  double mean = 0, low = 0, high = 0;
};

class MatchedSets {
 public:
  MatchedSets(const std::vector<Fold>& folds, std::uint32_t seed) {
    std::size_t n = 0;
    for (const Fold& fold : folds) n += fold.observed_ns.size();
    std::vector<double> observed;
    for (const Fold& fold : folds)
      observed.insert(observed.end(), fold.observed_ns.begin(), fold.observed_ns.end());
    std::ranges::sort(observed);
    observed_ = observed;
    for (std::uint32_t set = 0; set < kMatchedSets; ++set) {
      std::vector<double> values(n);
      for (std::uint32_t i = 0; i < n; ++i) {
        std::size_t place =
            index_from_word(random_word(seed, Purpose::Bootstrap, set, 1, i), static_cast<std::uint32_t>(n));
        std::size_t f = 0;
        while (place >= folds[f].observed_ns.size()) place -= folds[f++].observed_ns.size();
        const auto& samples = folds[f].samples_ns;
        values[i] = samples[index_from_word(random_word(seed, Purpose::Bootstrap, set, 2, i),
                                            static_cast<std::uint32_t>(samples.size()))];
      }
      std::ranges::sort(values);
      sets_.push_back(std::move(values));
    }
  }

  MatchedErrors errors(double p) const {
    const double truth = quantile_sorted(observed_, p);
    std::vector<double> errors;
    for (const auto& set : sets_) errors.push_back(quantile_sorted(set, p) / truth - 1);
    std::ranges::sort(errors);
    return {std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size()),
            quantile_sorted(errors, 0.05), quantile_sorted(errors, 0.95)};
  }

 private:
  std::vector<double> observed_;
  std::vector<std::vector<double>> sets_;
};

/// Mean CRPS over the left-out steps of all folds, in nanoseconds.
double mean_crps(const std::vector<Fold>& folds) {
  double sum = 0;
  std::size_t n = 0;
  for (const Fold& fold : folds) {
    const CrpsEnsemble ensemble(fold.samples_ns);
    for (const double y : fold.observed_ns) sum += ensemble.score(y);
    n += fold.observed_ns.size();
  }
  return sum / static_cast<double>(n);
}

ModelScore score_folds(std::string name, FoldKind kind, const std::vector<Fold>& folds, double baseline_crps,
                       std::uint32_t seed) {
  ModelScore score{.name = std::move(name), .folds = kind};
  std::vector<double> transforms;
  for (const Fold& fold : folds) {
    std::vector<double> sorted = fold.samples_ns;
    std::ranges::sort(sorted);
    for (const double y : fold.observed_ns) transforms.push_back(pit(sorted, y));
  }
  score.ks_noise = ks_noise_95(transforms.size());
  score.ks = ks_uniform(std::move(transforms));
  const MatchedSets matched(folds, seed);
  const MatchedErrors p50 = matched.errors(0.5);
  const MatchedErrors p95 = matched.errors(0.95);
  score.p50_error = p50.mean;
  score.p50_low = p50.low;
  score.p50_high = p50.high;
  score.p95_error = p95.mean;
  score.p95_low = p95.low;
  score.p95_high = p95.high;
  score.crps_ratio = mean_crps(folds) / baseline_crps;
  return score;
}

/// Sampling models that are as good as any on both fold kinds; the default wins near ties.
Sampling choose(const ValidateResult& result) {
  std::array<double, kSamplingModels.size()> crps{};
  for (std::size_t i = 0; i < kSamplingModels.size(); ++i) {
    for (const FoldKind kind : kFoldKinds)
      crps[i] += result.score(sampling_name(kSamplingModels[i]), kind).crps_ratio;
  }
  const auto best = std::ranges::min_element(crps);
  if (crps[0] <= *best * (1 + kChoiceMargin)) return kSamplingModels[0];
  return kSamplingModels[static_cast<std::size_t>(best - crps.begin())];
}

}  // namespace

std::string_view fold_name(FoldKind kind) {
  return kind == FoldKind::Alternating ? "alternating" : "blocks";
}

const ModelScore& ValidateResult::score(std::string_view model, FoldKind folds) const {
  const auto found = std::ranges::find_if(
      models, [&](const ModelScore& score) { return score.name == model && score.folds == folds; });
  assert(found != models.end());
  return *found;
}

ValidateResult validate(const StepModel& model, const ValidateOptions& options, const RunControl& control) {
  if (model.step_count() < kMinSteps) {
    throw InputError({model.source, {}, {}},
                     "validation leaves steps out and needs at least " + std::to_string(kMinSteps) +
                         " profiled steps, there are " + std::to_string(model.step_count()),
                     "profile 16 steps or more");
  }
  ValidateResult result;
  if (model.delays == LaunchDelays::None) result.target = "replayed";
  result.effects = estimate_step_effects(model);
  result.coupling = microbatch_coupling(model);
  for (const FoldKind kind : kFoldKinds) {
    std::vector<Fold> folds = split(model, kind);
    for (Fold& fold : folds) {
      fold.samples_ns.clear();
      for (const std::size_t k : fold.train) fold.samples_ns.push_back(model.observed_ns[k]);
    }
    const double baseline_crps = mean_crps(folds);
    result.baseline.push_back(score_folds("bootstrap", kind, folds, baseline_crps, options.seed));
    for (const Sampling sampling : kSamplingModels) {
      for (std::size_t f = 0; f < folds.size(); ++f) {
        const StepModel training = with_steps(model, folds[f].train);
        const Simulation simulation(training, sampling, estimate_step_effects(training));
        folds[f].samples_ns = simulation.step_times_ns(
            options.seed, static_cast<std::uint32_t>(f) * options.samples, options.samples, control);
      }
      result.models.push_back(
          score_folds(std::string(sampling_name(sampling)), kind, folds, baseline_crps, options.seed));
    }
  }
  result.chosen = choose(result);
  result.findings = describe_effects(model, result.effects, result.coupling);
  return result;
}

}  // namespace prism
