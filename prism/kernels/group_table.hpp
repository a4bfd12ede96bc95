// SPDX-License-Identifier: Apache-2.0
// The process groups of a set of traces: who communicates with whom.
//
// A file lists only the groups its rank belongs to, so the table is the union over files. Traces before April 2024
// have no names: their groups are told by sequence numbers, and ops with no metadata at all belong to the only group of
// their stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "prism/kernels/communication.hpp"
#include "prism/trace/import_report.hpp"
#include "prism/trace/rank_trace.hpp"

namespace prism {

/// How the traces of a group were found to share it.
enum class GroupIdentity : std::uint8_t {
  Name,          ///< "Process Group Name"
  SequenceRuns,  ///< equal runs of sequence numbers
  Stream,        ///< nothing recorded: the same communication stream, counted in order
};

struct CommGroup {
  GroupIdentity identity = GroupIdentity::Name;
  std::string name;                   ///< as recorded, or made: "sequence 337..420", "stream 24"
  std::string description;            ///< "TENSOR_MODEL_PARALLEL_GROUP"; may be empty
  std::int32_t size = -1;             ///< ranks; -1: unknown
  std::vector<std::int32_t> members;  ///< global ranks, ascending; empty if no file says
  std::vector<std::size_t> traces;    ///< that have ops of the group, ascending
  /// More traces share the name or runs than the group has ranks: which of them belong together is not recorded.
  bool ambiguous = false;
};

struct GroupTable {
  std::vector<CommGroup> groups;
  /// [trace][communication op] index into groups. None: no metadata, and its stream has several groups.
  std::vector<std::vector<std::optional<std::uint32_t>>> of_op;
};

/// Throws InputError, naming two files, when equal names have different members, or a rank issued communication in a
/// group that it does not belong to.
GroupTable build_group_table(std::span<const RankTrace> traces,
                             std::span<const RankCommunication> communication, ImportReport& report);

}  // namespace prism
