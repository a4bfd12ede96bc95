// SPDX-License-Identifier: Apache-2.0
#include "prism/model/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace prism {

namespace {

constexpr double kMinMeanNs = 1e3;

bool has_factor(const StepModel& model, ClassId id) {
  const auto values = model.pools.all(id, model.replicas);
  if (model.step_count() == 0 || model.pools.classes[id].category != Category::Compute) return false;
  if (std::ranges::min(values) <= 0) return false;
  return std::accumulate(values.begin(), values.end(), 0.0) >=
         kMinMeanNs * static_cast<double>(values.size());
}

VarianceShape shape_of(const StepModel& model, ClassId id) {
  return {
      .replicas = model.replicas, .steps = model.step_count(), .members = model.pools.classes[id].members};
}

VarianceComponents log_components(const StepModel& model, ClassId id) {
  const auto values = model.pools.all(id, model.replicas);
  std::vector<double> logs(values.size());
  std::ranges::transform(values, logs.begin(), [](double v) { return std::log(v); });
  return variance_components(logs, shape_of(model, id));
}

double sd(double variance) {
  return std::sqrt(std::max(0.0, variance));
}

}  // namespace

std::string_view sampling_name(Sampling sampling) {
  constexpr std::array<std::string_view, 6> kNames = {"hierarchical", "step-block", "regime",
                                                      "iid",          "iid-mixed",  "recorded"};
  return kNames[static_cast<std::size_t>(sampling)];
}

Sampling default_sampling(const StepModel& model) {
  return model.step_count() > 0 ? Sampling::Hierarchical : Sampling::Iid;
}

std::optional<Sampling> sampling_from_name(std::string_view name) {
  for (const Sampling sampling : kSamplingModels) {
    if (sampling_name(sampling) == name) return sampling;
  }
  return std::nullopt;
}

StepEffects estimate_step_effects(const StepModel& model) {
  StepEffects effects;
  effects.effect = IdVector<ClassId, std::vector<double>>(model.pools.classes.size());
  const auto replicas = static_cast<double>(model.replicas);
  const auto steps = static_cast<double>(model.step_count());
  double noise = 0;
  double total = 0;
  for (std::size_t i = 0; i < model.pools.classes.size(); ++i) {
    const ClassId id(i);
    if (!has_factor(model, id)) continue;
    const VarianceShape shape = shape_of(model, id);
    VarianceComponents parts = log_components(model, id);
    noise += parts.v_cell / replicas;
    total += parts.v_step;
    effects.components.push_back(
        {.duration_class = id,
         .rank_sd = sd(parts.v_rank - parts.v_cell / steps),
         .step_sd = sd(parts.v_step - parts.v_cell / replicas),
         .cell_sd = sd(parts.v_cell - parts.v_residual / static_cast<double>(shape.members)),
         .residual_sd = sd(parts.v_residual),
         .tests = f_tests(parts, shape)});
    effects.effect[id] = std::move(parts.step_effect);
  }
  if (model.replicas > 1 && total > 0) effects.share = std::sqrt(std::max(0.0, 1 - noise / total));
  return effects;
}

double microbatch_coupling(const StepModel& model) {
  std::vector<std::vector<double>> residuals;
  for (std::size_t i = 0; i < model.pools.classes.size(); ++i) {
    if (model.pools.classes[ClassId(i)].exchangeable && has_factor(model, ClassId(i))) {
      residuals.push_back(log_components(model, ClassId(i)).residual);
    }
  }
  double sum = 0;
  std::size_t pairs = 0;
  for (std::size_t i = 0; i < residuals.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (residuals[i].size() != residuals[j].size()) continue;
      sum += pearson(residuals[i], residuals[j]);
      ++pairs;
    }
  }
  return pairs > 0 ? sum / static_cast<double>(pairs) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace prism
