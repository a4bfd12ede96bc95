// SPDX-License-Identifier: Apache-2.0
// Waiting and transfer of communication told apart. A communication kernel runs from the moment its own rank is ready,
// so most of its duration is waiting for the others; only the transfer is a property of the network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "prism/kernels/match_collectives.hpp"
#include "prism/model/mesh.hpp"

namespace prism {

/// Where the split of an op comes from.
enum class SplitBasis : std::uint8_t {
  Members,   ///< the starts of all its members
  Shortest,  ///< members are not traced: the shortest op of its pool counts as transfer, the rest as waiting
  Whole,     ///< a local op: all of it counts as transfer
};

struct OpSplit {
  SplitBasis basis = SplitBasis::Whole;
  std::int64_t wait_ns = 0;      ///< from its start until the last member that held it up had begun
  std::int64_t transfer_ns = 0;  ///< the rest; wait and transfer add up to the duration
  std::int64_t exit_skew_ns =
      0;  ///< its end minus the latest end of its match, on the common clock: not positive
};

struct MatchSplit {
  std::int64_t ready_ns = 0;  ///< latest start of a member, on the common clock
  std::int64_t transfer_ns =
      0;  ///< estimate: median over members of the time since then; what belongs in a pool
  std::int64_t shortest_ns = 0;      ///< shortest duration of a member: an estimate that needs no clocks
  std::size_t last_arriver = 0;      ///< index into members
  std::int64_t start_spread_ns = 0;  ///< between first and last start
  std::int64_t end_spread_ns = 0;
};

struct CollectiveSplit {
  std::vector<std::vector<OpSplit>> ops;  ///< [trace][communication op]
  std::vector<MatchSplit> matches;        ///< beside CollectiveMatching::matched
};

/// Members that leave early (the root of a broadcast, a sender) wait only for those that had begun by then, so the
/// same rule serves collectives and pairs. How many ops got SplitBasis::Shortest is an entry of `report`.
CollectiveSplit split_collectives(std::span<const RankTrace> traces,
                                  std::span<const RankCommunication> communication,
                                  const CollectiveMatching& matching, ImportReport& report);

/// Are the ranks of a group on one machine?
enum class GroupPlacement : std::uint8_t { Unknown, IntraHost, InterHost };

/// From the hosts of the group's traced members: inter-host if two differ, intra-host if all are traced and equal.
GroupPlacement placement_of(std::span<const RankTrace> traces, const CommGroup& group);

/// Text that is equal for communication whose transfers follow one law: kind, ranks, placement, bytes, algorithm, as
/// "all-reduce, 8 ranks, intra-host, 16777216 bytes, RING LL". Unknown parts read "?".
std::string communication_pool_key(CollectiveKind kind, std::int32_t group_size, GroupPlacement placement,
                                   std::int64_t bytes, const KernelName& kernel);

/// The parts of such a text.
struct CommunicationPool {
  CollectiveKind kind = CollectiveKind::Unknown;
  std::int32_t group_size = -1;  ///< -1: unknown
  std::int64_t bytes = -1;       ///< -1: unknown
  std::string kernel;            ///< algorithm and protocol, "RING LL"; empty if unknown
};

/// What communication_pool_key made the text from, with or without an axis before and a pair of stages or ranks behind;
/// nothing for other texts.
std::optional<CommunicationPool> parse_communication_pool_key(std::string_view key);

}  // namespace prism
