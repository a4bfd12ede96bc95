// SPDX-License-Identifier: Apache-2.0
#include "prism/analysis/kernel_roles.hpp"

#include <limits>
#include <set>
#include <utility>

namespace prism {

namespace {

enum class Role : std::uint8_t { Call, Return, Launch, Gap, GpuOp, Meeting, ThreadStart, StreamStart };

Category category(const StepModel& model, NodeId node) {
  return model.pools.classes[model.nodes[node].duration_class].category;
}

/// Roles of all nodes, from what follows them.
class Classifier {
 public:
  explicit Classifier(const StepModel& model) : model_(model), roles_(model.nodes.size()) {
    for (std::size_t i = 0; i < model.nodes.size(); ++i) start(NodeId(i));
    each_edge([&](NodeId before, NodeId after) {
      if (roles_[after] == Role::GpuOp && is_delay(before)) roles_[before] = Role::Gap;
    });
    std::vector<bool> leads_to_call(model.nodes.size(), false);
    std::vector<bool> leads_to_gaps_only(model.nodes.size(), true);
    each_edge([&](NodeId before, NodeId after) {
      if (roles_[after] == Role::Call) leads_to_call[before.value] = true;
      if (roles_[after] != Role::Gap) leads_to_gaps_only[before.value] = false;
    });
    for (std::size_t i = 0; i < model.nodes.size(); ++i) {
      const NodeId node(i);
      if (!is_delay(node) || roles_[node] == Role::Gap) continue;
      const std::size_t before = model.graph.predecessors(node).size();
      if (before == 0) {
        roles_[node] = leads_to_call[node.value] ? Role::ThreadStart : Role::StreamStart;
      } else if (before == 1 && leads_to_gaps_only[node.value]) {
        roles_[node] = Role::Launch;
      }
    }
  }

  IdVector<NodeId, Role> roles() && { return std::move(roles_); }

 private:
  void start(NodeId node) {
    if (is_meeting(model_, node)) {
      roles_[node] = Role::Meeting;
    } else if (is_delay(node)) {
      roles_[node] = Role::Return;
    } else {
      roles_[node] = category(model_, node) == Category::HostWork ? Role::Call : Role::GpuOp;
    }
  }
  [[nodiscard]] bool is_delay(NodeId node) const {
    return model_.nodes[node].kind == NodeKind::Delay && !is_meeting(model_, node);
  }
  template <class Action>
  void each_edge(const Action& action) const {
    for (std::size_t i = 0; i < model_.nodes.size(); ++i) {
      for (const NodeId before : model_.graph.predecessors(NodeId(i))) action(before, NodeId(i));
    }
  }

  const StepModel& model_;
  IdVector<NodeId, Role> roles_;
};

/// Links the nodes of each rank. A node's predecessors come before it, so their places are known.
class Linker {
 public:
  Linker(const StepModel& model, IdVector<NodeId, Role> roles)
      : model_(model), roles_(std::move(roles)), place_(model.nodes.size(), kNowhere) {
    found_.ranks.resize(model.template_ranks);
  }

  KernelRoles run() {
    for (std::size_t i = 0; i < model_.nodes.size(); ++i) {
      const NodeId node(i);
      RankRoles& rank = found_.ranks[static_cast<std::size_t>(model_.nodes[node].rank)];
      if (roles_[node] == Role::Call) {
        place_[node] = rank.calls.size();
        rank.calls.push_back({.begin = node});
      } else if (roles_[node] == Role::Return) {
        link_return(rank, node);
      } else if (roles_[node] == Role::StreamStart) {
        rank.streams.push_back({node, model_.nodes[node].lane});
      } else if (roles_[node] == Role::GpuOp) {
        place_[node] = rank.ops.size();
        rank.ops.push_back(link_op(rank, node));
      }
    }
    return std::move(found_);
  }

 private:
  static constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();

  /// Whether `node` has a place on the rank of `other`; saved models may hold any graph.
  [[nodiscard]] bool is_known(NodeId node, NodeId other) const {
    return place_[node] != kNowhere && model_.nodes[node].rank == model_.nodes[other].rank;
  }

  void link_return(RankRoles& rank, NodeId node) {
    for (const NodeId before : model_.graph.predecessors(node)) {
      if (roles_[before] != Role::Call || !is_known(before, node)) continue;
      place_[node] = place_[before];
      rank.calls[place_[before]].end = node;
    }
    if (place_[node] == kNowhere) return;
    for (const NodeId before : model_.graph.predecessors(node)) {
      if (roles_[before] == Role::GpuOp && is_known(before, node)) {
        rank.calls[place_[node]].awaits.push_back(place_[before]);
      }
    }
  }

  OpRole link_op(RankRoles& rank, NodeId node) {
    OpRole op{.node = node, .gap = node};
    std::set<NodeId> met;
    for (const NodeId before : model_.graph.predecessors(node)) {
      if (roles_[before] == Role::Gap) op.gap = before;
      if (roles_[before] == Role::Meeting) met.insert(first_meeting(before));
    }
    op.meetings.assign(met.begin(), met.end());
    for (const NodeId before : model_.graph.predecessors(op.gap)) {
      if (roles_[before] == Role::GpuOp && is_known(before, node)) op.after.push_back(place_[before]);
      if (roles_[before] != Role::Launch) continue;
      const NodeId call = model_.graph.predecessors(before).front();
      if (roles_[call] == Role::GpuOp || !is_known(call, node)) continue;
      rank.calls[place_[call]].launches = true;
      op.launches.push_back({before, place_[call]});
    }
    return op;
  }

  /// A wait for untraced ranks may follow the join of the traced ones.
  [[nodiscard]] NodeId first_meeting(NodeId meeting) const {
    for (const NodeId before : model_.graph.predecessors(meeting)) {
      if (roles_[before] == Role::Meeting) return before;
    }
    return meeting;
  }

  const StepModel& model_;
  IdVector<NodeId, Role> roles_;
  IdVector<NodeId, std::size_t> place_;  // among the calls (of a return: its call's) or ops of its rank
  KernelRoles found_;
};

}  // namespace

bool is_meeting(const StepModel& model, NodeId node) {
  return model.nodes[node].kind == NodeKind::Join ||
         (model.nodes[node].kind == NodeKind::Delay && category(model, node) == Category::Waiting);
}

bool has_lanes(const StepModel& model) {
  bool any = false;
  for (std::size_t i = 0; i < model.nodes.size(); ++i) {
    const Node& node = model.nodes[NodeId(i)];
    if (node.kind != NodeKind::Op) continue;
    if (node.lane < 0) return false;
    any = any || category(model, NodeId(i)) == Category::HostWork;
  }
  return any;
}

KernelRoles find_kernel_roles(const StepModel& model) {
  return Linker(model, Classifier(model).roles()).run();
}

}  // namespace prism
