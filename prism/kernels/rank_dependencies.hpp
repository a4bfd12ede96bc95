// SPDX-License-Identifier: Apache-2.0
// What had to happen before what on one rank: its host threads and GPU streams as lanes of activities.
//
//   launch calls of a thread        start ---> start ---> start        host order, with the host's own time
//                                     |                     |
//   GPU ops of a stream               op ------> op ------> op          launch and stream order
//                                                            |
//   a call that blocks              start ------------------end -->     host wait
//
// Recorded dependencies (order, correlation, cuda_sync records) come first. Where the profiler did not record
// which event a stream waited for, edges are inferred and kept only if they agree with the times.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "prism/kernels/communication.hpp"
#include "prism/kernels/launches.hpp"
#include "prism/kernels/stream_order.hpp"
#include "prism/kernels/usual_lags.hpp"
#include "prism/trace/rank_trace.hpp"

namespace prism {

enum class DependencyKind : std::uint8_t {
  Stream,   ///< the op before on the same stream
  Launch,   ///< begin of the call that launched the op
  Host,     ///< the call before on the same thread
  Handoff,  ///< the last call of another thread, which then went silent: autograd's thread and the main thread
  HostWait,      ///< what a blocking call waited for
  QueueFull,     ///< a launch that blocked until the device's queue had room
  RecordedWait,  ///< a stream's wait for an event, from cuda_sync records
  Entry,         ///< inferred: a communication op after the work launched before it was issued
  Exit,  ///< inferred: work after a stream wait that is no part of issuing, after the newest communication
  Residual,  ///< inferred: a late start right after an op on another stream ended
};
inline constexpr std::size_t kDependencyKindCount = 10;

/// "stream order", "launch", ...
std::string_view dependency_name(DependencyKind kind);

/// Whether the kind is a guess from times rather than a record.
constexpr bool is_inferred(DependencyKind kind) {
  return kind == DependencyKind::Entry || kind == DependencyKind::Exit || kind == DependencyKind::Residual ||
         kind == DependencyKind::Handoff || kind == DependencyKind::QueueFull;
}

/// GPU op i is activity i; the begin of call c is gpu_ops + c; the end of a blocking call c is
/// gpu_ops + calls + c.
struct Dependency {
  std::uint32_t before = 0;
  std::uint32_t after = 0;
  DependencyKind kind = DependencyKind::Stream;
};

struct RankDependencies {
  std::uint32_t gpu_ops = 0;
  std::uint32_t calls = 0;
  std::vector<Dependency> edges;  ///< by `after`
  std::vector<bool> blocks;       ///< [call] whether it has an end activity
  std::array<std::size_t, kDependencyKindCount> contradicted =
      {};  ///< inferred edges that times forbid, dropped

  [[nodiscard]] std::uint32_t call_begin(std::uint32_t call) const { return gpu_ops + call; }
  [[nodiscard]] std::uint32_t call_end(std::uint32_t call) const { return gpu_ops + calls + call; }
  [[nodiscard]] bool is_gpu_op(std::uint32_t activity) const { return activity < gpu_ops; }
  /// The call of a host activity.
  [[nodiscard]] std::uint32_t call_of(std::uint32_t activity) const {
    return activity < gpu_ops + calls ? activity - gpu_ops : activity - gpu_ops - calls;
  }
};

/// The arguments are all of one rank and of `trace`. Rules: host_dependencies.hpp, stream_dependencies.hpp.
RankDependencies find_dependencies(const RankTrace& trace, const Launches& launches,
                                   const StreamOrder& streams, const RankCommunication& communication,
                                   const UsualLags& lags);

}  // namespace prism
