// SPDX-License-Identifier: Apache-2.0
#include "prism/engine/sweep_program.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <string>

#include "prism/trace/error.hpp"

namespace prism {

namespace {

/// One instruction before slots are given.
struct Planned {
  NodeId node;
  Action action = Action::Run;
  std::uint32_t segment = 0;
};

/// Hands out slot numbers, lowest free one last-in first-out, and remembers how many there were.
class SlotPool {
 public:
  std::uint32_t take() {
    if (free_.empty()) return count_++;
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void give_back(std::uint32_t slot) { free_.push_back(slot); }
  [[nodiscard]] std::uint32_t count() const { return count_; }

 private:
  std::vector<std::uint32_t> free_;
  std::uint32_t count_ = 0;
};

/// Number of meetings on the way to each node.
IdVector<NodeId, std::uint32_t> segment_of_nodes(const StepGraph& graph) {
  IdVector<NodeId, std::uint32_t> segment(graph.size(), 0);
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const NodeId node(i);
    for (const NodeId before : graph.predecessors(node)) {
      segment[node] =
          std::max(segment[node], segment[before] + (graph.replica_group(before).spans() ? 1 : 0));
    }
  }
  return segment;
}

std::vector<Planned> plan(const StepGraph& graph) {
  const auto segment = segment_of_nodes(graph);
  std::vector<Planned> planned;
  planned.reserve(graph.size());
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const NodeId node(i);
    if (graph.replica_group(node).spans()) {
      planned.push_back({node, Action::Arrive, segment[node]});
      planned.push_back({node, Action::Depart, segment[node] + 1});
    } else {
      planned.push_back({node, Action::Run, segment[node]});
    }
  }
  std::ranges::stable_sort(planned, {}, &Planned::segment);
  return planned;
}

/// A worker needs 256 bytes per block of lanes; this many are 16 GiB.
constexpr std::uint64_t kMaxBlocks = std::uint64_t{1} << 26;

void check_size(std::uint64_t blocks, const char* what) {
  if (blocks <= kMaxBlocks) return;
  throw InputError({"step graph", {}, {}},
                   std::string("too many ") + what + " for this machine: " + std::to_string(blocks),
                   "fewer replicas, or fewer nodes that span them");
}

}  // namespace

SweepProgram compile_sweep(const StepGraph& graph, std::uint32_t replicas) {
  SweepProgram program;
  const std::vector<Planned> planned = plan(graph);

  // Where each node's finish is made and last read, as positions in `planned`.
  constexpr std::uint32_t kNever = ~0U;
  IdVector<NodeId, std::uint32_t> last_read(graph.size(), kNever);  // position
  IdVector<NodeId, std::uint32_t> meeting_of(graph.size(), 0);
  for (std::uint32_t at = 0; at < planned.size(); ++at) {
    const Planned& p = planned[at];
    if (p.action == Action::Depart) continue;
    for (const NodeId before : graph.predecessors(p.node)) last_read[before] = at;
  }

  SlotPool scratch;
  SlotPool carried;
  IdVector<NodeId, std::uint32_t> slot_of(graph.size(), 0);
  program.segment_begin.push_back(0);
  for (std::uint32_t at = 0; at < planned.size(); ++at) {
    const Planned& p = planned[at];
    while (program.segment_begin.size() <= p.segment) {
      program.segment_begin.push_back(at);
    }
    Instruction in;
    in.action = p.action;
    if (p.action == Action::Arrive) {
      const ReplicaGroup group = graph.replica_group(p.node);
      assert(replicas % (group.size * group.stride) == 0);
      meeting_of[p.node] = static_cast<std::uint32_t>(program.meetings.size());
      program.meetings.push_back(
          {static_cast<std::uint32_t>(program.meeting_blocks), group.size, group.stride});
      program.meeting_blocks += group.count(replicas);
      check_size(program.meeting_blocks, "meetings of replicas");
    }
    in.meeting = meeting_of[p.node];
    if (p.action != Action::Depart) {
      in.first_input = static_cast<std::uint32_t>(program.inputs.size());
      for (const NodeId before : graph.predecessors(p.node)) {
        program.inputs.push_back(slot_of[before]);
        if (last_read[before] != at) continue;
        // Every replica has carried memory of its own, so a slot is free as soon as this instruction has read
        // it.
        if ((slot_of[before] & kCarried) != 0) {
          carried.give_back(slot_of[before] & ~kCarried);
        } else {
          scratch.give_back(slot_of[before]);
        }
      }
      in.input_count = static_cast<std::uint32_t>(program.inputs.size()) - in.first_input;
    }
    if (p.action != Action::Arrive) {
      in.ends_step = last_read[p.node] == kNever;
      const bool carry = !in.ends_step && planned[last_read[p.node]].segment != p.segment;
      in.out = carry ? carried.take() | kCarried : scratch.take();
      slot_of[p.node] = in.out;
      if (in.ends_step) scratch.give_back(in.out);
    }
    program.instructions.push_back(in);
    program.node_of.push_back(p.node);
  }
  program.segment_begin.push_back(static_cast<std::uint32_t>(planned.size()));
  program.scratch_slots = scratch.count();
  program.carried_slots = carried.count();
  check_size(std::uint64_t{program.carried_slots} * replicas, "finish times that cross a meeting");
  return program;
}

}  // namespace prism
