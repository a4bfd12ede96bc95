// SPDX-License-Identifier: Apache-2.0
// How much durations of a plan vary, and what varies together.
//
// Spreads are relative (coefficient of variation); all factors have mean 1, so that durations of the cost model stay means.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "prism/plan/cluster.hpp"
#include "prism/plan/pass_program.hpp"

namespace prism {

enum class LawForm : std::uint8_t { Constant, Normal, Lognormal, Gamma, Pool };

/// A relative spread: a law by name and CV, or measured values (scaled to mean 1).
struct Spread {
  LawForm law = LawForm::Lognormal;
  double cv = 0;
  std::vector<double> pool;  ///< of Pool
};

/// A rare or congested state: with `probability` the duration is multiplied by a lognormal factor of that mean and CV.
struct Disturbance {
  double probability = 0;
  double factor = 1;
  double cv = 0;
};

/// Hosts or GPUs that are slow for the whole run, by name.
struct SlowPart {
  enum class What : std::uint8_t { Rank, Host } what = What::Host;
  std::int64_t number = 0;
  double compute = 1;        ///< factor of compute durations of its ranks
  double communication = 1;  ///< factor of communication that leaves it
};

struct KernelSpread {
  Spread temporal;  ///< of one kernel, from run to run
  Spread spatial;   ///< between GPUs, one factor per GPU and step
};

struct LinkSpread {
  Spread temporal;     ///< of one transfer
  Disturbance tail;    ///< of one transfer
  Spread spatial;      ///< between process groups, one factor per group and step
  Disturbance regime;  ///< of all transfers of that link class in a step
};

struct Variability {
  std::array<KernelSpread, kKernelClassCount> kernels;  ///< by KernelClass
  std::array<LinkSpread, kLinkClassCount> links;        ///< by LinkClass
  Spread host;                                          ///< one factor per host and step, of its compute
  Spread step;                                          ///< one factor per step, of all compute
  Spread microbatch;      ///< one factor per microbatch and replica, of forward and backward on all stages
  Disturbance straggler;  ///< of all compute of one GPU in a step
  Disturbance
      pause;  ///< of one rank in a pass: garbage collection and its like; factor is the pause in microseconds
  bool one_fleet = false;  ///< spatial factors are drawn once, not anew in each sample: one given cluster
  std::vector<SlowPart> slow;
};

}  // namespace prism
