// SPDX-License-Identifier: Apache-2.0
#include "prism/plan/plan_graph.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>

namespace prism {

namespace {

using Node = std::int32_t;  // index of a planned node; -1: none
constexpr Node kNone = -1;

bool has_weight_gradients(PassKind kind) {
  return kind == PassKind::Backward || kind == PassKind::BackwardWeight;
}

/// What the passes of a microbatch through a stage are looked up by: forward, backward of inputs, backward of weights.
enum class Way : std::uint8_t { Forward, Back, Weights };
Way way_of(PassKind kind) {
  if (kind == PassKind::Forward) return Way::Forward;
  return kind == PassKind::BackwardWeight ? Way::Weights : Way::Back;
}

/// One pass as laid out, by lane: the ranks of a pipeline rank in order.
struct LaidPass {
  Pass pass;
  std::int32_t rank = 0;                                   // pipeline rank
  std::vector<Node> before;                                // last compute before it
  std::vector<Node> first;                                 // its first compute
  std::vector<Node> output;                                // its result is there
  std::vector<std::pair<Node, std::int32_t>> input_users;  // node, lane
};

class Layout {
 public:
  Layout(const PlanPrograms& programs, const RankLayout& layout, const PlanGraphOptions& options)
      : programs_(programs),
        layout_(layout),
        options_(options),
        lanes_(layout.template_ranks() / programs.schedule.ranks),
        last_(static_cast<std::size_t>(layout.template_ranks()), kNone),
        last_but_one_(last_) {}

  PlanGraph run() {
    for (std::int32_t rank = 0; rank < programs_.schedule.ranks; ++rank) lay_passes(rank);
    connect_passes();
    for (std::int32_t rank = 0; rank < programs_.schedule.ranks; ++rank) lay_step_end(rank);
    return std::move(graph_);
  }

 private:
  /// A program being laid out: for each op and lane the node that ends it; no nodes for an op that is left out.
  struct Running {
    const PassProgram* program = nullptr;
    LaidPass* laid = nullptr;  // null: the end of the step
    Pass pass;
    std::int32_t rank = 0;
    bool first_microbatch = false;
    bool last_microbatch = false;
    std::size_t next = 0;                 // op
    std::vector<std::vector<Node>> ends;  // [op][lane]
    std::vector<bool> started;            // [lane]: has a compute op of the step's end run?
  };

  std::size_t template_rank(std::int32_t rank, std::int32_t lane) const {
    return static_cast<std::size_t>(rank) * static_cast<std::size_t>(lanes_) + static_cast<std::size_t>(lane);
  }

  Node add(const PlannedNode& node) {
    graph_.nodes.push_back(node);
    return static_cast<Node>(graph_.nodes.size()) - 1;
  }
  void connect(Node before, Node after) {
    if (before != kNone && before != after) {
      graph_.edges.emplace_back(static_cast<std::uint32_t>(before), static_cast<std::uint32_t>(after));
    }
  }

  const PassProgram& program_of(const Pass& pass) const {
    const StagePrograms& stage = programs_.stages[static_cast<std::size_t>(pass.stage)];
    switch (pass.kind) {
      case PassKind::Forward:
        return stage.forward;
      case PassKind::Backward:
        return stage.backward;
      case PassKind::BackwardInput:
        return stage.backward_input;
      case PassKind::BackwardWeight:
        break;
    }
    return stage.backward_weight;
  }

  /// Groups of an axis at a pipeline rank, as indices into graph_.groups.
  const std::vector<std::int32_t>& groups(GroupAxis axis, std::int32_t rank) {
    const auto [place, is_new] = groups_at_.try_emplace({axis, rank});
    if (!is_new) return place->second;
    for (TemplateGroup& group : layout_.groups(axis, rank)) {
      if (group.members.size() * group.replicas.size <= 1) continue;
      const auto key = std::tuple(axis, group.members, group.replicas.size, group.replicas.stride);
      const auto [known, unknown] =
          group_index_.try_emplace(key, static_cast<std::int32_t>(graph_.groups.size()));
      if (unknown) graph_.groups.push_back(std::move(group));
      place->second.push_back(known->second);
    }
    return place->second;
  }

  void lay_passes(std::int32_t rank);
  void lay_step_end(std::int32_t rank);
  void lay_op(Running& running);
  void lay_compute(Running& running, std::size_t at);
  void lay_communication(Running& running, std::size_t at);
  bool is_left_out(const Running& running, std::size_t at);
  /// The ops that op `at` waits for, with those that are left out replaced by what they wait for.
  std::vector<int> waits_for(const Running& running, std::size_t at) const;
  /// `node` of `lane` waits for the pass's input.
  void wait_for_input(Running& running, Node node, std::int32_t lane);
  void connect_passes();
  /// The weight gradients of a pass may be taken when its input gradients have been.
  void connect_weights(const LaidPass& from);
  /// Sends the result of a pass, the `position`-th of its rank, to the pass that waits for it.
  void connect_result(const LaidPass& from, std::size_t position);

  const PlanPrograms& programs_;
  const RankLayout& layout_;
  PlanGraphOptions options_;
  std::int32_t lanes_;
  PlanGraph graph_;
  std::vector<Node> last_;          // compute node of each template rank
  std::vector<Node> last_but_one_;  // the one before
  std::map<std::pair<GroupAxis, std::int32_t>, std::vector<std::int32_t>> groups_at_;
  std::map<std::tuple<GroupAxis, std::vector<std::int32_t>, std::uint32_t, std::uint32_t>, std::int32_t>
      group_index_;
  std::map<std::pair<std::int32_t, CollectiveOp>, Node> channel_;  // (group, kind) -> last node
  std::map<std::pair<std::int32_t, std::int32_t>, Node> wire_;     // (from, to) -> last transfer
  std::map<std::tuple<std::int32_t, std::string, std::int32_t>, Node>
      meeting_;                              // ends of steps: (group, op, count)
  std::vector<std::vector<LaidPass>> laid_;  // [pipeline rank][position]
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t, Way>, std::pair<std::size_t, std::size_t>>
      where_;
};

std::vector<int> Layout::waits_for(const Running& running, std::size_t at) const {
  std::vector<int> found;
  std::vector<int> todo(running.program->ops[at].after);
  std::vector<bool> seen(running.program->ops.size(), false);
  while (!todo.empty()) {
    const int op = todo.back();
    todo.pop_back();
    if (op == kPassInput) {
      found.push_back(op);
      continue;
    }
    const auto index = static_cast<std::size_t>(op);
    if (seen[index]) continue;
    seen[index] = true;
    if (!running.ends[index].empty()) {
      found.push_back(op);
    } else {
      const std::vector<int>& further = running.program->ops[index].after;
      todo.insert(todo.end(), further.begin(), further.end());
    }
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

void Layout::wait_for_input(Running& running, Node node, std::int32_t lane) {
  if (running.laid != nullptr) {
    running.laid->input_users.emplace_back(node, lane);
    return;
  }
  // The end of the step: all that the rank has begun.
  const auto rank = static_cast<std::int32_t>(template_rank(running.rank, lane));
  connect(last_[static_cast<std::size_t>(rank)], node);
  for (const auto& [channel, last] : channel_) {
    if (last == kNone) continue;  // nothing has gone over it yet
    const std::vector<std::int32_t>& members = graph_.groups[static_cast<std::size_t>(channel.first)].members;
    if (!graph_.nodes[static_cast<std::size_t>(last)].step_end && std::ranges::binary_search(members, rank)) {
      connect(last, node);
    }
  }
}

bool Layout::is_left_out(const Running& running, std::size_t at) {
  const PassOp& op = running.program->ops[at];
  if (op.when == When::FirstMicrobatch && !running.first_microbatch) return true;
  if (op.when == When::LastMicrobatch && !running.last_microbatch) return true;
  return op.communication && groups(op.communication->axis, running.rank).empty();
}

void Layout::lay_op(Running& running) {
  const std::size_t at = running.next++;
  if (is_left_out(running, at)) return;
  running.ends[at].assign(static_cast<std::size_t>(lanes_), kNone);
  if (running.program->ops[at].communication) {
    lay_communication(running, at);
  } else {
    lay_compute(running, at);
  }
}

void Layout::lay_compute(Running& running, std::size_t at) {
  const PassOp& op = running.program->ops[at];
  const std::vector<int> after = waits_for(running, at);
  for (std::int32_t lane = 0; lane < lanes_; ++lane) {
    const auto l = static_cast<std::size_t>(lane);
    const std::size_t rank = template_rank(running.rank, lane);
    const Node node = add({.kind = PlannedNode::Kind::Compute,
                           .op = &op,
                           .rank = static_cast<std::int32_t>(rank),
                           .pass = running.pass,
                           .step_end = running.laid == nullptr,
                           .occurrence = static_cast<std::int32_t>(at)});
    connect(last_[rank], node);
    for (const int before : after) {
      if (before == kPassInput) {
        wait_for_input(running, node, lane);
      } else if (running.program->ops[static_cast<std::size_t>(before)].communication) {
        connect(running.ends[static_cast<std::size_t>(before)][l], node);
      }  // compute before it: the stream's order
    }
    if (running.laid != nullptr && running.laid->first[l] == kNone) running.laid->first[l] = node;
    if (running.laid == nullptr && !running.started[l] && after.empty()) wait_for_input(running, node, lane);
    if (running.laid == nullptr) running.started[l] = true;
    last_but_one_[rank] = last_[rank];
    last_[rank] = node;
    running.ends[at][l] = node;
  }
}

void Layout::lay_communication(Running& running, std::size_t at) {
  const PassOp& op = running.program->ops[at];
  const std::vector<int> after = waits_for(running, at);
  std::int32_t count = 0;  // of ops of that name and axis before it, at the end of a step
  for (std::size_t i = 0; i < at; ++i) {
    const PassOp& other = running.program->ops[i];
    count +=
        other.communication && other.name == op.name && other.communication->axis == op.communication->axis;
  }
  for (const std::int32_t group : groups(op.communication->axis, running.rank)) {
    const std::vector<std::int32_t>& members = graph_.groups[static_cast<std::size_t>(group)].members;
    const PlannedNode planned{.kind = PlannedNode::Kind::Collective,
                              .op = &op,
                              .rank = members.front(),
                              .group = group,
                              .pass = running.pass,
                              .step_end = running.laid == nullptr,
                              .occurrence = static_cast<std::int32_t>(at)};
    Node node = kNone;
    if (running.laid == nullptr) {  // several pipeline ranks may meet in it
      const auto [place, is_new] = meeting_.try_emplace({group, op.name, count}, kNone);
      if (is_new) place->second = add(planned);
      node = place->second;
    } else {
      node = add(planned);
    }
    Node& channel = channel_.try_emplace({group, op.communication->kind}, kNone).first->second;
    connect(channel, node);
    for (std::int32_t lane = 0; lane < lanes_; ++lane) {
      const auto l = static_cast<std::size_t>(lane);
      const std::size_t rank = template_rank(running.rank, lane);
      if (!std::ranges::binary_search(members, static_cast<std::int32_t>(rank))) continue;
      if (after.empty() && running.laid == nullptr) wait_for_input(running, node, lane);
      // Gathered ahead: not before the last op of the pass before has begun.
      if (after.empty() && running.laid != nullptr) connect(last_but_one_[rank], node);
      for (const int before : after) {
        if (before == kPassInput) {
          wait_for_input(running, node, lane);
        } else {
          connect(running.ends[static_cast<std::size_t>(before)][l], node);
        }
      }
      running.ends[at][l] = node;
    }
    channel = node;
  }
}

void Layout::lay_passes(std::int32_t rank) {
  const std::vector<Pass>& order = programs_.schedule.order[static_cast<std::size_t>(rank)];
  std::vector<LaidPass>& laid = laid_.emplace_back(order.size());
  const auto lanes = static_cast<std::size_t>(lanes_);
  std::map<std::pair<std::int32_t, std::int32_t>, std::pair<std::size_t, std::size_t>>
      ends;  // first F, last gradients
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto key = std::pair(order[i].copy, order[i].stage);
    const auto place = ends.try_emplace(key, order.size(), order.size()).first;
    if (order[i].kind == PassKind::Forward) place->second.first = std::min(place->second.first, i);
    if (has_weight_gradients(order[i].kind)) place->second.second = i;
    where_[{order[i].copy, order[i].stage, order[i].microbatch, way_of(order[i].kind)}] = {
        static_cast<std::size_t>(rank), i};
  }
  const auto begin = [&](std::size_t i) {
    LaidPass& pass = laid[i];
    pass.pass = order[i];
    pass.rank = rank;
    pass.first.assign(lanes, kNone);
    const auto& [first, last] = ends.at({order[i].copy, order[i].stage});
    Running running{.program = &program_of(order[i]), .laid = &pass, .pass = order[i], .rank = rank};
    running.first_microbatch = i == first;
    running.last_microbatch = i == last;
    running.ends.resize(running.program->ops.size());
    for (std::int32_t lane = 0; lane < lanes_; ++lane) {
      const std::size_t r = template_rank(rank, lane);
      pass.before.push_back(last_[r]);
      if (!options_.pauses) continue;
      const Node pause =
          add({.kind = PlannedNode::Kind::Pause, .rank = static_cast<std::int32_t>(r), .pass = order[i]});
      connect(last_[r], pause);
      last_but_one_[r] = last_[r];
      last_[r] = pause;
    }
    return running;
  };
  const auto finish = [&](Running& running) {
    LaidPass& pass = *running.laid;
    const int output = running.program->output;
    std::vector<int> sources{output};
    if (output != kPassInput && running.ends[static_cast<std::size_t>(output)].empty()) {
      sources = waits_for(running, static_cast<std::size_t>(output));
    }
    if (sources.size() == 1 && sources.front() != kPassInput) {
      pass.output = running.ends[static_cast<std::size_t>(sources.front())];
      return;
    }
    for (std::int32_t lane = 0; lane < lanes_; ++lane) {
      const Node join = add({.kind = PlannedNode::Kind::Join,
                             .rank = static_cast<std::int32_t>(template_rank(rank, lane)),
                             .pass = running.pass});
      for (const int source : sources) {
        if (source == kPassInput) {
          wait_for_input(running, join, lane);
        } else {
          connect(running.ends[static_cast<std::size_t>(source)][static_cast<std::size_t>(lane)], join);
        }
      }
      pass.output.push_back(join);
    }
  };
  for (std::size_t i = 0; i < order.size(); ++i) {
    Running one = begin(i);
    if (!order[i].with_next || i + 1 == order.size()) {
      while (one.next < one.program->ops.size()) lay_op(one);
      finish(one);
      continue;
    }
    // Two passes overlap: their ops take turns, so that one computes while the other communicates.
    Running two = begin(++i);
    const std::size_t ops_one = one.program->ops.size();
    const std::size_t ops_two = two.program->ops.size();
    while (one.next < ops_one || two.next < ops_two) {
      const bool first =
          two.next >= ops_two || (one.next < ops_one && one.next * ops_two <= two.next * ops_one);
      lay_op(first ? one : two);
    }
    finish(one);
    finish(two);
  }
}

void Layout::connect_weights(const LaidPass& from) {
  const auto place = where_.find({from.pass.copy, from.pass.stage, from.pass.microbatch, Way::Weights});
  if (place == where_.end()) return;
  for (const auto& [user, lane] : laid_[place->second.first][place->second.second].input_users) {
    connect(from.output[static_cast<std::size_t>(lane)], user);
  }
}

void Layout::connect_result(const LaidPass& from, std::size_t position) {
  const Pass& pass = from.pass;
  if (pass.kind == PassKind::BackwardWeight) return;
  if (pass.kind == PassKind::BackwardInput) connect_weights(from);
  const std::int32_t last_stage = programs_.schedule.stages - 1;
  Way way = way_of(pass.kind);
  std::int32_t stage = pass.stage;
  if (way == Way::Forward) {
    if (stage == last_stage) {
      way = Way::Back;
    } else {
      ++stage;
    }
  } else if (--stage < 0) {
    return;
  }
  const auto place = where_.find({pass.copy, stage, pass.microbatch, way});
  if (place == where_.end()) return;
  const LaidPass& to = laid_[place->second.first][place->second.second];
  const bool local = to.rank == from.rank;
  std::vector<Node> arrived = from.output;
  for (std::int32_t lane = 0; lane < lanes_ && !local; ++lane) {
    const auto l = static_cast<std::size_t>(lane);
    const auto sender = static_cast<std::int32_t>(template_rank(from.rank, lane));
    const auto receiver = static_cast<std::int32_t>(template_rank(to.rank, lane));
    const Node transfer =
        add({.kind = PlannedNode::Kind::Transfer, .rank = sender, .peer = receiver, .pass = pass});
    connect(from.output[l], transfer);
    Node& wire = wire_.try_emplace({sender, receiver}, kNone).first->second;
    connect(wire, transfer);
    wire = transfer;
    if (options_.blocking_transfers) {
      connect(to.before[l], transfer);
      const std::vector<LaidPass>& own = laid_[static_cast<std::size_t>(from.rank)];
      if (position + 1 < own.size()) {
        const Node next = own[position + 1].first[l];
        if (next != kNone) connect(transfer, next);
      }
    }
    arrived[l] = transfer;
  }
  for (const auto& [user, lane] : to.input_users) connect(arrived[static_cast<std::size_t>(lane)], user);
}

void Layout::connect_passes() {
  for (const std::vector<LaidPass>& rank : laid_) {
    for (std::size_t i = 0; i < rank.size(); ++i) {
      connect_result(rank[i], i);
    }
  }
}

void Layout::lay_step_end(std::int32_t rank) {
  Running running{.program = &programs_.step_ends[static_cast<std::size_t>(rank)], .rank = rank};
  running.first_microbatch = true;
  running.last_microbatch = true;
  running.ends.resize(running.program->ops.size());
  running.started.assign(static_cast<std::size_t>(lanes_), false);
  while (running.next < running.program->ops.size()) lay_op(running);
}

}  // namespace

PlanGraph plan_graph(const PlanPrograms& programs, const RankLayout& layout,
                     const PlanGraphOptions& options) {
  return Layout(programs, layout, options).run();
}

}  // namespace prism
