// SPDX-License-Identifier: Apache-2.0
#include "prism/model/build_step_model.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "prism/model/op_graph.hpp"
#include "prism/model/posting_edges.hpp"
#include "prism/model/split_times.hpp"
#include "prism/stats/random.hpp"

namespace prism {

namespace {

std::uint64_t stable_id(NodeKind kind, const TemplateOp& op) {
  std::uint64_t id = mix_id(0x507269736d, static_cast<std::uint64_t>(kind));
  id = mix_id(id, static_cast<std::uint64_t>(op.stage));
  id = mix_id(id, static_cast<std::uint64_t>(op.type));
  return mix_id(id, static_cast<std::uint64_t>(op.seq));
}

bool all_zero(const CellValues& values) {
  return std::ranges::all_of(values, [](double v) { return v == 0; });
}

std::string pool_key(OpType type, int stage) {
  return std::string(op_type_name(type)) + " stage " + std::to_string(stage);
}

/// Turns ops, groups and split times into nodes, edges and pools.
class Assembler {
 public:
  Assembler(const RecordedJob& job, const OpGraph& graph, const SplitTimes& split)
      : job_(job), graph_(graph), split_(split), everyone_{static_cast<std::uint32_t>(job.replicas()), 1} {}

  void fill(StepModel& model) {
    model.replicas = everyone_.size;
    model.template_ranks = static_cast<std::uint32_t>(job_.stages());
    add_compute_classes(model.pools);
    op_node_ = IdVector<OpId, std::uint32_t>(job_.ops.size());
    entry_ = IdVector<OpId, std::uint32_t>(job_.ops.size());
    for (std::size_t i = 0; i < job_.ops.size(); ++i) {
      if (!graph_.group_of[OpId(i)]) add_local_op(OpId(i), model.pools);
    }
    for (const OpGroup& group : graph_.groups) add_group(group, model.pools);
    for (std::size_t i = 0; i < job_.ops.size(); ++i) {
      for (const OpId before : graph_.depends_on[OpId(i)])
        builder_.add_edge(op_node_[before], entry_[OpId(i)]);
    }
    auto built = builder_.build(job_.source, [&](std::uint32_t node) { return nodes_[node].name; });
    model.graph = std::move(built.graph);
    model.nodes = IdVector<NodeId, Node>(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) model.nodes[built.node_of[i]] = std::move(nodes_[i]);
  }

 private:
  const TemplateOp& info(OpId op) const { return job_.ops[op]; }

  /// [step * D + replica] -> [replica][step].
  std::vector<double> by_replica(const CellValues& cells) const {
    std::vector<double> values(cells.size());
    for (std::size_t k = 0; k < job_.step_count(); ++k) {
      for (std::size_t d = 0; d < job_.replicas(); ++d) {
        values[d * job_.step_count() + k] = cells[k * job_.replicas() + d];
      }
    }
    return values;
  }

  /// One class per (type, stage, chunk), its members ordered by microbatch where all are known and different.
  void add_compute_classes(DurationPools& pools) {
    std::map<std::tuple<OpType, int, int>, std::vector<OpId>> classes;
    for (std::size_t i = 0; i < job_.ops.size(); ++i) {
      const TemplateOp& op = info(OpId(i));
      if (is_compute(op.type)) classes[{op.type, op.stage, op.chunk}].push_back(OpId(i));
    }
    for (auto& [key, members] : classes) {
      std::ranges::sort(members, {}, [&](OpId op) { return info(op).microbatch; });
      bool exchangeable = true;
      for (std::size_t m = 0; m < members.size(); ++m) {
        exchangeable = exchangeable && info(members[m]).microbatch == static_cast<int>(m);
      }
      if (!exchangeable) std::ranges::sort(members, {}, [&](OpId op) { return info(op).seq; });
      const auto [type, stage, chunk] = key;
      std::vector<double> values;
      values.reserve(members.size() * job_.step_count() * job_.replicas());
      for (std::size_t d = 0; d < job_.replicas(); ++d) {
        for (std::size_t k = 0; k < job_.step_count(); ++k) {
          for (const OpId op : members) values.push_back(split_.work_ns[op][k * job_.replicas() + d]);
        }
      }
      DurationClass description{
          .key = pool_key(type, stage) + (chunk > 0 ? " chunk " + std::to_string(chunk) : ""),
          .category = Category::Compute,
          .rank = stage,
          .members = static_cast<std::uint32_t>(members.size()),
          .exchangeable = exchangeable};
      const ClassId id = pools.add(std::move(description), values, job_.replicas());
      for (std::size_t m = 0; m < members.size(); ++m) {
        class_of_[members[m]] = {id, static_cast<std::uint32_t>(m)};
      }
    }
  }

  std::uint32_t add_node(Node node, ReplicaGroup group = {}) {
    nodes_.push_back(std::move(node));
    return builder_.add_node(group);
  }

  Node op_node(OpId op, NodeKind kind, const std::string& prefix) const {
    const std::uint64_t id = stable_id(kind, info(op));
    return {.kind = kind,
            .name = prefix + op_text(info(op)),
            .rank = info(op).stage,
            .stage = info(op).stage,
            .microbatch = info(op).microbatch,
            .id = id,
            .draw_id = id};
  }

  std::uint32_t add_delay(OpId op, const CellValues& cells, ReplicaGroup group, DurationPools& pools) {
    Node node = op_node(op, NodeKind::Delay, "launch of ");
    node.duration_class = pools.add({.key = "launch of " + pool_key(info(op).type, info(op).stage),
                                     .category = Category::LaunchDelay,
                                     .rank = info(op).stage},
                                    by_replica(cells), job_.replicas());
    return add_node(std::move(node), group);
  }

  void add_local_op(OpId op, DurationPools& pools) {
    Node node = op_node(op, NodeKind::Op, "");
    if (const auto known = class_of_.find(op); known != class_of_.end()) {
      std::tie(node.duration_class, node.member) = known->second;
    } else {
      node.duration_class = pools.add({.key = pool_key(info(op).type, info(op).stage),
                                       .category = Category::Local,
                                       .rank = info(op).stage},
                                      by_replica(split_.work_ns[op]), job_.replicas());
    }
    const bool barrier = split_.barrier[op] != 0;
    const ReplicaGroup group = barrier ? everyone_ : ReplicaGroup{};
    const CellValues& delay = split_.delay_before_ns[op];
    if (delay.empty() || all_zero(delay)) {
      node.over_replicas = barrier;
      op_node_[op] = entry_[op] = add_node(std::move(node), group);
      return;
    }
    entry_[op] = add_delay(op, delay, group, pools);
    nodes_[entry_[op]].over_replicas = barrier;
    op_node_[op] = add_node(std::move(node));
    builder_.add_edge(entry_[op], op_node_[op]);
  }

  /// Members meet in the delay after the group, or in a join, or in the only member itself.
  void add_group(const OpGroup& group, DurationPools& pools) {
    const OpId first = group.members.front();
    const GroupId id = *graph_.group_of[first];
    const ReplicaGroup span = group.spans_replicas ? everyone_ : ReplicaGroup{};
    const CellValues& after = split_.delay_after_ns[id];
    std::optional<std::uint32_t> meeting;
    if (!after.empty() && !all_zero(after)) {
      meeting = add_delay(first, after, span, pools);
      nodes_[*meeting].draw_group = span;
    } else if (group.members.size() > 1) {
      meeting = add_node(op_node(first, NodeKind::Join, "join of "), span);
    }
    if (meeting) nodes_[*meeting].over_replicas = group.spans_replicas;
    for (const OpId op : group.members) {
      Node node = op_node(op, NodeKind::Op, "");
      node.draw_id = stable_id(NodeKind::Join, info(first));
      node.draw_group = span;
      node.over_replicas = group.spans_replicas;
      const bool pair = is_send(info(op).type) || is_recv(info(op).type);
      node.duration_class = pools.add({.key = pool_key(info(op).type, info(op).stage),
                                       .category = pair ? Category::PointToPoint : Category::Collective,
                                       .rank = info(op).stage},
                                      by_replica(split_.work_ns[op]), job_.replicas());
      op_node_[op] = add_node(std::move(node), meeting ? ReplicaGroup{} : span);
      if (meeting) builder_.add_edge(*meeting, op_node_[op]);
      entry_[op] = meeting.value_or(op_node_[op]);
      const CellValues& before = split_.delay_before_ns[op];
      if (before.empty() || all_zero(before)) continue;
      const std::uint32_t delay = add_delay(op, before, {}, pools);
      builder_.add_edge(delay, entry_[op]);
      entry_[op] = delay;
    }
  }

  const RecordedJob& job_;
  const OpGraph& graph_;
  const SplitTimes& split_;
  ReplicaGroup everyone_;
  StepGraphBuilder builder_;
  std::vector<Node> nodes_;                // by builder id
  IdVector<OpId, std::uint32_t> op_node_;  // the node whose finish is the op's end
  IdVector<OpId, std::uint32_t> entry_;    // the node that waits for the op's dependencies
  std::map<OpId, std::pair<ClassId, std::uint32_t>> class_of_;  // of compute ops
};

}  // namespace

StepModel build_step_model(std::shared_ptr<const RecordedJob> job, LaunchDelays delays, ImportReport report) {
  StepModel model;
  OpGraph graph = build_op_graph(*job, report);
  const bool infers = delays == LaunchDelays::Clean || delays == LaunchDelays::None;
  if (infers) model.inferences = add_posting_edges(*job, graph);
  SplitTimes split = split_times(*job, graph, delays, report);
  model.inferences.insert(model.inferences.end(), split.inferences.begin(), split.inferences.end());
  Assembler(*job, graph, split).fill(model);
  model.source = job->source;
  model.delays = delays;
  model.mesh = job->mesh;
  model.steps = job->steps;
  model.observed_ns = job->step_times_ns();
  model.report = std::move(report);
  model.recording = std::move(job);
  return model;
}

}  // namespace prism
