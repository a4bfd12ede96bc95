// SPDX-License-Identifier: Apache-2.0
#include "prism/model/total_compute.hpp"

#include <map>
#include <utility>

namespace prism {

std::vector<double> total_compute(const StepModel& model, std::size_t groups,
                                  const std::function<std::size_t(const Node&)>& group_of) {
  const std::size_t steps = model.step_count();
  std::vector<double> total(model.pool_replicas() * groups * steps, 0);
  for (const Node& node : model.nodes) {
    if (node.kind == NodeKind::Join) continue;
    const DurationClass& c = model.pools.classes[node.duration_class];
    if (c.category != Category::Compute) continue;
    const std::size_t group = group_of(node);
    for (std::size_t d = 0; d < model.pool_replicas(); ++d) {
      const auto pool = model.pools.pool(node.duration_class, d);
      double* to = total.data() + (d * groups + group) * steps;
      for (std::size_t k = 0; k < steps; ++k) to[k] += pool[k * c.members + node.member];
    }
  }
  return total;
}

void centre_by_kind(std::span<double> values, std::span<const int> kinds) {
  if (kinds.empty()) return;
  std::map<int, std::pair<double, double>> of_kind;  // sum, count
  double mean = 0;
  for (std::size_t k = 0; k < values.size(); ++k) {
    auto& [sum, count] = of_kind[kinds[k]];
    sum += values[k];
    count += 1;
    mean += values[k] / static_cast<double>(values.size());
  }
  for (std::size_t k = 0; k < values.size(); ++k) {
    const auto& [sum, count] = of_kind[kinds[k]];
    values[k] += mean - sum / count;
  }
}

}  // namespace prism
