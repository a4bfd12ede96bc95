// SPDX-License-Identifier: Apache-2.0
#include "prism/model/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "prism/model/total_compute.hpp"

namespace prism {

namespace {

constexpr double kMinMeanNs = 1e3;

bool has_factor(const StepModel& model, ClassId id) {
  const auto values = model.pools.all(id, model.pool_replicas());
  if (model.step_count() == 0 || model.pools.classes[id].category != Category::Compute) return false;
  if (std::ranges::min(values) <= 0) return false;
  return std::accumulate(values.begin(), values.end(), 0.0) >=
         kMinMeanNs * static_cast<double>(values.size());
}

VarianceShape shape_of(const StepModel& model, ClassId id) {
  return {.replicas = model.pool_replicas(),
          .steps = model.step_count(),
          .members = model.pools.classes[id].members};
}

VarianceComponents log_components(const StepModel& model, ClassId id) {
  const auto values = model.pools.all(id, model.pool_replicas());
  std::vector<double> logs(values.size());
  std::ranges::transform(values, logs.begin(), [](double v) { return std::log(v); });
  return variance_components(logs, shape_of(model, id));
}

double sd(double variance) {
  return std::sqrt(std::max(0.0, variance));
}

/// Cells whose durations the pools hold.
std::size_t traced_cells(const StepModel& model) {
  return std::size_t{model.pool_replicas()} * model.cells;
}

/// The share of a step effect that is real; `noise` and `total` are its variances of noise and as estimated.
double real_share(const StepModel& model, double noise, double total) {
  if (traced_cells(model) == 1) return std::uint64_t{model.replicas} * model.cells > 1 ? 0 : 1;
  return total > 0 ? std::sqrt(std::max(0.0, 1 - noise / total)) : 1;
}

ClassComponents described(std::optional<ClassId> id, const VarianceComponents& parts, VarianceShape shape) {
  const auto steps = static_cast<double>(shape.steps);
  return {.duration_class = id,
          .rank_sd = sd(parts.v_rank - parts.v_cell / steps),
          .step_sd = sd(parts.v_step - parts.v_cell / static_cast<double>(shape.replicas)),
          .cell_sd = sd(parts.v_cell - parts.v_residual / static_cast<double>(shape.members)),
          .residual_sd = sd(parts.v_residual),
          .tests = f_tests(parts, shape)};
}

StepEffects kernel_level_effects(const StepModel& model) {
  StepEffects effects;
  effects.effect = IdVector<ClassId, std::vector<double>>(model.pools.classes.size());
  if (model.step_count() == 0) return effects;
  std::vector<double> logs =
      total_compute(model, model.cells, [](const Node& node) { return static_cast<std::size_t>(node.cell); });
  if (std::ranges::min(logs) <= 0) return effects;  // a cell that does not compute has no effect to exchange
  std::ranges::transform(logs, logs.begin(), [](double v) { return std::log(v); });
  const VarianceShape shape{.replicas = traced_cells(model), .steps = model.step_count()};
  for (std::size_t c = 0; c < shape.replicas; ++c) {
    centre_by_kind(std::span(logs).subspan(c * shape.steps, shape.steps), model.step_kinds);
  }
  VarianceComponents parts = variance_components(logs, shape);
  effects.components.push_back(described({}, parts, shape));
  effects.share = real_share(model, parts.v_cell / static_cast<double>(shape.replicas), parts.v_step);
  effects.common = std::move(parts.step_effect);
  return effects;
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

bool is_kernel_level(const StepModel& model) {
  return model.cells > 1 || std::ranges::any_of(model.pools.classes, [](const DurationClass& c) {
           return c.category != Category::Compute && is_of_cell(c.category);
         });
}

StepEffects estimate_step_effects(const StepModel& model) {
  if (is_kernel_level(model)) return kernel_level_effects(model);
  StepEffects effects;
  effects.effect = IdVector<ClassId, std::vector<double>>(model.pools.classes.size());
  double noise = 0;
  double total = 0;
  for (std::size_t i = 0; i < model.pools.classes.size(); ++i) {
    const ClassId id(i);
    if (!has_factor(model, id)) continue;
    const VarianceShape shape = shape_of(model, id);
    VarianceComponents parts = log_components(model, id);
    noise += parts.v_cell / static_cast<double>(shape.replicas);
    total += parts.v_step;
    effects.components.push_back(described(id, parts, shape));
    effects.effect[id] = std::move(parts.step_effect);
  }
  effects.share = real_share(model, noise, total);
  return effects;
}

double microbatch_coupling(const StepModel& model) {
  std::vector<std::vector<double>> residuals;
  if (is_kernel_level(model)) return std::numeric_limits<double>::quiet_NaN();
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
