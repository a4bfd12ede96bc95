// SPDX-License-Identifier: Apache-2.0
// Inspection: what is in an input. The pools as people think of them, one row per pool key and, for compute,
// per rank.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "prism/model/step_model.hpp"
#include "prism/run/control.hpp"

namespace prism {

struct PoolSummary {
  std::string key;
  Category category = Category::Compute;
  std::size_t count = 0;  ///< values
  double mean_ns = 0;
  double per_step_ns =
      0;  ///< sum over all ops and ranks in a step, mean over steps; 0 without profiled steps
  double cv = 0;
  double p95_ns = 0;
  std::string best_law;  ///< of the fitted laws, by KS distance
  double law_ks = 0;
};

/// All compute of one rank in a step.
struct RankCompute {
  std::int32_t rank = 0;  ///< global rank
  double mean_ns = 0;     ///< per step
  double cv = 0;          ///< over steps; NaN with fewer than two
};

/// GPU time of one phase of the step.
struct PhaseTime {
  Phase phase = Phase::Unknown;
  double per_step_ns = 0;  ///< mean over ranks and steps; of communication its transfers
};

struct InspectResult {
  std::size_t ranks = 0;                  ///< template ranks x replicas
  std::size_t ops = 0;                    ///< op nodes x replicas (joins and launch delays left out)
  std::size_t nodes = 0;                  ///< of the template
  std::size_t edges = 0;                  ///< of the template
  std::vector<PoolSummary> pools;         ///< by category; of kernels: longest per step first
  std::vector<RankCompute> rank_compute;  ///< of kernel-level models, as what follows
  std::vector<PhaseTime> phases;          ///< those that occur
};

InspectResult inspect(const StepModel& model, const RunControl& control);

}  // namespace prism
