// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/stream_dependencies.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "prism/kernels/sync_records.hpp"

namespace prism {

namespace {

constexpr std::int64_t kLateStartNs = 20'000;  // later than all known dependencies allow
constexpr std::int64_t kNearEndNs = 20'000;    // a residual dependency ends this shortly before
constexpr std::size_t kMostCandidates = 64;
constexpr std::size_t kMostResidual =
    6;  // ops that ended just before a late start; other steps tell which it was

class StreamRules {
 public:
  StreamRules(const RankTrace& trace, const Launches& launches, const StreamOrder& streams,
              const RankCommunication& communication, const UsualLags& lags, const OpSearch& search,
              RankDependencies& dependencies)
      : trace_(trace),
        launches_(launches),
        streams_(streams),
        communication_(communication),
        lags_(lags),
        search_(search),
        dependencies_(dependencies) {}

  void run() {
    if (!add_recorded_waits()) {
      add_entry_edges();
      add_exit_edges();
    }
    add_residual_edges();
  }

 private:
  [[nodiscard]] const GpuOp& op(std::uint32_t index) const { return trace_.gpu_ops[index]; }
  [[nodiscard]] const HostCall& call(std::uint32_t index) const { return trace_.calls[index]; }

  /// An edge between GPU ops, unless the times forbid it.
  void add_if_possible(std::uint32_t before, std::uint32_t after, DependencyKind kind) {
    if (op(before).end_ns() > op(after).start_ns + kClockJitterNs) {
      ++dependencies_.contradicted[static_cast<std::size_t>(kind)];
      return;
    }
    dependencies_.edges.push_back({before, after, kind});
  }

  [[nodiscard]] std::optional<std::size_t> stream_index(std::int32_t device, std::uint64_t stream) const {
    const auto found = std::ranges::find_if(
        streams_.streams, [&](const StreamKey& key) { return is_stream(key, device, stream); });
    if (found == streams_.streams.end()) return std::nullopt;
    return static_cast<std::size_t>(found - streams_.streams.begin());
  }

  /// Edges of cuda_sync's "Stream Wait Event" records. False if the trace has none that says which event.
  bool add_recorded_waits() {
    std::vector<std::pair<std::int64_t, std::uint32_t>> events;  // correlation, call
    for (std::uint32_t c = 0; c < trace_.calls.size(); ++c) {
      const bool of_event =
          call(c).kind == HostCallKind::EventRecord || call(c).kind == HostCallKind::StreamWait;
      if (of_event && call(c).correlation > 0) events.emplace_back(call(c).correlation, c);
    }
    std::ranges::sort(events);
    const auto call_with = [&](std::int64_t correlation) -> const HostCall* {
      const auto found = std::ranges::lower_bound(events, std::pair(correlation, std::uint32_t{0}));
      return found != events.end() && found->first == correlation ? &call(found->second) : nullptr;
    };
    bool any = false;
    for (const SyncRecord& sync : trace_.syncs) {
      if (sync.kind != SyncRecord::Kind::StreamWait) continue;
      const HostCall* wait = call_with(sync.correlation);
      const HostCall* record = call_with(sync.event_correlation);
      if (!sync.stream || !sync.awaited_stream || record == nullptr) continue;
      any = true;
      const auto waiting = stream_index(sync.device, *sync.stream);
      const auto awaited = stream_index(sync.device, *sync.awaited_stream);
      if (!waiting || !awaited) continue;
      const auto after = search_.next_launched(*waiting, wait != nullptr ? wait->start_ns : sync.start_ns);
      const auto before = search_.last_launched(*awaited, record->start_ns);
      if (before && after && *before != *after)
        add_if_possible(*before, *after, DependencyKind::RecordedWait);
    }
    return any;
  }

  void add_entry_edges() {
    for (const CommunicationOp& comm : communication_.ops) {
      if (!comm.issue_ns) continue;
      for (std::size_t s = 0; s < streams_.streams.size(); ++s) {
        if (s == streams_.stream_of[comm.gpu_op] || streams_.streams[s].device != op(comm.gpu_op).device)
          continue;
        const auto before = search_.last_launched(s, *comm.issue_ns);
        if (before) add_if_possible(*before, comm.gpu_op, DependencyKind::Entry);
      }
    }
  }

  /// From the begin of a communication's host record to the end of its launch.
  struct Issue {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };

  /// Waits that are not part of issuing a communication: the next compute op of the thread waits for the newest
  /// communication of its device that had ended by its start.
  void add_exit_edges() {
    std::vector<std::vector<Issue>> issues(trace_.threads.size());
    std::vector<std::pair<std::int64_t, std::uint32_t>> launched;  // communication by launch time
    for (const CommunicationOp& comm : communication_.ops) {
      const auto launch = launches_.call_of[comm.gpu_op];
      if (!launch) continue;
      launched.emplace_back(call(*launch).start_ns, comm.gpu_op);
      const std::int64_t begin = comm.issue_ns.value_or(call(*launch).start_ns);
      issues[call(*launch).thread.value].push_back({begin, call(*launch).end_ns()});
    }
    std::ranges::sort(launched);
    for (auto& of_thread : issues) std::ranges::sort(of_thread, {}, &Issue::begin);
    std::vector<std::vector<std::uint32_t>> launching(trace_.threads.size());  // [thread] calls
    for (std::uint32_t c = 0; c < trace_.calls.size(); ++c) {
      if (!search_.ops_of(c).empty()) launching[call(c).thread.value].push_back(c);
    }
    std::vector<std::optional<std::uint32_t>> last_edge(trace_.gpu_ops.size());
    for (const HostCall& wait : trace_.calls) {
      if (wait.kind != HostCallKind::StreamWait) continue;
      const auto& of_thread = issues[wait.thread.value];
      const auto after_begin = std::ranges::upper_bound(of_thread, wait.start_ns, {}, &Issue::begin);
      if (after_begin != of_thread.begin() && (after_begin - 1)->end >= wait.start_ns) continue;
      const auto dependent = first_compute_after(launching[wait.thread.value], wait.start_ns);
      if (!dependent) continue;
      auto newest = std::ranges::lower_bound(launched, std::pair(wait.start_ns, std::uint32_t{0}));
      for (std::size_t tried = 0; newest != launched.begin() && tried < kMostCandidates; ++tried) {
        --newest;
        const GpuOp& awaited = op(newest->second);
        if (awaited.device != op(*dependent).device || awaited.end_ns() > op(*dependent).start_ns) continue;
        if (last_edge[*dependent] != newest->second) {
          add_if_possible(newest->second, *dependent, DependencyKind::Exit);
          last_edge[*dependent] = newest->second;
        }
        break;
      }
    }
  }

  /// The first op of the next call, from a time on, that does not communicate. `calls` all launch something.
  [[nodiscard]] std::optional<std::uint32_t> first_compute_after(const std::vector<std::uint32_t>& calls,
                                                                 std::int64_t time_ns) const {
    auto next =
        std::ranges::lower_bound(calls, time_ns, {}, [&](std::uint32_t c) { return call(c).start_ns; });
    for (std::size_t tried = 0; next != calls.end() && tried < kMostCandidates; ++next, ++tried) {
      const std::uint32_t i = search_.ops_of(*next).front();
      if (!communication_.of_gpu_op[i]) return i;
    }
    return std::nullopt;
  }

  /// When an op could start at the earliest for all that its launch, a host activity, says.
  [[nodiscard]] double launched(std::uint32_t activity) const {
    const std::uint32_t c = dependencies_.call_of(activity);
    return activity == dependencies_.call_end(c)
               ? static_cast<double>(call(c).end_ns())
               : static_cast<double>(call(c).start_ns) + lags_.launch(call(c).name);
  }

  /// A start that no dependency found so far explains, right after the end of an op elsewhere on the device.
  void add_residual_edges() {
    constexpr double kNothing = std::numeric_limits<double>::lowest();
    std::vector<double> ready(trace_.gpu_ops.size(), kNothing);
    for (const Dependency& edge : dependencies_.edges) {
      if (!dependencies_.is_gpu_op(edge.after)) continue;
      const double free = dependencies_.is_gpu_op(edge.before)
                              ? static_cast<double>(op(edge.before).end_ns()) + lags_.gap_ns
                              : launched(edge.before);
      ready[edge.after] = std::max(ready[edge.after], free);
    }
    const OpsByTime& by_end = search_.by_end();
    for (std::uint32_t i = 0; i < trace_.gpu_ops.size(); ++i) {
      const std::int64_t start = op(i).start_ns;
      if (ready[i] == kNothing || static_cast<double>(start) - ready[i] <= static_cast<double>(kLateStartNs))
        continue;
      const std::size_t found = by_end.up_to(start + kClockJitterNs);
      std::size_t candidates = 0;
      for (std::size_t tried = 0; tried < std::min(found, kMostCandidates); ++tried) {
        const std::uint32_t other = by_end.ops[found - 1 - tried];
        if (op(other).end_ns() < start - kNearEndNs) break;
        if (streams_.stream_of[other] == streams_.stream_of[i] || op(other).device != op(i).device) continue;
        if (search_.launch_time(other).value_or(start) > search_.launch_time(i).value_or(start)) continue;
        dependencies_.edges.push_back({other, i, DependencyKind::Residual});
        if (++candidates == kMostResidual) break;
      }
    }
  }

  const RankTrace& trace_;
  const Launches& launches_;
  const StreamOrder& streams_;
  const RankCommunication& communication_;
  const UsualLags& lags_;
  const OpSearch& search_;
  RankDependencies& dependencies_;
};

}  // namespace

void add_stream_dependencies(const RankTrace& trace, const Launches& launches, const StreamOrder& streams,
                             const RankCommunication& communication, const UsualLags& lags,
                             const OpSearch& search, RankDependencies& dependencies) {
  StreamRules(trace, launches, streams, communication, lags, search, dependencies).run();
}

}  // namespace prism
