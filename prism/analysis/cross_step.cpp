// SPDX-License-Identifier: Apache-2.0
#include "prism/analysis/cross_step.hpp"

#include <algorithm>
#include <utility>

#include "prism/engine/simulate.hpp"
#include "prism/model/sampling.hpp"

namespace prism {

namespace {

constexpr std::size_t kMostForAllPairs = 8;

using Pair = std::pair<std::size_t, std::size_t>;  // indices of steps: from, to

bool same_kind(const StepModel& model, std::size_t a, std::size_t b) {
  return model.step_kinds.empty() || model.step_kinds[a] == model.step_kinds[b];
}

std::vector<Pair> pairs_of(const StepModel& model) {
  std::vector<Pair> pairs;
  const std::size_t steps = model.step_count();
  if (steps <= kMostForAllPairs) {
    for (std::size_t from = 0; from < steps; ++from) {
      for (std::size_t to = 0; to < steps; ++to) {
        if (from != to && same_kind(model, from, to)) pairs.emplace_back(from, to);
      }
    }
    return pairs;
  }
  std::vector<std::size_t> by_time(steps);
  for (std::size_t k = 0; k < steps; ++k) by_time[k] = k;
  std::ranges::stable_sort(by_time, {}, [&](std::size_t k) { return model.observed_ns[k]; });
  const std::size_t from = by_time[steps / 2];
  for (std::size_t to = 0; to < steps; ++to) {
    if (from != to && same_kind(model, from, to)) pairs.emplace_back(from, to);
  }
  return pairs;
}

/// What is taken from the other step.
enum class Carry { Everything, GpuAndLags, Lags };

bool carries(Category category, Carry what) {
  switch (category) {
    case Category::StepStart:
      return false;
    case Category::QueueLag:
    case Category::Unexplained:
      return true;
    case Category::HostWork:
      return what == Carry::Everything;
    default:
      return what != Carry::Lags;
  }
}

/// The model with one "step" per pair.
StepModel with_pairs(const StepModel& model, const std::vector<Pair>& pairs, Carry what) {
  StepModel result = model;
  result.steps.assign(pairs.size(), 0);
  result.observed_ns.clear();
  result.step_kinds.clear();
  result.recorded_start_ns.clear();
  for (const auto& [from, to] : pairs) result.observed_ns.push_back(model.observed_ns[to]);
  result.pools = {};
  for (std::size_t c = 0; c < model.pools.classes.size(); ++c) {
    const DurationClass& old = model.pools.classes[ClassId(c)];
    const std::size_t copies = old.per_replica ? model.replicas : 1;
    const bool carried = carries(old.category, what);
    std::vector<double> values;
    values.reserve(copies * pairs.size() * old.members);
    for (std::size_t copy = 0; copy < copies; ++copy) {
      const auto pool = model.pools.pool(ClassId(c), copy);
      for (const auto& [from, to] : pairs) {
        for (std::size_t m = 0; m < old.members; ++m) {
          const double theirs = pool[from * old.members + m];
          const double own = pool[to * old.members + m];
          const bool both = (did_run(theirs) && did_run(own)) || old.category == Category::Waiting;
          values.push_back(both && carried ? theirs : own);
        }
      }
    }
    result.pools.add(old, values, model.replicas);
  }
  return result;
}

std::vector<double> replayed(const StepModel& base, const std::vector<Pair>& pairs, Carry what,
                             const RunControl& control) {
  const StepModel model = with_pairs(base, pairs, what);
  return Simulation(model, Sampling::Recorded, {})
      .step_times_ns(0, 0, static_cast<std::uint32_t>(model.step_count()), control);
}

/// Of the durations of step `to`, the share that step `from` did not run.
double kept_share(const StepModel& model, const Pair& pair) {
  std::size_t ran = 0;
  std::size_t kept = 0;
  for (std::size_t c = 0; c < model.pools.classes.size(); ++c) {
    const DurationClass& of = model.pools.classes[ClassId(c)];
    if (of.category == Category::StepStart) continue;
    const auto pool = model.pools.pool(ClassId(c), 0);
    for (std::size_t m = 0; m < of.members; ++m) {
      if (!did_run(pool[pair.second * of.members + m])) continue;
      ++ran;
      if (!did_run(pool[pair.first * of.members + m])) ++kept;
    }
  }
  return ran > 0 ? static_cast<double>(kept) / static_cast<double>(ran) : 0;
}

}  // namespace

std::vector<CrossStep> replay_across_steps(const StepModel& model, const RunControl& control) {
  if (!is_kernel_level(model)) return {};
  const std::vector<Pair> pairs = pairs_of(model);
  if (pairs.empty()) return {};
  const std::vector<double> all = replayed(model, pairs, Carry::Everything, control);
  const std::vector<double> gpu = replayed(model, pairs, Carry::GpuAndLags, control);
  const std::vector<double> lags = replayed(model, pairs, Carry::Lags, control);
  std::vector<CrossStep> result;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto [from, to] = pairs[i];
    result.push_back({.from = model.steps[from],
                      .to = model.steps[to],
                      .error = all[i] / model.observed_ns[to] - 1,
                      .gpu_error = gpu[i] / model.observed_ns[to] - 1,
                      .lags_error = lags[i] / model.observed_ns[to] - 1,
                      .observed_change = model.observed_ns[from] / model.observed_ns[to] - 1,
                      .kept_share = kept_share(model, pairs[i])});
  }
  return result;
}

}  // namespace prism
