// SPDX-License-Identifier: Apache-2.0
#include "prism/model/collapse_replicas.hpp"

#include <algorithm>
#include <vector>

#include "prism/trace/error.hpp"

namespace prism {

std::string distinguishing_fact(const StepModel& model) {
  if (model.replicas == 1) return {};
  if (std::ranges::any_of(model.rank_factors, [](double f) { return f != 1; }))
    return "speeds of single ranks";
  for (const Node& node : model.nodes) {
    if (node.kind == NodeKind::Join) continue;
    const DurationClass& c = model.pools.classes[node.duration_class];
    if (c.own == OwnDraw::None) return "profiled durations of each replica";
    if (node.base_row >= 0) return "'" + node.name + "' takes a different time in different replicas";
    const bool shared = node.draw_group.size == model.replicas;
    if (c.own != OwnDraw::Constant && !shared) return "'" + c.key + "' varies by itself";
    for (const FactorId f : c.factors) {
      const SharedFactor& factor = model.factors[f];
      const bool of_all = factor.scope == FactorScope::Step || (factor.scope == FactorScope::Link && shared);
      if (!of_all) return "'" + c.key + "' varies with the " + factor.name;
    }
  }
  return {};
}

StepModel collapse_replicas(const StepModel& model) {
  if (const std::string fact = distinguishing_fact(model); !fact.empty()) {
    throw InputError({model.source, {}, {}}, "the replicas are not exchangeable: " + fact,
                     "simulate them all, or leave that variability out");
  }
  StepModel one = model;
  one.replicas = 1;
  StepGraphBuilder builder;
  for (std::size_t i = 0; i < model.nodes.size(); ++i) builder.add_node();
  for (std::size_t i = 0; i < model.nodes.size(); ++i) {
    for (const NodeId before : model.graph.predecessors(NodeId(i))) {
      builder.add_edge(before.value, static_cast<std::uint32_t>(i));
    }
  }
  StepGraphBuilder::Result built =
      builder.build(model.source, [&](std::uint32_t i) { return model.nodes[NodeId(i)].name; });
  one.graph = std::move(built.graph);
  for (std::size_t i = 0; i < model.nodes.size(); ++i) {
    Node node = model.nodes[NodeId(i)];
    node.draw_group = {};
    one.nodes[built.node_of[i]] = std::move(node);
  }
  for (auto* ids : {&one.rank_ids, &one.host_ids})
    ids->resize(std::min<std::size_t>(ids->size(), model.template_ranks));
  one.rank_factors.clear();
  return one;
}

}  // namespace prism
