// SPDX-License-Identifier: Apache-2.0
// Sampling models: how the durations of one Monte Carlo sample of a step are drawn from the pools.
//
//                  compute ops                                        communication, local ops, launch delays
//   hierarchical   a whole profiled cell per replica (its step k_d,   the recorded value of step k*
//                  microbatches reordered), step effect exchanged
//                  for that of one step k* of the whole job
//   step-block     own rank, step k*, any microbatch per op           the recorded value of step k*
//   regime         own rank, any step and microbatch per op           the recorded value of step k*
//   iid            own rank, any step and microbatch per op           an independent step per instance
//   iid-mixed      any replica, step and microbatch per op            an independent step per instance
//   recorded       what was recorded in step number "sample"          the same
//
// `regime` is the published PRISM rule (arXiv 2510.15596). `hierarchical` is the default; why, and measured:
// docs/model.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "prism/model/step_model.hpp"
#include "prism/stats/variance.hpp"

namespace prism {

enum class Sampling : std::uint8_t { Hierarchical, StepBlock, Regime, Iid, IidMixed, Recorded };

/// The models a user can name, the default first.
inline constexpr std::array<Sampling, 5> kSamplingModels = {
    Sampling::Hierarchical, Sampling::StepBlock, Sampling::Regime, Sampling::Iid, Sampling::IidMixed};

/// "hierarchical", "step-block", "regime", "iid", "iid-mixed" or "recorded".
std::string_view sampling_name(Sampling sampling);

/// Of a model with profiled steps hierarchical, else iid.
Sampling default_sampling(const StepModel& model);

/// The model of that name among kSamplingModels.
std::optional<Sampling> sampling_from_name(std::string_view name);

/// Variance components and tests of one compute class, from log durations.
struct ClassComponents {
  ClassId duration_class;
  double rank_sd = 0;      ///< relative standard deviation between replicas' ranks, noise taken out
  double step_sd = 0;      ///< common to all replicas in a step
  double cell_sd = 0;      ///< of one replica in one step
  double residual_sd = 0;  ///< between microbatches of a cell
  FTests tests;            ///< is the effect there at all? NaN where the data cannot say
};

/// The common step effect of the compute classes and how much of it is real.
struct StepEffects {
  double share = 1;  ///< a: 0 replicas independent, 1 effect fully common
  IdVector<ClassId, std::vector<double>>
      effect;                               ///< S[k] of log duration; empty for classes without the factor
  std::vector<ClassComponents> components;  ///< of the classes with the factor
};

/// Estimates from the model's profiled steps (sampling.md section 4). A class with a value of zero or less,
/// or a mean below 1 us, has no factor. With one replica a cell and a step cannot be told apart: share = 1.
StepEffects estimate_step_effects(const StepModel& model);

/// rho: mean correlation, between classes, of what their microbatches deviate from their cell: near 1 if a
/// microbatch is slow in forward and backward on all stages alike. NaN with fewer than two classes to
/// compare.
double microbatch_coupling(const StepModel& model);

}  // namespace prism
