// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/match_point_to_point.hpp"

#include <algorithm>

namespace prism {

namespace {

class Sorter {
 public:
  Sorter(std::span<const RankTrace> traces, std::span<const RankCommunication> communication,
         const GroupTable& groups)
      : traces_(traces), communication_(communication), groups_(groups) {}

  PointToPoint sort() {
    for (std::size_t t = 0; t < traces_.size(); ++t) {
      const std::vector<CommunicationOp>& ops = communication_[t].ops;
      std::vector<std::uint32_t> order;
      for (std::uint32_t i = 0; i < ops.size(); ++i) {
        if (is_point_to_point(ops[i].kind) && is_informative(ops[i]) && groups_.of_op[t][i])
          order.push_back(i);
      }
      std::ranges::stable_sort(order, {},
                               [&](std::uint32_t i) { return ops[i].issue_ns.value_or(INT64_MIN); });
      for (const std::uint32_t i : order) place(t, i);
    }
    return std::move(sorted_);
  }

 private:
  void place(std::size_t t, std::uint32_t i) {
    const CommunicationOp& op = communication_[t].ops[i];
    const CommMember member{t, i};
    bool placed = false;
    if (op.records.size() > 1) {
      for (const CommId id : op.records) {
        const CommRecord& part = traces_[t].comms[id.value];
        const CollectiveKind kind = kind_of_collective(traces_[t].name(part.collective));
        const std::int64_t elements = std::max(part.in_elements, part.out_elements);
        placed = place(member, kind, part.source, part.destination, elements) || placed;
      }
    } else {
      placed = place(member, op.kind, op.source, op.destination, std::max(op.in_elements, op.out_elements));
    }
    if (!placed) sorted_.without_peer.push_back(member);
  }

  bool place(CommMember member, CollectiveKind kind, std::int32_t source, std::int32_t destination,
             std::int64_t elements) {
    const std::uint32_t group = *groups_.of_op[member.trace][member.op];
    const std::optional<int> own = traces_[member.trace].rank;
    if (!own || (kind != CollectiveKind::Send && kind != CollectiveKind::Recv)) return false;
    const bool sends = kind == CollectiveKind::Send;
    std::int32_t peer = sends ? destination : source;
    if (peer < 0) peer = other_of_two(groups_.groups[group], *own);
    if (peer < 0 || peer == *own) return false;
    Channel& channel =
        sorted_.channels[sends ? ChannelKey(group, *own, peer) : ChannelKey(group, peer, *own)];
    (sends ? channel.sends : channel.receives).push_back({member, elements});
    return true;
  }

  static std::int32_t other_of_two(const CommGroup& group, std::int32_t own) {
    if (group.members.size() != 2) return -1;
    return group.members[0] == own ? group.members[1] : group.members[0];
  }

  std::span<const RankTrace> traces_;
  std::span<const RankCommunication> communication_;
  const GroupTable& groups_;
  PointToPoint sorted_;
};

}  // namespace

PointToPoint find_channels(std::span<const RankTrace> traces,
                           std::span<const RankCommunication> communication, const GroupTable& groups) {
  return Sorter(traces, communication, groups).sort();
}

}  // namespace prism
