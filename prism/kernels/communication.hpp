// SPDX-License-Identifier: Apache-2.0
// The communication ops of one rank: which GPU ops they are, what they move, in which group, when they were issued.
//
// Evidence, best first: metadata on the kernel; its launch inside a record_param_comms of the same thread; its name.
// What the kernel lacks is taken from the host record; a kind that neither knows, from the annotation around the launch
// ("nccl:all_to_all").
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "prism/kernels/communication_names.hpp"
#include "prism/kernels/launches.hpp"
#include "prism/trace/rank_trace.hpp"

namespace prism {

/// How an op is known to be communication, best first.
enum class CommEvidence : std::uint8_t {
  KernelMetadata,    ///< the op carries a CommRecord
  HostRecord,        ///< launched inside a record_param_comms
  CoalescedRecords,  ///< launched after records that own no op: one kernel for all of them
  RecordByOrder,     ///< op and record without correlation, paired by order
  Name,
};

struct CommunicationOp {
  std::uint32_t gpu_op = 0;  ///< index into RankTrace::gpu_ops
  CommEvidence evidence = CommEvidence::Name;
  CollectiveKind kind = CollectiveKind::Unknown;
  NameId collective;              ///< as recorded; empty if not
  NameId dtype;                   ///< as recorded; empty if not
  std::int64_t in_elements = -1;  ///< -1: not recorded; of coalesced records the sum
  std::int64_t out_elements = -1;
  std::int64_t bytes = -1;  ///< the larger of in and out; -1: unknown
  NameId group;             ///< group name; empty if not recorded
  NameId group_description;
  std::int32_t group_size = -1;
  std::optional<std::uint64_t> group_pointer;  ///< stands for the group in old records; differs per rank
  std::int64_t sequence = -1;
  std::optional<std::uint64_t> comms_id;
  std::int32_t source = -1;  ///< global ranks of one send or receive
  std::int32_t destination = -1;
  std::uint32_t kernel = 0;  ///< index into RankCommunication::kernels
  std::optional<std::int64_t>
      issue_ns;  ///< begin of the record, else of the launch; none: enqueued before the trace
  std::optional<ThreadId> thread;  ///< that issued it
  std::vector<CommId> records;  ///< host records; several if coalesced; the kernel's own record is not here
};

struct RankCommunication {
  std::vector<CommunicationOp> ops;                     ///< in order of gpu_op, so by start
  std::vector<std::optional<std::uint32_t>> of_gpu_op;  ///< [GPU op] index into ops
  std::vector<KernelName> kernels;                      ///< distinct names of communication ops
  std::size_t wait_records =
      0;  ///< host records of a wait: named so, or saying nothing and launching nothing
  std::size_t records_without_op = 0;  ///< host records of a communication with no op in the trace
  std::size_t with_metadata = 0;       ///< ops whose own or host record says something
};

/// Says more than that there was communication: traces before 2023 have records without any content.
bool is_informative(const CommunicationOp& op);

/// `launches` are those of `trace`.
RankCommunication find_communication(
    const RankTrace& trace, const Launches& launches,
    const std::vector<CommunicationPattern>& patterns = default_communication_patterns());

}  // namespace prism
