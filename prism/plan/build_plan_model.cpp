// SPDX-License-Identifier: Apache-2.0
#include "prism/plan/build_plan_model.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "prism/plan/memory.hpp"
#include "prism/plan/plan_costs.hpp"
#include "prism/plan/plan_graph.hpp"
#include "prism/plan/plan_laws.hpp"
#include "prism/plan/plan_programs.hpp"
#include "prism/stats/random.hpp"
#include "prism/trace/error.hpp"

namespace prism {

namespace {

constexpr std::uint64_t kMostNodes = std::uint64_t{1} << 24;  // about 6 GiB of nodes and edges

std::uint64_t id_of(std::string_view text) {
  std::uint64_t id = text.size();
  for (const char c : text) id = mix_id(id, static_cast<unsigned char>(c));
  return id;
}

const char* pass_name(PassKind kind) {
  switch (kind) {
    case PassKind::Forward:
      return "forward";
    case PassKind::Backward:
      return "backward";
    case PassKind::BackwardInput:
      return "backward of inputs";
    case PassKind::BackwardWeight:
      break;
  }
  return "backward of weights";
}

void check_memory(const Plan& plan, const PlanPrograms& programs, const RankLayout& layout) {
  if (!plan.check_memory || !plan.model) return;
  const std::vector<MemoryUse> uses = memory_use(*plan.model, plan.parallel, plan.precisions, plan.microbatch,
                                                 programs.schedule, programs.layers, plan.source);
  constexpr double kGb = 1e9;
  for (std::size_t rank = 0; rank < uses.size(); ++rank) {
    const MemoryUse& use = uses[rank];
    const double least = layout.least_memory_gb(static_cast<std::int64_t>(rank));
    const double free = least - plan.memory_reserve_gb;
    if (use.total() / kGb <= free) continue;
    throw InputError(
        {plan.source, {}, {}},
        fmt::format(
            "pipeline rank {} needs {:.1f} GB of GPU memory, and there are {:.1f} ({:.0f} less a reserve of "
            "{:.1f}): weights {:.1f}, gradients {:.1f}, optimizer {:.1f}, activations {:.1f} of {:.0f} "
            "microbatch stages in flight, other {:.1f}",
            rank, use.total() / kGb, free, least, plan.memory_reserve_gb, use.weights / kGb,
            use.gradients / kGb, use.optimizer / kGb, use.activations / kGb, use.in_flight,
            use.workspace / kGb),
        "split the model further (tp, pp, cp), shard more (zero), recompute activations, or use smaller "
        "microbatches; "
        "[memory] check = false goes on regardless");
  }
}

/// Fills in the nodes of a model.
class NodeWriter {
 public:
  NodeWriter(const Plan& plan, const PlanPrograms& programs, const RankLayout& layout, const PlanGraph& graph,
             StepModel& model)
      : programs_(programs),
        layout_(layout),
        graph_(graph),
        model_(model),
        costs_(plan, layout),
        laws_(plan.variability, model) {}

  Node write(const PlannedNode& planned) {
    Node node{.rank = planned.rank, .stage = layout_.pipeline_rank(planned.rank)};
    if (!planned.step_end) node.microbatch = planned.pass.microbatch;
    switch (planned.kind) {
      case PlannedNode::Kind::Compute:
        write_compute(planned, node);
        break;
      case PlannedNode::Kind::Collective:
        write_collective(planned, node);
        break;
      case PlannedNode::Kind::Transfer:
        write_transfer(planned, node);
        break;
      case PlannedNode::Kind::Pause:
        node.name = "pause";
        node.base_ns = 1;
        node.duration_class = laws_.pause();
        break;
      case PlannedNode::Kind::Join:
        node.kind = NodeKind::Join;
        node.name = "join";
        break;
    }
    set_id(planned, node);
    return node;
  }

 private:
  static std::string name_of(const PlannedNode& planned) {
    return planned.step_end ? planned.op->name : planned.op->name + " " + pass_name(planned.pass.kind);
  }
  static std::string full_name(const std::string& key, const PlannedNode& planned) {
    std::string name = key;
    if (planned.op != nullptr && planned.op->layer >= 0) name += fmt::format(", layer {}", planned.op->layer);
    if (!planned.step_end) name += fmt::format(", microbatch {}", planned.pass.microbatch);
    return name;
  }

  /// The base by replica, as one number where all are equal.
  template <class Base>
  void set_base(Node& node, Base base) {
    const std::uint32_t replicas = layout_.replicas();
    std::vector<double> bases;
    for (std::uint32_t d = 0; d < replicas; ++d) bases.push_back(base(d));
    node.base_ns = bases.front();
    if (std::ranges::all_of(bases, [&](double b) { return b == bases.front(); })) return;
    const auto [place, is_new] =
        base_rows_.try_emplace(bases, static_cast<std::int32_t>(model_.replica_bases_ns.size() / replicas));
    if (is_new) model_.replica_bases_ns.insert(model_.replica_bases_ns.end(), bases.begin(), bases.end());
    node.base_row = place->second;
  }

  void write_compute(const PlannedNode& planned, Node& node) {
    const std::string key = name_of(planned);
    node.name = full_name(key, planned);
    node.phase = planned.step_end                         ? Phase::Optimizer
                 : planned.pass.kind == PassKind::Forward ? Phase::Forward
                                                          : Phase::Backward;
    // Equal ops of one rank share their bases.
    const auto [place, is_new] = compute_.try_emplace({planned.op, planned.rank});
    if (is_new) {
      set_base(place->second,
               [&](std::uint32_t d) { return costs_.compute_ns(*planned.op, planned.rank, d); });
      place->second.duration_class =
          laws_.compute(key, planned.step_end ? Category::Local : Category::Compute,
                        costs_.kernels(*planned.op, planned.rank, 0), !planned.step_end);
    }
    copy_durations(place->second, node);
  }

  void write_collective(const PlannedNode& planned, Node& node) {
    const TemplateGroup& group = graph_.groups[static_cast<std::size_t>(planned.group)];
    const std::string key = name_of(planned);
    node.name = full_name(key, planned);
    node.phase = Phase::Communication;
    node.draw_group = group.replicas;
    node.over_replicas = group.replicas.spans();
    node.link = planned.group;
    const auto [place, is_new] = collective_.try_emplace({planned.op, planned.group});
    if (is_new) {
      const Communication& communication = *planned.op->communication;
      set_base(place->second, [&](std::uint32_t d) { return costs_.collective_ns(communication, group, d); });
      place->second.duration_class =
          laws_.communication(key, Category::Collective, layout_.placement(group, 0).link);
    }
    copy_durations(place->second, node);
  }

  void write_transfer(const PlannedNode& planned, Node& node) {
    const bool forward = planned.pass.kind == PassKind::Forward;
    const std::string key = forward ? "send activations" : "send gradients";
    node.name = full_name(key, planned) + fmt::format(", to stage {}", layout_.pipeline_rank(planned.peer));
    node.phase = Phase::Communication;
    const auto [link, is_new_link] = wires_.try_emplace(
        {planned.rank, planned.peer}, static_cast<std::int32_t>(graph_.groups.size() + wires_.size()));
    node.link = link->second;
    const auto [place, is_new] = transfer_.try_emplace({planned.rank, planned.peer});
    if (is_new) {
      set_base(place->second, [&](std::uint32_t d) {
        return costs_.transfer_ns(programs_.boundary_bytes, planned.rank, planned.peer, d);
      });
      place->second.duration_class =
          laws_.communication(key, Category::PointToPoint, layout_.pair(planned.rank, planned.peer, 0).link);
    }
    copy_durations(place->second, node);
    if (is_new) return;
    // The class is named by direction; the wire's costs are the same.
    node.duration_class =
        laws_.communication(key, Category::PointToPoint, layout_.pair(planned.rank, planned.peer, 0).link);
  }

  static void copy_durations(const Node& from, Node& to) {
    to.base_ns = from.base_ns;
    to.base_row = from.base_row;
    to.duration_class = from.duration_class;
  }

  /// Identity: what it is, of which pass, where. Equal whatever else the plan holds.
  static void set_id(const PlannedNode& planned, Node& node) {
    std::uint64_t id =
        mix_id(static_cast<std::uint64_t>(planned.kind), static_cast<std::uint64_t>(planned.rank));
    id = mix_id(id, static_cast<std::uint64_t>(planned.peer + 1));
    if (planned.op != nullptr) id = mix_id(id, id_of(planned.op->name));
    if (planned.op != nullptr && planned.op->communication) {
      id = mix_id(id, static_cast<std::uint64_t>(planned.op->communication->axis));
    }
    id = mix_id(id, static_cast<std::uint64_t>(planned.occurrence));
    const Pass& pass = planned.pass;
    id = mix_id(id, static_cast<std::uint64_t>(pass.kind) + (planned.step_end ? 8U : 0U));
    id = mix_id(id, static_cast<std::uint64_t>(pass.stage));
    id = mix_id(id, static_cast<std::uint64_t>(pass.microbatch));
    id = mix_id(id, static_cast<std::uint64_t>(pass.copy));
    node.id = id;
    node.draw_id = id;
  }

  const PlanPrograms& programs_;
  const RankLayout& layout_;
  const PlanGraph& graph_;
  StepModel& model_;
  PlanCosts costs_;
  PlanLaws laws_;
  std::map<std::vector<double>, std::int32_t> base_rows_;
  std::map<std::pair<const PassOp*, std::int32_t>, Node> compute_;     // with a rank
  std::map<std::pair<const PassOp*, std::int32_t>, Node> collective_;  // with a group
  std::map<std::pair<std::int32_t, std::int32_t>, Node> transfer_;     // between two ranks
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> wires_;
};

StepGraphBuilder::Result structure_of(const Plan& plan, const PlanGraph& graph) {
  StepGraphBuilder builder;
  for (const PlannedNode& node : graph.nodes) {
    builder.add_node(node.group < 0 ? ReplicaGroup{}
                                    : graph.groups[static_cast<std::size_t>(node.group)].replicas);
  }
  for (const auto& [before, after] : graph.edges) builder.add_edge(before, after);
  const auto label = [&](std::uint32_t i) {
    const PlannedNode& node = graph.nodes[i];
    const std::string what = node.op != nullptr ? node.op->name : "transfer";
    return fmt::format("{} {} of microbatch {} at stage {}", what, pass_name(node.pass.kind),
                       node.pass.microbatch, node.pass.stage);
  };
  if (plan.parallel.overlap_p2p) return builder.build(plan.source, label);
  try {
    return builder.build(plan.source, label);
  } catch (const InputError&) {
    throw InputError({plan.source, {}, {}},
                     "schedule '" + std::string(schedule_name(plan.schedule.kind)) +
                         "' deadlocks when pipeline transfers block both sides",
                     "overlap_p2p = true");
  }
}

void check_size(const Plan& plan, const PlanPrograms& programs, const RankLayout& layout) {
  std::uint64_t nodes = 0;
  const auto lanes = static_cast<std::uint64_t>(layout.template_ranks() / programs.schedule.ranks);
  for (const std::vector<Pass>& order : programs.schedule.order) {
    for (const Pass& pass : order) {
      nodes += lanes * programs.stages[static_cast<std::size_t>(pass.stage)].forward.ops.size();
    }
  }
  if (nodes <= kMostNodes) return;
  throw InputError({plan.source, {}, {}},
                   fmt::format("one replica's step has about {} ops, more than this machine can hold", nodes),
                   "fewer microbatches, or a smaller model");
}

}  // namespace

StepModel build_plan_model(const Plan& plan) {
  const RankLayout layout(plan.parallel, plan.cluster, plan.source);
  const PlanPrograms programs = plan_programs(plan);
  check_memory(plan, programs, layout);
  check_size(plan, programs, layout);
  const PlanGraph graph = plan_graph(
      programs, layout,
      {.blocking_transfers = !plan.parallel.overlap_p2p, .pauses = plan.variability.pause.probability > 0});
  StepGraphBuilder::Result structure = structure_of(plan, graph);

  StepModel model;
  model.source = plan.source;
  model.digest = plan.digest;
  model.mesh = layout.mesh();
  model.replicas = layout.replicas();
  model.template_ranks = static_cast<std::uint32_t>(layout.template_ranks());
  model.world_ranks = static_cast<std::uint32_t>(plan.parallel.world_size());
  model.report = plan.report;
  model.graph = std::move(structure.graph);
  model.nodes = IdVector<NodeId, Node>(graph.nodes.size());
  NodeWriter writer(plan, programs, layout, graph, model);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    model.nodes[structure.node_of[i]] = writer.write(graph.nodes[i]);
  }
  for (std::uint32_t d = 0; d < model.replicas; ++d) {
    for (std::int32_t rank = 0; rank < layout.template_ranks(); ++rank) {
      model.rank_ids.push_back(static_cast<std::uint32_t>(layout.global_rank(rank, d)));
      model.host_ids.push_back(static_cast<std::uint32_t>(layout.location(rank, d).host));
    }
  }
  return model;
}

}  // namespace prism
