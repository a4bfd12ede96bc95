// SPDX-License-Identifier: Apache-2.0
// A profiler trace of one rank as read: GPU work, the host calls that start or await it, operators,
// annotations, and what the file says about the job.
//
// Readers of profiler formats (prism/ingest) fill it, the model reads it, and neither knows the other. Events
// are sorted by start (ties: file order). Times are Unix nanoseconds if `absolute_time`, else relative to an
// unknown instant of the rank. Names are interned: equal names have equal ids within one trace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "prism/trace/ids.hpp"

namespace prism {

using NameId = Id<struct NameTag>;      ///< index into RankTrace::names; 0 is the empty name
using ThreadId = Id<struct ThreadTag>;  ///< index into RankTrace::threads
using CommId = Id<struct CommTag>;      ///< index into RankTrace::comms

enum class GpuOpKind : std::uint8_t { Kernel, Memcpy, Memset };

/// What the profiler recorded about one communication: on the kernel itself or on the host record of its
/// issue. Absent numbers are -1, absent names empty.
struct CommRecord {
  NameId collective;              ///< "Collective name" as written: "allreduce", "_allgather_base", "wait"
  NameId dtype;                   ///< "Float", "BFloat16"
  NameId group;                   ///< "Process Group Name"; names are strings: numbers or hashes
  NameId group_description;       ///< "default_pg", "TENSOR_MODEL_PARALLEL_GROUP"
  std::int64_t in_elements = -1;  ///< "In msg nelems"
  std::int64_t out_elements = -1;
  std::int32_t group_size = -1;
  std::int32_t source = -1;  ///< global ranks of a send or receive
  std::int32_t destination = -1;
  std::int64_t sequence = -1;                  ///< "Seq", or the positional sequence number of old records
  std::optional<std::uint64_t> comms_id;       ///< "Comms Id"
  std::optional<std::uint64_t> group_pointer;  ///< of old records; differs per rank
  std::vector<std::int32_t> members;           ///< "Process Group Ranks"; empty if absent or cut
  friend bool operator==(const CommRecord&, const CommRecord&) = default;
};

/// One kernel, copy or fill on a GPU.
struct GpuOp {
  std::int64_t start_ns = 0;
  std::int64_t duration_ns = 0;
  std::uint64_t stream = 0;
  std::int64_t correlation = 0;  ///< links to the host call that launched it; 0: none
  std::int64_t bytes = -1;       ///< of copies and fills; -1: unknown
  std::int32_t device = -1;
  NameId name;
  std::optional<CommId> comm;
  std::uint32_t graph = 0;  ///< CUDA graph the op was launched by; 0: none
  GpuOpKind kind = GpuOpKind::Kernel;
  [[nodiscard]] std::int64_t end_ns() const { return start_ns + duration_ns; }
};

/// What a host call means to the dependency rules; told from the name.
enum class HostCallKind : std::uint8_t {
  Launch,  ///< shares a correlation with GPU ops, whatever its name; of several such calls one has the ops
  StreamSync,  ///< blocks until a stream is empty
  DeviceSync,
  EventSync,
  EventRecord,
  StreamWait,  ///< makes a stream wait for an event; the host goes on
  EventQuery,
};

/// Whether the order of such calls on their thread matters to the GPU: launches and calls that block.
constexpr bool is_ordered(HostCallKind kind) {
  return kind == HostCallKind::Launch || kind == HostCallKind::StreamSync ||
         kind == HostCallKind::DeviceSync || kind == HostCallKind::EventSync;
}

struct HostCall {
  std::int64_t start_ns = 0;
  std::int64_t duration_ns = 0;
  std::int64_t correlation = 0;
  ThreadId thread;
  NameId name;
  HostCallKind kind = HostCallKind::Launch;
  [[nodiscard]] std::int64_t end_ns() const { return start_ns + duration_ns; }
};

/// A recorded synchronisation (category cuda_sync) or event record (cuda_event), present only when the
/// profiler was asked for it.
struct SyncRecord {
  enum class Kind : std::uint8_t { StreamSync, EventSync, ContextSync, StreamWait, EventRecord };
  std::int64_t start_ns = 0;
  std::int64_t duration_ns = 0;
  std::int64_t correlation = 0;
  std::int64_t event_correlation = -1;          ///< of the cudaEventRecord waited for; -1: not recorded
  std::optional<std::uint64_t> stream;          ///< waiting, awaited or recorded on; none: all or unknown
  std::optional<std::uint64_t> awaited_stream;  ///< "wait_on_stream"
  std::int32_t device = -1;
  Kind kind = Kind::StreamSync;
};

/// An operator on a host thread. `record_param_comms` carry `comm`.
struct CpuOp {
  std::int64_t start_ns = 0;
  std::int64_t duration_ns = 0;
  ThreadId thread;
  NameId name;
  std::optional<CommId> comm;
  [[nodiscard]] std::int64_t end_ns() const { return start_ns + duration_ns; }
};

/// A range that the user or the framework named ("ProfilerStep#3", "Optimizer.step#Adam.step").
struct Annotation {
  std::int64_t start_ns = 0;
  std::int64_t duration_ns = 0;
  ThreadId thread;
  NameId name;
  [[nodiscard]] std::int64_t end_ns() const { return start_ns + duration_ns; }
};

/// A process group as `distributedInfo.pg_config` lists it.
struct ProcessGroup {
  std::string name;
  std::string description;
  std::int32_t size = -1;
  std::vector<std::int32_t> members;  ///< empty if the file does not say
  friend bool operator==(const ProcessGroup&, const ProcessGroup&) = default;
};

/// Counts of the file itself, for reports: everything that was read, kept or not.
struct TraceCounts {
  std::uint64_t bytes = 0;            ///< of JSON
  std::uint64_t events = 0;           ///< objects in the event array that could be read
  std::uint64_t complete_events = 0;  ///< of those, ph X
  std::uint64_t cpu_ops = 0;
  std::uint64_t python_functions = 0;
  std::uint64_t gpu_ops = 0;            ///< kernels, copies and fills, kept or not
  std::uint64_t gpu_ops_set_aside = 0;  ///< of those, with a time that cannot be used
};

struct RankTrace {
  std::string source;        ///< file
  std::uint64_t digest = 0;  ///< of the JSON bytes
  std::optional<int> rank;
  std::optional<int> world_size;
  std::string backend;
  std::string gpu_name;  ///< of device properties; empty if not recorded
  std::string host;      ///< empty if not recorded
  std::string
      common_clock;  ///< ranks with equal names here read one clock, as simulated ones do; empty: not known
  std::vector<ProcessGroup> groups;
  std::optional<std::int64_t> base_time_ns;  ///< already added to all times
  bool absolute_time = false;
  std::vector<std::string> names;    ///< names[0] is ""
  std::vector<std::string> threads;  ///< "pid/tid" as text
  std::vector<CommRecord> comms;
  std::vector<GpuOp> gpu_ops;
  std::vector<HostCall> calls;
  std::vector<SyncRecord> syncs;
  std::vector<CpuOp> cpu_ops;
  std::vector<Annotation> annotations;
  bool complete = true;  ///< false if the file ends early
  TraceCounts counts;

  [[nodiscard]] const std::string& name(NameId id) const { return names[id.value]; }
};

}  // namespace prism
