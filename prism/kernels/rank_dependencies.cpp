// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/rank_dependencies.hpp"

#include <algorithm>
#include <optional>

namespace prism {

namespace {

constexpr std::int64_t kClockJitterNs = 1'000;   // two clocks of one trace agree no better
constexpr std::int64_t kWakeUpNs = 50'000;       // a blocked call returns this soon after what it waited for
constexpr std::int64_t kLongLaunchNs = 100'000;  // a launch this long was blocked
constexpr std::int64_t kQueueRoomNs = 20'000;    // a blocked launch returns this soon after an op started
constexpr std::size_t kDeepQueue = 512;          // ops enqueued but not started; drivers hold about 1,000
constexpr std::int64_t kLateStartNs = 20'000;    // later than all known dependencies allow
constexpr std::int64_t kNearEndNs = 20'000;      // a residual dependency ends this shortly before
constexpr std::size_t kMostCandidates = 64;
constexpr std::size_t kMostResidual =
    6;  // ops that ended just before a late start; other steps tell which it was

/// GPU ops in some order of time, to search by it.
struct OpsByTime {
  std::vector<std::uint32_t> ops;
  std::vector<std::int64_t> time_ns;  // ascending

  /// How many are not after `time`.
  [[nodiscard]] std::size_t up_to(std::int64_t time) const {
    return static_cast<std::size_t>(std::ranges::upper_bound(time_ns, time) - time_ns.begin());
  }
};

template <class TimeOf>
OpsByTime sorted_by(std::vector<std::uint32_t> ops, const TimeOf& time_of) {
  OpsByTime result;
  std::ranges::stable_sort(ops, {}, time_of);
  result.time_ns.reserve(ops.size());
  for (const std::uint32_t op : ops) result.time_ns.push_back(time_of(op));
  result.ops = std::move(ops);
  return result;
}

/// Collects edges of one rank, rule by rule.
class Finder {
 public:
  Finder(const RankTrace& trace, const Launches& launches, const StreamOrder& streams,
         const RankCommunication& communication, const UsualLags& lags)
      : trace_(trace), launches_(launches), streams_(streams), communication_(communication), lags_(lags) {
    result_.gpu_ops = static_cast<std::uint32_t>(trace.gpu_ops.size());
    result_.calls = static_cast<std::uint32_t>(trace.calls.size());
    result_.blocks.assign(trace.calls.size(), false);
    enqueued_at_end_.assign(trace.calls.size(), false);
    first_op_of_.assign(trace.calls.size() + 1, 0);
    index_launches();
  }

  RankDependencies run() {
    add_host_edges();
    add_stream_and_launch_edges();
    if (!add_recorded_waits()) {
      add_entry_edges();
      add_exit_edges();
    }
    add_residual_edges();
    std::ranges::stable_sort(result_.edges, {}, &Dependency::after);
    return std::move(result_);
  }

 private:
  [[nodiscard]] const GpuOp& op(std::uint32_t index) const { return trace_.gpu_ops[index]; }
  [[nodiscard]] const HostCall& call(std::uint32_t index) const { return trace_.calls[index]; }
  [[nodiscard]] std::optional<std::int64_t> launch_time(std::uint32_t index) const {
    const auto launch = launches_.call_of[index];
    return launch ? std::optional(call(*launch).start_ns) : std::nullopt;
  }

  void add(std::uint32_t before, std::uint32_t after, DependencyKind kind) {
    result_.edges.push_back({before, after, kind});
  }

  /// An inferred edge between GPU ops, unless the times forbid it.
  void infer(std::uint32_t before, std::uint32_t after, DependencyKind kind) {
    if (op(before).end_ns() > op(after).start_ns + kClockJitterNs) {
      ++result_.contradicted[static_cast<std::size_t>(kind)];
      return;
    }
    add(before, after, kind);
  }

  /// The ops of each call, and per stream the ops in order of their launch.
  void index_launches() {
    std::vector<std::uint32_t> launched;
    for (std::uint32_t i = 0; i < result_.gpu_ops; ++i) {
      if (launches_.call_of[i]) launched.push_back(i);
    }
    std::ranges::stable_sort(launched, {}, [&](std::uint32_t i) { return *launches_.call_of[i]; });
    ops_by_call_ = launched;
    for (const std::uint32_t i : launched) ++first_op_of_[*launches_.call_of[i] + 1];
    for (std::size_t c = 0; c < trace_.calls.size(); ++c) first_op_of_[c + 1] += first_op_of_[c];
    const auto end_of = [&](std::uint32_t i) { return op(i).end_ns(); };
    const auto start_of = [&](std::uint32_t i) { return op(i).start_ns; };
    std::vector<std::uint32_t> all(result_.gpu_ops);
    for (std::uint32_t i = 0; i < result_.gpu_ops; ++i) all[i] = i;
    by_start_ = sorted_by(all, start_of);
    by_end_ = sorted_by(std::move(all), end_of);
    for (const std::vector<std::uint32_t>& ops : streams_.ops) {
      std::vector<std::uint32_t> with_launch;
      for (const std::uint32_t i : ops) {
        if (launches_.call_of[i]) with_launch.push_back(i);
      }
      launched_on_.push_back(
          sorted_by(std::move(with_launch), [&](std::uint32_t i) { return *launch_time(i); }));
    }
  }

  [[nodiscard]] std::span<const std::uint32_t> ops_of(std::uint32_t call_index) const {
    return std::span(ops_by_call_)
        .subspan(first_op_of_[call_index], first_op_of_[call_index + 1] - first_op_of_[call_index]);
  }

  void add_stream_and_launch_edges() {
    for (std::uint32_t i = 0; i < result_.gpu_ops; ++i) {
      if (streams_.previous[i]) add(*streams_.previous[i], i, DependencyKind::Stream);
      if (const auto c = launches_.call_of[i]) {
        add(enqueued_at_end_[*c] ? result_.call_end(*c) : result_.call_begin(*c), i, DependencyKind::Launch);
      }
    }
  }

  // ---- host ------------------------------------------------------------------------------------------

  void add_host_edges() {
    std::vector<std::optional<std::uint32_t>> last_of_thread(trace_.threads.size());  // calls
    std::optional<std::uint32_t> last;                                                // of any thread
    const auto leaves = [&](std::uint32_t c) {
      return result_.blocks[c] ? result_.call_end(c) : result_.call_begin(c);
    };
    std::size_t launched = 0;
    const std::size_t backlog = launches_.without_launch;
    for (std::uint32_t c = 0; c < result_.calls; ++c) {
      const HostCall& here = call(c);
      const bool launch = here.kind == HostCallKind::Launch;
      const bool sync = here.kind == HostCallKind::StreamSync || here.kind == HostCallKind::DeviceSync ||
                        here.kind == HostCallKind::EventSync;
      if (!launch && !sync) continue;
      std::optional<std::uint32_t>& before = last_of_thread[here.thread.value];
      if (before) add(leaves(*before), result_.call_begin(c), DependencyKind::Host);
      // A thread that works after another fell silent was woken by it. Calls that overlap run side by side.
      if (last && call(*last).thread != here.thread && call(*last).end_ns() <= here.start_ns) {
        add(leaves(*last), result_.call_begin(c), DependencyKind::Handoff);
      }
      if (sync) add_sync(c);
      if (launch) {
        add_blocking_launch(c, backlog + launched);
        launched += ops_of(c).size();
      }
      before = c;
      last = c;
    }
  }

  void block(std::uint32_t c, std::uint32_t awaited, DependencyKind kind) {
    if (!result_.blocks[c]) {
      result_.blocks[c] = true;
      add(result_.call_begin(c), result_.call_end(c), DependencyKind::Host);
    }
    add(awaited, result_.call_end(c), kind);
  }

  /// The op launched before the call whose end is nearest before the call's end.
  [[nodiscard]] std::optional<std::uint32_t> ended_before_end(const HostCall& here) const {
    const std::size_t found = by_end_.up_to(here.end_ns() + kClockJitterNs);
    for (std::size_t tried = 0; tried < std::min(found, kMostCandidates); ++tried) {
      const std::uint32_t i = by_end_.ops[found - 1 - tried];
      if (launch_time(i).value_or(here.start_ns - 1) < here.start_ns) return i;
    }
    return std::nullopt;
  }

  /// The last op of a stream that was launched before a time; work enqueued before the trace if there is none.
  [[nodiscard]] std::optional<std::uint32_t> last_launched(std::size_t stream, std::int64_t before_ns) const {
    const OpsByTime& ops = launched_on_[stream];
    const auto count =
        static_cast<std::size_t>(std::ranges::lower_bound(ops.time_ns, before_ns) - ops.time_ns.begin());
    if (count == 0) return std::nullopt;
    return ops.ops[count - 1];
  }

  void add_sync(std::uint32_t c) {
    const HostCall& here = call(c);
    const auto waited = [&](std::uint32_t i) {
      return op(i).end_ns() > here.start_ns - kClockJitterNs &&
             op(i).end_ns() <= here.end_ns() + kClockJitterNs;
    };
    if (const SyncRecord* record = sync_of(here.correlation); record != nullptr && record->stream) {
      for (std::size_t s = 0; s < streams_.streams.size(); ++s) {
        if (streams_.streams[s].stream != *record->stream) continue;
        const auto i = last_launched(s, here.start_ns);
        if (i && waited(*i)) block(c, *i, DependencyKind::HostWait);
      }
      return;
    }
    if (here.kind == HostCallKind::DeviceSync) {
      for (std::size_t s = 0; s < streams_.streams.size(); ++s) {
        const auto i = last_launched(s, here.start_ns);
        if (i && waited(*i)) block(c, *i, DependencyKind::HostWait);
      }
      return;
    }
    const auto i = ended_before_end(here);
    if (i && waited(*i)) block(c, *i, DependencyKind::HostWait);
  }

  /// Copies that return when they are done, and launches that found the queue full.
  void add_blocking_launch(std::uint32_t c, std::size_t enqueued) {
    const HostCall& here = call(c);
    const auto ops = ops_of(c);
    if (ops.size() == 1 && op(ops[0]).kind == GpuOpKind::Memcpy) {
      const std::int64_t end = op(ops[0]).end_ns();
      if (end <= here.end_ns() + kClockJitterNs && here.end_ns() - end < kWakeUpNs) {
        block(c, ops[0], DependencyKind::HostWait);
        return;
      }
    }
    if (here.duration_ns < kLongLaunchNs) return;
    const std::size_t started = by_start_.up_to(here.start_ns);
    if (enqueued < started + kDeepQueue) return;
    const std::size_t by_then = by_start_.up_to(here.end_ns() + kClockJitterNs);
    if (by_then == 0 || here.end_ns() - by_start_.time_ns[by_then - 1] > kQueueRoomNs) return;
    // Room came when that op started, so when the one before it on its stream ended.
    const auto freed = streams_.previous[by_start_.ops[by_then - 1]];
    if (!freed || op(*freed).end_ns() > here.end_ns() + kClockJitterNs) return;
    block(c, *freed, DependencyKind::QueueFull);
    const auto runs_later = [&](std::uint32_t i) { return op(i).start_ns >= here.end_ns(); };
    enqueued_at_end_[c] = std::ranges::all_of(ops, runs_later);
  }

  // ---- streams ---------------------------------------------------------------------------------------

  [[nodiscard]] const SyncRecord* sync_of(std::int64_t correlation) {
    if (syncs_.empty() && !trace_.syncs.empty()) {
      for (const SyncRecord& s : trace_.syncs) syncs_.push_back(&s);
      std::ranges::stable_sort(syncs_, {}, &SyncRecord::correlation);
    }
    const auto found = std::ranges::lower_bound(syncs_, correlation, {}, &SyncRecord::correlation);
    return found != syncs_.end() && (*found)->correlation == correlation && correlation > 0 ? *found
                                                                                            : nullptr;
  }

  [[nodiscard]] std::optional<std::size_t> stream_index(std::uint64_t stream) const {
    for (std::size_t s = 0; s < streams_.streams.size(); ++s) {
      if (streams_.streams[s].stream == stream) return s;
    }
    return std::nullopt;
  }

  /// The first op that a stream ran of those launched at or after a time.
  [[nodiscard]] std::optional<std::uint32_t> next_launched(std::size_t stream, std::int64_t from_ns) const {
    const OpsByTime& ops = launched_on_[stream];
    const auto place =
        static_cast<std::size_t>(std::ranges::lower_bound(ops.time_ns, from_ns) - ops.time_ns.begin());
    if (place == ops.ops.size()) return std::nullopt;
    return ops.ops[place];
  }

  /// Edges of cuda_sync's "Stream Wait Event" records. False if the trace has none.
  bool add_recorded_waits() {
    std::vector<std::pair<std::int64_t, std::uint32_t>> events;  // correlation, call
    for (std::uint32_t c = 0; c < result_.calls; ++c) {
      if (call(c).kind == HostCallKind::EventRecord || call(c).kind == HostCallKind::StreamWait) {
        events.emplace_back(call(c).correlation, c);
      }
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
      const auto waiting = stream_index(*sync.stream);
      const auto awaited = stream_index(*sync.awaited_stream);
      if (!waiting || !awaited) continue;
      const auto after = next_launched(*waiting, wait != nullptr ? wait->start_ns : sync.start_ns);
      const auto before = last_launched(*awaited, record->start_ns);
      if (before && after && *before != *after) infer(*before, *after, DependencyKind::RecordedWait);
    }
    return any;
  }

  void add_entry_edges() {
    for (const CommunicationOp& comm : communication_.ops) {
      if (!comm.issue_ns) continue;
      for (std::size_t s = 0; s < streams_.streams.size(); ++s) {
        if (s == streams_.stream_of[comm.gpu_op] || streams_.streams[s].device != op(comm.gpu_op).device)
          continue;
        const auto before = last_launched(s, *comm.issue_ns);
        if (before) infer(*before, comm.gpu_op, DependencyKind::Entry);
      }
    }
  }

  /// Waits that are not part of issuing a communication: the next compute op of the thread waits for the newest
  /// communication that had ended by its start.
  void add_exit_edges() {
    struct Issue {
      std::int64_t begin = 0;
      std::int64_t end = 0;
      std::uint32_t op = 0;
    };
    std::vector<std::vector<Issue>> issues(trace_.threads.size());
    std::vector<std::pair<std::int64_t, std::uint32_t>> launched;  // communication by launch time
    for (const CommunicationOp& comm : communication_.ops) {
      const auto launch = launches_.call_of[comm.gpu_op];
      if (!launch) continue;
      launched.emplace_back(call(*launch).start_ns, comm.gpu_op);
      const std::int64_t begin = comm.issue_ns.value_or(call(*launch).start_ns);
      issues[call(*launch).thread.value].push_back({begin, call(*launch).end_ns(), comm.gpu_op});
    }
    std::ranges::sort(launched);
    for (auto& of_thread : issues) std::ranges::sort(of_thread, {}, &Issue::begin);
    std::vector<std::vector<std::uint32_t>> next_calls(trace_.threads.size());  // launches per thread
    for (std::uint32_t c = 0; c < result_.calls; ++c) {
      if (call(c).kind == HostCallKind::Launch) next_calls[call(c).thread.value].push_back(c);
    }
    std::vector<std::optional<std::uint32_t>> last_edge(result_.gpu_ops);
    for (const HostCall& wait : trace_.calls) {
      if (wait.kind != HostCallKind::StreamWait) continue;
      const auto& of_thread = issues[wait.thread.value];
      const auto after_begin = std::ranges::upper_bound(of_thread, wait.start_ns, {}, &Issue::begin);
      if (after_begin != of_thread.begin() && (after_begin - 1)->end >= wait.start_ns) continue;
      const auto dependent = first_compute_after(next_calls[wait.thread.value], wait.start_ns);
      if (!dependent) continue;
      auto newest = std::ranges::lower_bound(launched, std::pair(wait.start_ns, std::uint32_t{0}));
      for (std::size_t tried = 0; newest != launched.begin() && tried < kMostCandidates; ++tried) {
        --newest;
        if (op(newest->second).end_ns() > op(*dependent).start_ns) continue;
        if (last_edge[*dependent] != newest->second && newest->second != *dependent) {
          infer(newest->second, *dependent, DependencyKind::Exit);
          last_edge[*dependent] = newest->second;
        }
        break;
      }
    }
  }

  [[nodiscard]] std::optional<std::uint32_t> first_compute_after(const std::vector<std::uint32_t>& calls,
                                                                 std::int64_t time_ns) const {
    auto next =
        std::ranges::lower_bound(calls, time_ns, {}, [&](std::uint32_t c) { return call(c).start_ns; });
    for (std::size_t tried = 0; next != calls.end() && tried < kMostCandidates; ++next, ++tried) {
      const std::uint32_t i = ops_of(*next).front();
      if (!communication_.of_gpu_op[i]) return i;
    }
    return std::nullopt;
  }

  /// When an op could start at the earliest for all that its launch, a host activity, says.
  [[nodiscard]] double launched(std::uint32_t activity) const {
    const bool at_end = activity >= result_.gpu_ops + result_.calls;
    const HostCall& here = call(activity - result_.gpu_ops - (at_end ? result_.calls : 0));
    return at_end ? static_cast<double>(here.end_ns())
                  : static_cast<double>(here.start_ns) + lags_.launch(here.name);
  }

  /// A start that no dependency found so far explains, right after the end of an op elsewhere on the device.
  void add_residual_edges() {
    std::vector<double> ready(result_.gpu_ops, -1e300);
    for (const Dependency& edge : result_.edges) {
      if (edge.after >= result_.gpu_ops) continue;
      const bool from_op = edge.before < result_.gpu_ops;
      const double free =
          from_op ? static_cast<double>(op(edge.before).end_ns()) + lags_.gap_ns : launched(edge.before);
      ready[edge.after] = std::max(ready[edge.after], free);
    }
    for (std::uint32_t i = 0; i < result_.gpu_ops; ++i) {
      const std::int64_t start = op(i).start_ns;
      if (ready[i] < -1e299 || static_cast<double>(start) - ready[i] <= static_cast<double>(kLateStartNs))
        continue;
      const std::size_t found = by_end_.up_to(start + kClockJitterNs);
      std::size_t candidates = 0;
      for (std::size_t tried = 0; tried < std::min(found, kMostCandidates); ++tried) {
        const std::uint32_t other = by_end_.ops[found - 1 - tried];
        if (op(other).end_ns() < start - kNearEndNs) break;
        if (streams_.stream_of[other] == streams_.stream_of[i] || op(other).device != op(i).device) continue;
        if (launch_time(other).value_or(start) > launch_time(i).value_or(start)) continue;
        add(other, i, DependencyKind::Residual);
        if (++candidates == kMostResidual) break;
      }
    }
  }

  const RankTrace& trace_;
  const Launches& launches_;
  const StreamOrder& streams_;
  const RankCommunication& communication_;
  const UsualLags& lags_;
  RankDependencies result_;
  std::vector<bool>
      enqueued_at_end_;  // [call] it found the queue full: its ops were launched when it returned
  std::vector<std::uint32_t> ops_by_call_;
  std::vector<std::uint32_t> first_op_of_;  // [call] into ops_by_call_, calls + 1 of them
  OpsByTime by_start_;
  OpsByTime by_end_;
  std::vector<OpsByTime> launched_on_;    // [stream] by launch time
  std::vector<const SyncRecord*> syncs_;  // by correlation
};

}  // namespace

std::string_view dependency_name(DependencyKind kind) {
  constexpr std::array<std::string_view, kDependencyKindCount> kNames = {"stream order",
                                                                         "launch",
                                                                         "host order",
                                                                         "thread handoff",
                                                                         "host wait",
                                                                         "full queue",
                                                                         "recorded stream wait",
                                                                         "issue of a communication",
                                                                         "wait for a communication",
                                                                         "late start"};
  return kNames[static_cast<std::size_t>(kind)];
}

RankDependencies find_dependencies(const RankTrace& trace, const Launches& launches,
                                   const StreamOrder& streams, const RankCommunication& communication,
                                   const UsualLags& lags) {
  return Finder(trace, launches, streams, communication, lags).run();
}

}  // namespace prism
