// SPDX-License-Identifier: Apache-2.0
#include "prism/model/posting_edges.hpp"

#include <optional>

#include "prism/model/inference_rule.hpp"

namespace prism {

std::vector<Inference> add_posting_edges(const RecordedJob& job, OpGraph& graph) {
  IdVector<OpId, std::optional<OpId>> chain_before(job.ops.size());
  for (const auto& chain : graph.compute_chain) {
    for (std::size_t i = 1; i < chain.size(); ++i) chain_before[chain[i]] = chain[i - 1];
  }
  std::vector<Inference> added;
  for (std::size_t i = 0; i < job.ops.size(); ++i) {
    const OpId receive(i);
    const auto compute = graph.compute_of_receive[receive];
    if (!compute || !chain_before[*compute]) continue;
    const OpId before = *chain_before[*compute];
    std::size_t agreeing = 0;
    for (std::size_t k = 0; k < job.step_count(); ++k) {
      for (std::size_t d = 0; d < job.replicas(); ++d) {
        agreeing += job.start(receive, k, d) >= job.end(before, k, d) - kInferenceToleranceNs;
      }
    }
    if (!nearly_all(agreeing, job.step_count() * job.replicas())) continue;
    if (graph.add_dependency(receive, before)) {
      added.push_back({"posting edge", op_text(job.ops[before]) + " -> " + op_text(job.ops[receive])});
    }
  }
  return added;
}

}  // namespace prism
