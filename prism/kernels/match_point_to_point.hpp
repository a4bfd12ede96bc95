// SPDX-License-Identifier: Apache-2.0
// Pairs sends with receives: the k-th send of one rank to another in a group is the k-th receive there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "prism/kernels/match_collectives.hpp"

namespace prism {

/// One direction between two ranks of a group.
struct Channel {
  struct Transfer {
    CommMember op;
    std::int64_t elements = -1;  ///< of this transfer; -1: not recorded
  };
  std::vector<Transfer> sends;     ///< of one trace, in order of issue
  std::vector<Transfer> receives;  ///< of another
};

/// (group, source rank, destination rank)
using ChannelKey = std::tuple<std::uint32_t, std::int32_t, std::int32_t>;

struct PointToPoint {
  std::map<ChannelKey, Channel> channels;
  std::vector<CommMember> without_peer;  ///< sends and receives whose other side is not recorded
};

/// Sorts the sends and receives of all traces into channels. A kernel of several coalesced sends and receives is in
/// several.
PointToPoint find_channels(std::span<const RankTrace> traces,
                           std::span<const RankCommunication> communication, const GroupTable& groups);

}  // namespace prism
