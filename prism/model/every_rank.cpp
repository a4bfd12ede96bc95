// SPDX-License-Identifier: Apache-2.0
#include "prism/model/every_rank.hpp"

#include <map>
#include <utility>

#include "prism/trace/error.hpp"

namespace prism {

namespace {

void check_composed(const StepModel& model) {
  for (const DurationClass& c : model.pools.classes) {
    if (c.own == OwnDraw::None) {
      throw InputError({model.source, {}, {}}, "durations of '" + c.key + "' are drawn from profiled steps",
                       "this needs a model of a plan");
    }
  }
  constexpr std::uint64_t kMost = std::uint64_t{1} << 26;
  if (std::uint64_t{model.nodes.size()} * model.replicas > kMost) {
    throw InputError({model.source, {}, {}}, "too many nodes to write out every rank", "fewer replicas");
  }
}

}  // namespace

StepModel with_every_rank(const StepModel& model) {
  check_composed(model);
  StepModel all;
  all.source = model.source;
  all.digest = model.digest;
  all.mesh = model.mesh;
  all.template_ranks = model.template_ranks * model.replicas;
  all.world_ranks = model.world_ranks;
  all.pools = model.pools;
  all.factors = model.factors;
  all.rank_factors = model.rank_factors;
  all.rank_ids = model.rank_ids;
  all.host_ids = model.host_ids;
  all.report = model.report;

  StepGraphBuilder builder;
  std::vector<Node> nodes;
  const std::size_t count = model.nodes.size();
  // [node * replicas + replica] -> builder id
  std::vector<std::uint32_t> copies(count * model.replicas);
  const auto add = [&](const Node& node) {
    nodes.push_back(node);
    return builder.add_node();
  };
  for (std::size_t i = 0; i < count; ++i) {
    const NodeId id(i);
    const Node& node = model.nodes[id];
    const ReplicaGroup group = model.graph.replica_group(id);
    std::map<std::uint32_t, std::uint32_t> joins;  // of the groups of replicas
    for (std::uint32_t d = 0; d < model.replicas; ++d) {
      Node copy = node;
      copy.rank = static_cast<std::int32_t>(d * model.template_ranks) + node.rank;
      copy.replica_offset = node.draw_group.index_of(d) + node.replica_offset;
      copy.draw_group = {};
      if (node.base_row >= 0) {
        copy.base_ns = model.replica_bases_ns[static_cast<std::size_t>(node.base_row) * model.replicas + d];
        copy.base_row = -1;
      }
      std::uint32_t arrival = 0;
      if (group.spans()) {
        const auto [place, is_new] = joins.try_emplace(group.index_of(d), 0U);
        if (is_new) place->second = add({.kind = NodeKind::Join, .name = "join", .rank = copy.rank});
        arrival = place->second;
      }
      const std::uint32_t own = add(copy);
      copies[i * model.replicas + d] = own;
      if (group.spans()) builder.add_edge(arrival, own);
      for (const NodeId before : model.graph.predecessors(id)) {
        builder.add_edge(copies[before.value * model.replicas + d], group.spans() ? arrival : own);
      }
    }
  }
  StepGraphBuilder::Result built =
      builder.build(model.source, [&](std::uint32_t id) { return nodes[id].name; });
  all.graph = std::move(built.graph);
  all.nodes = IdVector<NodeId, Node>(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) all.nodes[built.node_of[i]] = std::move(nodes[i]);
  return all;
}

}  // namespace prism
