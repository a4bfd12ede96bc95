// SPDX-License-Identifier: Apache-2.0
#include "prism/analysis/kernel_communication.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace prism {

namespace {

/// As Megatron names the groups of an axis, and parallel_layout.hpp reads them.
const char* description_of(Axis axis) {
  switch (axis) {
    case Axis::Tp:
      return "TENSOR_MODEL_PARALLEL_GROUP";
    case Axis::Cp:
      return "CONTEXT_PARALLEL_GROUP";
    case Axis::Ep:
      return "EXPERT_MODEL_PARALLEL_GROUP";
    case Axis::Dp:
      return "DATA_PARALLEL_GROUP";
    case Axis::Pp:
      break;
  }
  return "PIPELINE_MODEL_PARALLEL_GROUP";
}

/// The replicas that meet in a node or in the wait for untraced ranks behind it.
ReplicaGroup group_of_meeting(const StepModel& model, NodeId meeting, NodeId transfer) {
  const ReplicaGroup own = model.graph.replica_group(meeting);
  if (own.spans()) return own;
  for (const NodeId before : model.graph.predecessors(transfer)) {
    const auto through = model.graph.predecessors(before);
    if (is_meeting(model, before) && std::ranges::count(through, meeting) > 0)
      return model.graph.replica_group(before);
  }
  return own;
}

bool waits_for_untraced(const StepModel& model, NodeId meeting, NodeId transfer) {
  const auto is_wait = [&](NodeId node) {
    return is_meeting(model, node) && model.nodes[node].kind != NodeKind::Join;
  };
  if (is_wait(meeting)) return true;
  return std::ranges::any_of(model.graph.predecessors(transfer), [&](NodeId before) {
    return is_wait(before) && std::ranges::count(model.graph.predecessors(before), meeting) > 0;
  });
}

}  // namespace

KernelCommunications::KernelCommunications(const StepModel& model, const KernelRoles& roles) : model_(model) {
  number_ranks();
  collect(roles);
  for (KernelCommunication& communication : all_) describe(communication);
}

/// Traced ranks keep their numbers. Replicas of the whole job go along its data-parallel axis.
void KernelCommunications::number_ranks() {
  const std::size_t ranks = std::size_t{model_.replicas} * model_.template_ranks;
  global_ranks_.resize(ranks);
  std::iota(global_ranks_.begin(), global_ranks_.end(), 0);
  if (model_.activity.size() != model_.template_ranks) return;
  const Mesh& mesh = model_.mesh;
  const int first = mesh.coordinate(model_.activity.front().rank, Axis::Dp);
  const bool one_replica = std::ranges::all_of(
      model_.activity, [&](const RankActivity& a) { return mesh.coordinate(a.rank, Axis::Dp) == first; });
  const bool whole = one_replica && mesh.world_size() == static_cast<std::int64_t>(ranks) &&
                     std::cmp_equal(mesh.size(Axis::Dp), model_.replicas);
  if (model_.replicas > 1 && !whole) return;
  for (std::size_t i = 0; i < ranks; ++i) {
    const auto replica = static_cast<std::int64_t>(i / model_.template_ranks);
    const std::int64_t coordinate = (first + replica) % model_.replicas;
    const std::int64_t moved = model_.replicas > 1 ? (coordinate - first) * mesh.stride(Axis::Dp) : 0;
    global_ranks_[i] = static_cast<std::int32_t>(model_.activity[i % model_.template_ranks].rank + moved);
  }
}

std::int32_t KernelCommunications::world_size() const {
  const std::int64_t highest = *std::ranges::max_element(global_ranks_);
  return static_cast<std::int32_t>(
      std::max({highest + 1, model_.mesh.world_size(), std::int64_t{model_.world_ranks}}));
}

std::int32_t KernelCommunications::rank_of(KernelCommunication::Member member) const {
  return global_ranks_[std::size_t{member.replica} * model_.template_ranks +
                       static_cast<std::size_t>(model_.nodes[member.node].rank)];
}

CommunicationPool KernelCommunications::pool_of(NodeId transfer) const {
  return parse_communication_pool_key(model_.pools.classes[model_.nodes[transfer].duration_class].key)
      .value_or(CommunicationPool{});
}

void KernelCommunications::collect(const KernelRoles& roles) {
  std::map<std::pair<NodeId, std::uint32_t>, std::size_t>
      known;  // (meeting or lone transfer, group of replicas)
  std::vector<NodeId> transfers;
  std::map<NodeId, std::vector<NodeId>> meetings;
  for (const RankRoles& rank : roles.ranks) {
    for (const OpRole& op : rank.ops) {
      const Category category = model_.pools.classes[model_.nodes[op.node].duration_class].category;
      if (category == Category::Compute || pool_of(op.node).kind == CollectiveKind::Copy) continue;
      transfers.push_back(op.node);
      meetings[op.node] = op.meetings.empty() ? std::vector{op.node} : op.meetings;
    }
  }
  std::ranges::sort(transfers);  // in the order of the graph: what is issued first has the lower number
  for (const NodeId transfer : transfers) {
    for (const NodeId meeting : meetings[transfer]) {
      const ReplicaGroup group = group_of_meeting(model_, meeting, transfer);
      untraced_[meeting] =
          untraced_[meeting] || meeting == transfer || waits_for_untraced(model_, meeting, transfer);
      for (std::uint32_t d = 0; d < model_.replicas; ++d) {
        const auto [found, is_new] = known.try_emplace({meeting, group.index_of(d)}, all_.size());
        if (is_new) {
          all_.emplace_back();
          meeting_of_.push_back(meeting);
        }
        all_[found->second].members.push_back({transfer, d});
        of_[{transfer, d}].push_back(found->second);
      }
    }
  }
}

void KernelCommunications::describe(KernelCommunication& communication) {
  std::ranges::sort(communication.members);
  const NodeId meeting = meeting_of_[static_cast<std::size_t>(&communication - all_.data())];
  std::vector<std::int32_t> ranks;
  std::size_t transfers_of_pairs = 0;
  std::int32_t size = -1;
  for (const KernelCommunication::Member& member : communication.members) {
    ranks.push_back(rank_of(member));
    const CommunicationPool pool = pool_of(member.node);
    size = std::max(size, pool.group_size);
    if (is_point_to_point(pool.kind)) ++transfers_of_pairs;
  }
  std::ranges::sort(ranks);
  communication.pair = ranks.size() == 2 && transfers_of_pairs == 2;
  if (communication.pair) ranks = whole_axis(std::move(ranks));
  const auto found = static_cast<std::int32_t>(ranks.size());
  const bool whole = !untraced_[meeting];
  // Of a wait for untraced ranks without a known size at least one is missing.
  if (whole) size = found;
  if (!whole && size <= found) size = ranks.size() > 1 ? found + 1 : -1;
  communication.group =
      groups_.add(ranks, description(ranks, size, model_.nodes[meeting].over_replicas), size, whole);
  communication.ordinal = groups_.next_ordinal(communication.group);
}

/// The axis of the mesh that ranks lie on, if they are so many as `size` or that is not known.
std::optional<Axis> KernelCommunications::axis_of(const std::vector<std::int32_t>& ranks,
                                                  std::int32_t size) const {
  constexpr std::array<Axis, kAxisCount> kOrder = {Axis::Dp, Axis::Tp, Axis::Pp, Axis::Cp, Axis::Ep};
  for (const Axis axis : kOrder) {
    if (model_.mesh.size(axis) == 1) continue;
    const std::vector<std::int64_t> along = model_.mesh.group(ranks.front(), axis);
    const auto on_axis = [&](std::int32_t rank) { return std::ranges::count(along, rank) > 0; };
    const bool same_size = size < 0 || std::cmp_equal(along.size(), size);
    if (same_size && std::ranges::all_of(ranks, on_axis)) return axis;
  }
  return std::nullopt;
}

/// Sends and receives use the process group of their axis.
std::vector<std::int32_t> KernelCommunications::whole_axis(std::vector<std::int32_t> pair) const {
  const auto axis = axis_of(pair, -1);
  if (!axis) return pair;
  const std::vector<std::int64_t> along = model_.mesh.group(pair.front(), *axis);
  return {along.begin(), along.end()};
}

std::string KernelCommunications::description(const std::vector<std::int32_t>& ranks, std::int32_t size,
                                              bool over_replicas) const {
  if (const auto axis = axis_of(ranks, size)) return description_of(*axis);
  if (size == world_size()) return "default_pg";
  return over_replicas ? description_of(Axis::Dp) : "";
}

const std::vector<std::size_t>& KernelCommunications::of(KernelCommunication::Member transfer) const {
  static const std::vector<std::size_t> none;
  const auto found = of_.find(transfer);
  return found == of_.end() ? none : found->second;
}

bool KernelCommunications::sends(const KernelCommunication& pair, KernelCommunication::Member member) const {
  const CollectiveKind kind = pool_of(member.node).kind;
  if (kind == CollectiveKind::Send || kind == CollectiveKind::Recv) return kind == CollectiveKind::Send;
  return member == pair.members.front();  // which way is not known
}

}  // namespace prism
