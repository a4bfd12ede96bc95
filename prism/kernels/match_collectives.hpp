// SPDX-License-Identifier: Apache-2.0
// Which communication ops of different ranks are one operation, and how the ranks' clocks stand to each other.
//
//   launches = find_launches(trace); comm = find_communication(trace, launches);   // per trace
//   matching = match_collectives(traces, comm, report);
//   split = split_collectives(traces, comm, matching);                             // split_collectives.hpp
//
// An op matched wrongly would corrupt everything after it, so an op is matched only if sizes and times agree; what
// does not is left local and counted, and sets that contradict themselves are refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "prism/kernels/communication.hpp"
#include "prism/kernels/group_table.hpp"
#include "prism/trace/import_report.hpp"
#include "prism/trace/rank_trace.hpp"

namespace prism {

/// One communication op of one trace.
struct CommMember {
  std::size_t trace = 0;
  std::uint32_t op = 0;  ///< index into RankCommunication::ops
  friend auto operator<=>(const CommMember&, const CommMember&) = default;
};

/// How the members of a match were found, best first.
enum class MatchEvidence : std::uint8_t {
  Sequence,       ///< equal sequence numbers or communication ids
  MetadataOrder,  ///< order within the group; all members carry metadata
  KernelOrder,    ///< order; a member has no metadata, so its kernel's name stands for it
};

struct MatchedCollective {
  CollectiveKind kind = CollectiveKind::Unknown;  ///< Send/Recv pairs: SendRecv
  MatchEvidence evidence = MatchEvidence::KernelOrder;
  std::uint32_t group = 0;  ///< index into GroupTable::groups
  std::int64_t bytes = -1;  ///< largest of the members; -1: unknown
  /// Ascending by trace. Of a send/receive pair: the sender, then the receiver. An op that holds several sends and
  /// receives is a member of several pairs; any other op is a member of one match at most.
  std::vector<CommMember> members;
  std::int32_t untraced = 0;  ///< members of the group without a trace here; -1: unknown
};

enum class LocalReason : std::uint8_t {
  Untraced,        ///< no other rank of its group is traced
  PartnerMissing,  ///< before the first or after the last recorded op of some rank
  Odd,             ///< sizes or times contradict the other ranks'
  Ambiguous,       ///< the recordings do not say which one it belongs to
  PeerUnknown,     ///< a send or receive without peer rank in a group of more than two
  GroupUnknown,    ///< no metadata, on a stream of several groups
  Copy,            ///< a copy between devices
};
inline constexpr std::size_t kLocalReasons = 7;

/// Whether the op waited for ranks of which nothing is known, as long as it ran beyond its transfer.
constexpr bool waits_for_untraced(LocalReason reason) {
  return reason == LocalReason::Untraced || reason == LocalReason::PeerUnknown ||
         reason == LocalReason::GroupUnknown;
}

/// "its partner is not in the other traces", ...: for reports.
std::string_view local_reason_text(LocalReason reason);

struct LocalOp {
  CommMember op;
  LocalReason reason = LocalReason::Untraced;
};

/// Clock of a trace relative to that of trace 0 (or of the first trace that it communicates with).
struct TraceClock {
  std::int64_t offset_ns = 0;   ///< to subtract; positive: the clock is ahead
  double drift = 0;             ///< further nanoseconds per nanosecond since origin_ns
  std::int64_t origin_ns = 0;   ///< of the trace's own clock
  std::size_t collectives = 0;  ///< matched barrier-like ones it was estimated from; 0: not estimated
  double spread_ns = 0;         ///< of the ends about the estimate, robust standard deviation

  /// A time of the trace on the common clock.
  [[nodiscard]] std::int64_t aligned(std::int64_t time_ns) const {
    return time_ns - offset_ns - static_cast<std::int64_t>(drift * static_cast<double>(time_ns - origin_ns));
  }
};

struct CollectiveMatching {
  GroupTable groups;
  std::vector<MatchedCollective> matched;  ///< by group, then issue
  std::vector<LocalOp> local;              ///< by trace, op
  std::vector<TraceClock> clocks;          ///< [trace]
  /// [trace][communication op] indices into matched; empty: local
  std::vector<std::vector<std::vector<std::uint32_t>>> matches_of;

  [[nodiscard]] std::size_t count(MatchEvidence evidence) const;
  [[nodiscard]] std::size_t count(LocalReason reason) const;
};

/// `communication` holds find_communication of each trace. Ops left local and clocks moved by more than 100 us (or
/// traces without Unix time) are entries of `report`.
/// Throws InputError, naming two files and times, when the traces are not of one job: two of one rank, equal group
/// names with different members, no common time, or communication that fits at no shift.
CollectiveMatching match_collectives(std::span<const RankTrace> traces,
                                     std::span<const RankCommunication> communication, ImportReport& report);

}  // namespace prism
