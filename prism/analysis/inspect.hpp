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
  double cv = 0;
  double p95_ns = 0;
  std::string best_law;  ///< of the fitted laws, by KS distance
  double law_ks = 0;
};

struct InspectResult {
  std::size_t ranks = 0;           ///< template ranks x replicas
  std::size_t ops = 0;             ///< op nodes x replicas (joins and launch delays left out)
  std::size_t nodes = 0;           ///< of the template
  std::size_t edges = 0;           ///< of the template
  std::vector<PoolSummary> pools;  ///< in model order
};

InspectResult inspect(const StepModel& model, const RunControl& control);

}  // namespace prism
