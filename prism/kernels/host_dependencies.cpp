// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/host_dependencies.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "prism/kernels/sync_records.hpp"

namespace prism {

namespace {

constexpr std::int64_t kWakeUpNs = 50'000;       // a blocked call returns this soon after what it waited for
constexpr std::int64_t kLongLaunchNs = 100'000;  // a launch this long was blocked
constexpr std::int64_t kQueueRoomNs = 20'000;    // a blocked launch returns this soon after an op started
constexpr std::size_t kDeepQueue = 512;          // ops enqueued but not started; drivers hold about 1,000
constexpr std::size_t kMostCandidates = 64;

class HostRules {
 public:
  HostRules(const RankTrace& trace, const Launches& launches, const StreamOrder& streams,
            const OpSearch& search, RankDependencies& dependencies)
      : trace_(trace),
        streams_(streams),
        search_(search),
        syncs_(trace),
        backlog_(launches.without_launch),
        dependencies_(dependencies) {
    result_.enqueued_at_end.assign(trace.calls.size(), false);
  }

  HostDependencies run() {
    std::vector<std::optional<std::uint32_t>> last_of_thread(trace_.threads.size());  // calls
    std::optional<std::uint32_t> last;                                                // of any thread
    std::size_t enqueued = backlog_;
    for (std::uint32_t c = 0; c < trace_.calls.size(); ++c) {
      const HostCall& here = call(c);
      if (!is_ordered(here.kind)) continue;
      std::optional<std::uint32_t>& before = last_of_thread[here.thread.value];
      if (before) add(leaves(*before), dependencies_.call_begin(c), DependencyKind::Host);
      // A thread that works after another fell silent was woken by it. Calls that overlap run side by side.
      if (last && call(*last).thread != here.thread && call(*last).end_ns() <= here.start_ns) {
        add(leaves(*last), dependencies_.call_begin(c), DependencyKind::Handoff);
      }
      if (here.kind == HostCallKind::Launch) {
        add_blocking_launch(c, enqueued);
        enqueued += search_.ops_of(c).size();
      } else {
        add_sync(c);
      }
      before = last = c;
    }
    return std::move(result_);
  }

 private:
  [[nodiscard]] const GpuOp& op(std::uint32_t index) const { return trace_.gpu_ops[index]; }
  [[nodiscard]] const HostCall& call(std::uint32_t index) const { return trace_.calls[index]; }

  void add(std::uint32_t before, std::uint32_t after, DependencyKind kind) {
    dependencies_.edges.push_back({before, after, kind});
  }

  /// The activity after which the thread goes on.
  [[nodiscard]] std::uint32_t leaves(std::uint32_t c) const {
    return dependencies_.blocks[c] ? dependencies_.call_end(c) : dependencies_.call_begin(c);
  }

  void block(std::uint32_t c, std::uint32_t awaited, DependencyKind kind) {
    if (!dependencies_.blocks[c]) {
      dependencies_.blocks[c] = true;
      add(dependencies_.call_begin(c), dependencies_.call_end(c), DependencyKind::Host);
    }
    add(awaited, dependencies_.call_end(c), kind);
  }

  /// Whether a call that waited for the op would have returned when it did: the op ended while the call ran.
  [[nodiscard]] bool ended_during(std::uint32_t gpu_op, const HostCall& here) const {
    return op(gpu_op).end_ns() > here.start_ns - kClockJitterNs &&
           op(gpu_op).end_ns() <= here.end_ns() + kClockJitterNs;
  }

  void wait_for_stream(std::uint32_t c, std::size_t stream) {
    const auto i = search_.last_launched(stream, call(c).start_ns);
    if (i && ended_during(*i, call(c))) block(c, *i, DependencyKind::HostWait);
  }

  /// The op launched before the call whose end is nearest before the call's end.
  [[nodiscard]] std::optional<std::uint32_t> ended_before_end(const HostCall& here) const {
    const std::size_t found = search_.by_end().up_to(here.end_ns() + kClockJitterNs);
    for (std::size_t tried = 0; tried < std::min(found, kMostCandidates); ++tried) {
      const std::uint32_t i = search_.by_end().ops[found - 1 - tried];
      const auto launched = search_.launch_time(i);
      if (!launched || *launched < here.start_ns) return i;
    }
    return std::nullopt;
  }

  void add_sync(std::uint32_t c) {
    const HostCall& here = call(c);
    const SyncRecord* record = syncs_.with_correlation(here.correlation);
    if (record != nullptr && record->stream) {
      for (std::size_t s = 0; s < streams_.streams.size(); ++s) {
        if (is_stream(streams_.streams[s], record->device, *record->stream)) wait_for_stream(c, s);
      }
    } else if (here.kind == HostCallKind::DeviceSync) {
      for (std::size_t s = 0; s < streams_.streams.size(); ++s) {
        if (record == nullptr || record->device < 0 || record->device == streams_.streams[s].device)
          wait_for_stream(c, s);
      }
    } else if (const auto i = ended_before_end(here); i && ended_during(*i, here)) {
      block(c, *i, DependencyKind::HostWait);
    }
  }

  /// Copies that return when they are done, and launches that found the queue full.
  void add_blocking_launch(std::uint32_t c, std::size_t enqueued) {
    const HostCall& here = call(c);
    const auto ops = search_.ops_of(c);
    if (ops.size() == 1 && op(ops[0]).kind == GpuOpKind::Memcpy) {
      const std::int64_t end = op(ops[0]).end_ns();
      if (end <= here.end_ns() + kClockJitterNs && here.end_ns() - end < kWakeUpNs) {
        block(c, ops[0], DependencyKind::HostWait);
        return;
      }
    }
    if (here.duration_ns < kLongLaunchNs) return;
    const OpsByTime& by_start = search_.by_start();
    if (enqueued < by_start.up_to(here.start_ns) + kDeepQueue) return;
    const std::size_t by_then = by_start.up_to(here.end_ns() + kClockJitterNs);
    if (by_then == 0 || here.end_ns() - by_start.time_ns[by_then - 1] > kQueueRoomNs) return;
    // Room came when that op started, so when the one before it on its stream ended.
    const auto freed = streams_.previous[by_start.ops[by_then - 1]];
    if (!freed || op(*freed).end_ns() > here.end_ns() + kClockJitterNs) return;
    block(c, *freed, DependencyKind::QueueFull);
    const auto runs_later = [&](std::uint32_t i) { return op(i).start_ns >= here.end_ns(); };
    result_.enqueued_at_end[c] = std::ranges::all_of(ops, runs_later);
  }

  const RankTrace& trace_;
  const StreamOrder& streams_;
  const OpSearch& search_;
  SyncRecords syncs_;
  std::size_t backlog_;  // ops enqueued before the trace
  RankDependencies& dependencies_;
  HostDependencies result_;
};

}  // namespace

HostDependencies add_host_dependencies(const RankTrace& trace, const Launches& launches,
                                       const StreamOrder& streams, const OpSearch& search,
                                       RankDependencies& dependencies) {
  return HostRules(trace, launches, streams, search, dependencies).run();
}

}  // namespace prism
