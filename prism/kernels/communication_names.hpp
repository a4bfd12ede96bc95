// SPDX-License-Identifier: Apache-2.0
// What names say about communication: of collectives as frameworks record them, of kernels, of data types.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace prism {

enum class CollectiveKind : std::uint8_t {
  Unknown,  ///< communication, but which is not recorded
  AllReduce,
  AllGather,
  ReduceScatter,
  Broadcast,
  Reduce,
  AllToAll,
  Gather,
  Scatter,
  Barrier,
  Send,
  Recv,
  SendRecv,  ///< several sends and receives in one kernel, or a kernel that says no more
  Copy,      ///< a copy between devices
};

/// "all-reduce", "send/recv", ...
std::string_view collective_kind_name(CollectiveKind kind);

/// Of a recorded collective name: "allreduce", "_allgather_base", "reduce_scatter_tensor_coalesced", "all_to_allv",
/// "batch_isend_irecv". Case, underscores and dashes do not count. Unknown if it is none of these.
CollectiveKind kind_of_collective(std::string_view name);

/// No member can end before all have begun: all-reduce, all-gather, reduce-scatter, all-to-all, barrier.
bool is_barrier_like(CollectiveKind kind);

/// Send, Recv or SendRecv.
bool is_point_to_point(CollectiveKind kind);

/// All members record the same element counts: all-reduce, broadcast, reduce, barrier always; all-gather and
/// reduce-scatter in their one-tensor form, whose names end in "base".
bool has_equal_sizes(CollectiveKind kind, std::string_view collective_name);

/// Bytes of one element of a recorded type ("BFloat16", "Float", "c10::Half", "long int") or of a type in a kernel
/// name ("f16", "int8_t"). None if unknown.
std::optional<int> element_bytes(std::string_view dtype);

/// What the name of a communication kernel says. Absent parts are empty.
struct KernelName {
  std::string
      base;  ///< without return type, template arguments and parameters: "ncclDevKernel_AllGather_RING_LL"
  CollectiveKind kind = CollectiveKind::Unknown;
  std::string algorithm;  ///< "RING", "TREE", "NVLS", "COLLNET_DIRECT", ...
  std::string protocol;   ///< "LL", "LL128", "SIMPLE"
  std::string dtype;      ///< "bf16", "f32"
};

/// For the names of NCCL and RCCL kernels, old and new; of others only the base, and the kind if a known collective's
/// name stands in it.
KernelName parse_kernel_name(std::string_view name);

/// A GPU op whose name matches is communication.
struct CommunicationPattern {
  std::string glob;     ///< in lower case; `*` is any text; the whole name must match, whatever its case
  CollectiveKind kind;  ///< if not Unknown: of every op that matches
};

/// The list of prism: NCCL, RCCL, DeepEP, custom all-reduce of inference engines, NVSHMEM, MSCCL++, oneCCL, HCCL,
/// peer copies.
const std::vector<CommunicationPattern>& default_communication_patterns();

/// One pattern per line, optionally followed by white space, "=" and a kind as in collective names; empty lines and
/// lines that begin with '#' are skipped. Throws InputError naming `file` and line for an unknown kind.
std::vector<CommunicationPattern> parse_communication_patterns(std::string_view text,
                                                               const std::string& file);

/// The first pattern that matches `name`, or nullptr.
const CommunicationPattern* find_pattern(const std::vector<CommunicationPattern>& patterns,
                                         std::string_view name);

}  // namespace prism
