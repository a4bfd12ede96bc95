// SPDX-License-Identifier: Apache-2.0
// Sampling models: how the durations of one Monte Carlo sample of a step are drawn from the pools.
//
//                  compute ops                                        communication, local ops, launch delays
//   hierarchical   a whole profiled cell per cell (its step k_d,      the recorded value of step k*
//                  microbatches reordered), step effect exchanged
//                  for that of one step k* of the whole job
//   step-block     own rank, step k*, any microbatch per op           the recorded value of step k*
//   regime         own rank, any step and microbatch per op           the recorded value of step k*
//   iid            own rank, any step and microbatch per op           an independent step per instance
//   iid-mixed      any replica, step and microbatch per op            an independent step per instance
//   recorded       what was recorded in step number "sample"          the same
//
// A cell is one replica, or at kernel level one traced rank of a replica (StepModel::cells). Host work, lags
// and the state at a step's start belong to their cell (is_of_cell) and are taken from its step k_d, without
// an exchange; k_d is a step of the same kind as k*.
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

/// Variance components and tests of one compute class, or of all compute of a cell, from log durations.
struct ClassComponents {
  std::optional<ClassId> duration_class;  ///< nothing: all compute of a cell
  double rank_sd = 0;      ///< relative standard deviation between replicas' ranks, noise taken out
  double step_sd = 0;      ///< common to all replicas in a step
  double cell_sd = 0;      ///< of one replica in one step
  double residual_sd = 0;  ///< between microbatches of a cell
  FTests tests;            ///< is the effect there at all? NaN where the data cannot say
};

/// The common step effect of the compute classes and how much of it is real.
struct StepEffects {
  double share = 1;  ///< a: 0 cells independent, 1 effect fully common
  IdVector<ClassId, std::vector<double>>
      effect;                               ///< S[k] of log duration; empty for classes without the factor
  std::vector<double> common;               ///< S[k] of all compute classes alike; then `effect` is not used
  std::vector<ClassComponents> components;  ///< of the classes with the factor
};

/// Whether the model is of kernels and host calls rather than of ops: it says what the host did.
bool is_kernel_level(const StepModel& model);

/// Estimates from the model's profiled steps (sampling.md section 4).
///
/// At op level each compute class has its own effect, and its replicas are the cells. A class with a value of
/// zero or less, or a mean below 1 us, has no factor. At kernel level there are thousands of classes of one
/// rank each: one effect, of the total compute of each cell and step, serves them all; it is the deviation
/// from the mean of the steps of the same kind.
///
/// With one traced cell, a cell and a step cannot be told apart: share = 1, or 0 in a model that was extended
/// from it, whose copies then draw independently.
StepEffects estimate_step_effects(const StepModel& model);

/// rho: mean correlation, between classes, of what their microbatches deviate from their cell: near 1 if a
/// microbatch is slow in forward and backward on all stages alike. NaN with fewer than two classes to
/// compare, and at kernel level.
double microbatch_coupling(const StepModel& model);

}  // namespace prism
