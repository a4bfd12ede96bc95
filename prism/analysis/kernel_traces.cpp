// SPDX-License-Identifier: Apache-2.0
#include "prism/analysis/kernel_traces.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "prism/analysis/kernel_trace_names.hpp"
#include "prism/ingest/host_call_kind.hpp"
#include "prism/ingest/name_table.hpp"
#include "prism/kernels/node_names.hpp"

namespace prism {

namespace {

constexpr std::int64_t kLongestCallNs = 1000;  // of calls whose length the model does not know
constexpr std::int64_t kMarkNs = 1000;         // length of an op that marks where a step begins
constexpr std::int64_t kOverlapNs = 10'000;    // kernels of one stream may overlap a little (PDL)
constexpr std::int64_t kPauseNs = 100'000;     // between steps that do not continue each other, at least
constexpr std::int64_t kPauseShare =
    4;  // ... and a quarter of the host's step: a shorter pause counts as no pause
constexpr std::int32_t kDevice = 0;
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

/// What one rank's step leaves free for the step before and the step after it, against its begin.
struct Extent {
  struct Stream {
    std::int64_t first_start_ns = kNever;
    std::int64_t last_start_ns = -kNever;
    std::int64_t last_end_ns = -kNever;
  };
  std::int64_t first_call_ns = kNever;
  std::int64_t host_end_ns = 0;
  std::map<std::int64_t, Stream> streams;
};

Extent extent_of(const StepModel& model, const RankRoles& roles, const StepPlan& plan) {
  Extent extent;
  extent.host_end_ns = plan.host_end_ns();
  if (!plan.calls.empty()) extent.first_call_ns = plan.calls.front().start_ns;
  for (const PlannedOp& op : plan.ops) {
    Extent::Stream& stream = extent.streams[model.nodes[roles.ops[op.role].node].lane];
    stream.first_start_ns = std::min(stream.first_start_ns, op.start_ns);
    stream.last_start_ns = std::max(stream.last_start_ns, op.start_ns);
    stream.last_end_ns = std::max(stream.last_end_ns, op.end_ns);
  }
  return extent;
}

/// Whether a rank can do the next step when it begins `after_ns` behind this one, in the order of its host and
/// streams.
bool can_continue(const Extent& step, const Extent& next, std::int64_t after_ns) {
  if (next.first_call_ns != kNever && next.first_call_ns + after_ns <= step.host_end_ns) return false;
  return std::ranges::all_of(step.streams, [&](const auto& entry) {
    const auto same = next.streams.find(entry.first);
    if (same == next.streams.end()) return true;
    const std::int64_t start_ns = same->second.first_start_ns + after_ns;
    return start_ns > entry.second.last_start_ns && start_ns >= entry.second.last_end_ns - kOverlapNs;
  });
}

GpuOpKind gpu_op_kind(std::string_view name) {
  if (name.starts_with("Memcpy")) return GpuOpKind::Memcpy;
  return name.starts_with("Memset") ? GpuOpKind::Memset : GpuOpKind::Kernel;
}

}  // namespace

KernelTraces::KernelTraces(const StepModel& model, std::span<const SimulatedStep> steps,
                           std::int64_t first_step_ns)
    : model_(model), steps_(steps), roles_(find_kernel_roles(model)), communications_(model, roles_) {
  place_steps(first_step_ns);
}

StepPlan KernelTraces::plan(std::size_t rank, std::size_t step) const {
  return plan_step(model_, roles_.ranks[rank % model_.template_ranks], steps_[step].times,
                   static_cast<std::uint32_t>(rank / model_.template_ranks));
}

/// A step begins where the one before it ended. If some rank cannot do both like that (its host or a stream would do
/// two things at once, as when steps were drawn by themselves), the job pauses between them.
void KernelTraces::place_steps(std::int64_t first_step_ns) {
  const auto extents = [&](std::size_t step) {
    std::vector<Extent> all;
    for (std::size_t r = 0; r < rank_count(); ++r) {
      all.push_back(extent_of(model_, roles_.ranks[r % model_.template_ranks], plan(r, step)));
    }
    return all;
  };
  std::vector<Extent> now = extents(0);
  begin_ns_ = {first_step_ns};
  continues_ = {false};
  for (std::size_t k = 0; k + 1 < steps_.size(); ++k) {
    std::vector<Extent> next = extents(k + 1);
    const std::int64_t step_ns = std::llround(steps_[k].times.step_ns);
    bool continues = true;
    std::int64_t over_ns = step_ns;
    for (std::size_t r = 0; r < now.size(); ++r) {
      continues = continues && can_continue(now[r], next[r], step_ns);
      const std::int64_t host_ns = now[r].host_end_ns - std::min(now[r].first_call_ns, std::int64_t{0});
      over_ns = std::max(over_ns, now[r].host_end_ns + host_ns / kPauseShare);
    }
    const std::int64_t pause_ns = over_ns - step_ns + kPauseNs + std::llround(model_.lead_ns);
    begin_ns_.push_back(begin_ns_.back() + step_ns + (continues ? 0 : pause_ns));
    continues_.push_back(continues);
    now = std::move(next);
  }
}

/// Writes the trace of one rank.
class KernelTraces::RankWriter {
 public:
  RankWriter(const KernelTraces& all, std::size_t index)
      : all_(all),
        model_(all.model_),
        roles_(all.roles_.ranks[index % all.model_.template_ranks]),
        index_(index),
        replica_(static_cast<std::uint32_t>(index / all.model_.template_ranks)) {}

  RankTrace run() {
    trace_.rank = all_.communications_.global_rank(index_);
    trace_.groups = all_.communications_.groups().of_rank(*trace_.rank);
    std::vector<StepPlan> plans;
    for (std::size_t k = 0; k < all_.steps_.size(); ++k) plans.push_back(all_.plan(index_, k));
    find_threads(plans);
    const std::vector<Window> windows = place_windows(plans);
    for (std::size_t k = 0; k < plans.size(); ++k) {
      plan_ = &plans[k];
      begin_ns_ = all_.begin_ns_[k];
      step_ = k;
      if (!all_.continues_[k]) write_state(k == 0 ? std::nullopt : std::optional(windows[k - 1].end_ns));
      write_calls(windows[k]);
      write_ops();
      trace_.annotations.push_back({.start_ns = windows[k].start_ns,
                                    .duration_ns = windows[k].end_ns - windows[k].start_ns,
                                    .thread = ThreadId(0),
                                    .name = name("ProfilerStep#" + std::to_string(all_.steps_[k].number))});
    }
    sort();
    trace_.names = names_.take();
    return std::move(trace_);
  }

 private:
  /// The host's time of a step.
  struct Window {
    std::int64_t start_ns = 0;
    std::int64_t end_ns = 0;
  };

  NameId name(const std::string& text) { return NameId(names_.id(text)); }

  [[nodiscard]] const Node& node_of(const PlannedOp& op) const {
    return model_.nodes[roles_.ops[op.role].node];
  }
  [[nodiscard]] std::uint64_t stream_of(const PlannedOp& op) const {
    return static_cast<std::uint64_t>(node_of(op).lane);
  }

  /// The thread that makes the first call is the main one and comes first.
  void find_threads(const std::vector<StepPlan>& plans) {
    const std::string process = std::to_string(kProcess + *trace_.rank);
    for (const StepPlan& plan : plans) {
      for (const PlannedCall& call : plan.calls) {
        if (!call.role) continue;
        const std::int64_t lane = model_.nodes[roles_.calls[*call.role].begin].lane;
        const auto [known, is_new] = thread_of_.try_emplace(lane, trace_.threads.size());
        if (is_new) add_thread(process);
      }
    }
    if (trace_.threads.empty()) add_thread(process);
    made_up_thread_ = ThreadId(trace_.threads.size());
    add_thread(process);
  }
  void add_thread(const std::string& process) {
    const auto number = static_cast<std::int64_t>(trace_.threads.size());
    const std::int64_t other = kOtherThreads * number + kProcess + *trace_.rank;
    trace_.threads.push_back(process + "/" + (number == 0 ? process : std::to_string(other)));
  }
  [[nodiscard]] ThreadId thread_of(const PlannedCall& call) const {
    return call.role ? thread_of_.at(model_.nodes[roles_.calls[*call.role].begin].lane) : made_up_thread_;
  }

  /// A window holds the step's calls and begins no later than the step, so that the end of the step before is its
  /// begin; windows of steps that continue each other do not overlap.
  [[nodiscard]] std::vector<Window> place_windows(const std::vector<StepPlan>& plans) const {
    std::vector<Window> windows;
    std::int64_t free_from_ns = std::numeric_limits<std::int64_t>::min();
    for (std::size_t k = 0; k < plans.size(); ++k) {
      const std::int64_t begin_ns = all_.begin_ns_[k];
      Window window{begin_ns, begin_ns};
      if (!plans[k].calls.empty()) {
        window.start_ns = std::min(begin_ns, begin_ns + plans[k].calls.front().start_ns);
        window.end_ns = begin_ns + plans[k].host_end_ns();
      }
      window.start_ns = std::max(window.start_ns, free_from_ns);
      window.end_ns = std::max(window.end_ns, window.start_ns);
      free_from_ns = window.end_ns + 1;
      windows.push_back(window);
    }
    for (std::size_t k = 0; k < windows.size(); ++k) {
      const std::int64_t free_until_ns = k + 1 < windows.size() ? windows[k + 1].start_ns : kNever;
      windows[k].end_ns = std::min(windows[k].end_ns + kLongestCallNs, free_until_ns);
    }
    return windows;
  }

  /// What the streams are still busy with when a step begins, and something that ends exactly then. Without a launch
  /// before the first step; launched between the steps, in no step's window, before others.
  void write_state(std::optional<std::int64_t> after_ns) {
    std::map<std::int64_t, std::int64_t> busy_until = plan_->busy_until;
    bool is_marked = false;
    std::int64_t free_stream = 0;
    for (const auto& [stream, until_ns] : busy_until) is_marked = is_marked || until_ns == 0;
    for (const OpRole& op : roles_.ops) free_stream = std::max(free_stream, model_.nodes[op.node].lane + 1);
    if (!is_marked) busy_until[free_stream] = 0;
    const std::int64_t lead_ns = std::llround(model_.lead_ns);
    std::int64_t call_ns = after_ns.value_or(0) + kLongestCallNs;
    for (const auto& [stream, until_ns] : busy_until) {
      const std::int64_t busy_ns =
          stream == free_stream ? kMarkNs : std::max(until_ns + lead_ns, std::int64_t{1});
      GpuOp op{.start_ns = begin_ns_ + until_ns - busy_ns,
               .duration_ns = busy_ns,
               .stream = static_cast<std::uint64_t>(stream),
               .device = kDevice,
               .name = name("work from before the step")};
      if (after_ns) {
        op.correlation =
            add_call({call_ns, call_ns + 1}, ThreadId(0), HostCallKind::Launch, "cudaLaunchKernel");
        call_ns += 2;
      }
      trace_.gpu_ops.push_back(op);
    }
  }

  std::int64_t add_call(Window time, ThreadId thread, HostCallKind kind, const std::string& text) {
    trace_.calls.push_back({.start_ns = time.start_ns,
                            .duration_ns = time.end_ns - time.start_ns,
                            .correlation = ++correlation_,
                            .thread = thread,
                            .name = name(text),
                            .kind = kind});
    return correlation_;
  }

  /// Between two calls the host has time for what the model does not have: how long a launch takes, events, waits of
  /// streams. Each gets a quarter, as far as that is no more than a microsecond.
  void write_calls(const Window& window) {
    mark_awaited();
    correlation_of_call_.assign(plan_->calls.size(), 0);
    std::int64_t free_from_ns = window.start_ns;
    for (std::size_t c = 0; c < plan_->calls.size(); ++c) {
      const PlannedCall& call = plan_->calls[c];
      const std::int64_t start_ns = begin_ns_ + call.start_ns;
      const std::int64_t before_ns =
          std::min(kLongestCallNs, std::max(start_ns - free_from_ns, std::int64_t{0}) / 4);
      write_waits(call, {start_ns - before_ns, start_ns});
      const bool is_last = c + 1 == plan_->calls.size();
      const std::int64_t until_ns = is_last ? window.end_ns : begin_ns_ + plan_->calls[c + 1].start_ns;
      const std::int64_t end_ns = begin_ns_ + call.end_ns.value_or(call.start_ns);
      const std::int64_t spare_ns = std::clamp((until_ns - end_ns) / 4, std::int64_t{0}, kLongestCallNs);
      const Window time{start_ns, call.end_ns ? end_ns : end_ns + spare_ns};
      correlation_of_call_[c] = write_call(call, time);
      write_events(call, {end_ns + spare_ns, end_ns + 2 * spare_ns});
      call_time_.push_back(time);
      free_from_ns = std::max(free_from_ns, end_ns);
    }
    write_places();
    call_time_.clear();
  }

  /// Ops that other streams wait for by an event recorded right after their launch: those that their call launched
  /// last on their stream, and not together with what waits.
  void mark_awaited() {
    event_of_.assign(plan_->ops.size(), std::nullopt);
    for (const PlannedOp& op : plan_->ops) {
      for (const std::size_t before : op.waits_for) {
        if (is_event_possible(before, op)) event_of_[before] = 0;
      }
    }
  }
  [[nodiscard]] bool is_event_possible(std::size_t before, const PlannedOp& after) const {
    const PlannedOp& op = plan_->ops[before];
    if (op.call >= after.call) return false;
    const std::vector<std::size_t>& together = plan_->calls[op.call].launched;
    return std::ranges::none_of(together, [&](std::size_t other) {
      return other > before && stream_of(plan_->ops[other]) == stream_of(op);
    });
  }

  static Window part(const Window& time, std::size_t i, std::size_t parts) {
    const std::int64_t length_ns = (time.end_ns - time.start_ns) / static_cast<std::int64_t>(parts);
    const std::int64_t start_ns = time.start_ns + static_cast<std::int64_t>(i) * length_ns;
    return {start_ns, start_ns + length_ns};
  }

  void write_waits(const PlannedCall& call, const Window& time) {
    std::vector<std::pair<std::size_t, std::size_t>> waits;  // awaited, waiting
    for (const std::size_t op : call.launched) {
      for (const std::size_t before : plan_->ops[op].waits_for) {
        if (event_of_[before] && is_event_possible(before, plan_->ops[op])) waits.emplace_back(before, op);
      }
    }
    for (std::size_t i = 0; i < waits.size(); ++i) {
      const auto [before, op] = waits[i];
      const Window own = part(time, i, waits.size());
      const std::int64_t correlation =
          add_call(own, thread_of(call), HostCallKind::StreamWait, "cudaStreamWaitEvent");
      trace_.syncs.push_back({.start_ns = own.start_ns,
                              .duration_ns = own.end_ns - own.start_ns,
                              .correlation = correlation,
                              .event_correlation = *event_of_[before],
                              .stream = stream_of(plan_->ops[op]),
                              .awaited_stream = stream_of(plan_->ops[before]),
                              .device = kDevice,
                              .kind = SyncRecord::Kind::StreamWait});
    }
  }

  void write_events(const PlannedCall& call, const Window& time) {
    std::vector<std::size_t> awaited;
    for (const std::size_t op : call.launched) {
      if (event_of_[op]) awaited.push_back(op);
    }
    for (std::size_t i = 0; i < awaited.size(); ++i) {
      event_of_[awaited[i]] = add_call(part(time, i, awaited.size()), thread_of(call),
                                       HostCallKind::EventRecord, "cudaEventRecord");
    }
  }

  std::int64_t write_call(const PlannedCall& call, const Window& time) {
    if (!call.launched.empty())
      return add_call(time, thread_of(call), HostCallKind::Launch, launch_name(call));
    const std::string text = sync_name(call);
    const HostCallKind kind = *host_call_kind(text);
    const std::int64_t correlation = add_call(time, thread_of(call), kind, text);
    if (!call.end_ns) return correlation;
    SyncRecord sync{.start_ns = time.start_ns,
                    .duration_ns = time.end_ns - time.start_ns,
                    .correlation = correlation,
                    .device = kDevice,
                    .kind = SyncRecord::Kind::ContextSync};
    if (kind == HostCallKind::StreamSync) {
      const auto stream = awaited_stream(call);
      if (!stream) return correlation;
      sync.kind = SyncRecord::Kind::StreamSync;
      sync.stream = stream;
    }
    if (kind != HostCallKind::EventSync) trace_.syncs.push_back(sync);
    return correlation;
  }

  /// The stream whose last op so far a call waits for; nothing if it waits for several or for an earlier op.
  [[nodiscard]] std::optional<std::uint64_t> awaited_stream(const PlannedCall& call) const {
    const std::vector<std::size_t>& awaits = roles_.calls[*call.role].awaits;
    if (awaits.size() != 1) return std::nullopt;
    const auto op = std::ranges::find(plan_->ops, awaits.front(), &PlannedOp::role);
    if (op == plan_->ops.end()) return std::nullopt;
    for (const PlannedOp& other : plan_->ops) {
      const bool later = other.call > op->call && plan_->calls[other.call].start_ns < call.start_ns;
      if (later && stream_of(other) == stream_of(*op)) return std::nullopt;
    }
    return stream_of(*op);
  }

  /// What the call was called; nothing in an anonymised model.
  [[nodiscard]] std::optional<std::string> recorded_name(const PlannedCall& call) const {
    if (!call.role) return std::nullopt;
    const auto what = what_of_node_name(model_.nodes[roles_.calls[*call.role].begin].name);
    if (!what || !what->starts_with(kHostTo)) return std::nullopt;
    return std::string(what->substr(kHostTo.size()));
  }

  [[nodiscard]] std::string sync_name(const PlannedCall& call) const {
    const auto is_sync = [](std::string_view text) {
      const auto kind = host_call_kind(text);
      return kind == HostCallKind::StreamSync || kind == HostCallKind::DeviceSync ||
             kind == HostCallKind::EventSync;
    };
    if (const auto recorded = recorded_name(call); recorded && is_sync(*recorded)) return *recorded;
    return roles_.calls[*call.role].awaits.size() > 1 ? "cudaDeviceSynchronize" : "cudaStreamSynchronize";
  }

  [[nodiscard]] std::string launch_name(const PlannedCall& call) const {
    if (const auto recorded = recorded_name(call)) return *recorded;
    if (call.launched.size() > 1) return "cudaGraphLaunch";
    const PlannedOp& op = plan_->ops[call.launched.front()];
    switch (gpu_op_kind(op_name(op))) {
      case GpuOpKind::Memcpy:
        return "cudaMemcpyAsync";
      case GpuOpKind::Memset:
        return "cudaMemsetAsync";
      case GpuOpKind::Kernel:
        break;
    }
    return communicates(op) ? "cudaLaunchKernelExC" : "cudaLaunchKernel";
  }

  [[nodiscard]] bool communicates(const PlannedOp& op) const {
    return model_.pools.classes[node_of(op).duration_class].category != Category::Compute;
  }

  [[nodiscard]] std::string op_name(const PlannedOp& op) const {
    const Node& node = node_of(op);
    if (const auto what = what_of_node_name(node.name)) return std::string(*what);
    if (communicates(op))
      return communication_kernel_name(all_.communications_.pool_of(roles_.ops[op.role].node));
    return model_.pools.classes[node.duration_class].key;
  }

  void write_ops() {
    for (std::size_t i = 0; i < plan_->ops.size(); ++i) {
      const PlannedOp& planned = plan_->ops[i];
      const PlannedCall& call = plan_->calls[planned.call];
      const std::string text = op_name(planned);
      GpuOp op{.start_ns = begin_ns_ + planned.start_ns,
               .duration_ns = planned.end_ns - planned.start_ns,
               .stream = stream_of(planned),
               .correlation = correlation_of_call_[planned.call],
               .device = kDevice,
               .name = name(text),
               .graph = call.launched.size() > 1 ? static_cast<std::uint32_t>(planned.call + 1) : 0,
               .kind = gpu_op_kind(text)};
      if (communicates(planned)) describe_communication(planned, op);
      trace_.gpu_ops.push_back(op);
    }
  }

  /// One operation is described on the kernel and around its launch; of several in one kernel, as of
  /// batch_isend_irecv, each has a record before the launch and the kernel none.
  void describe_communication(const PlannedOp& planned, GpuOp& op) {
    const KernelCommunication::Member member{roles_.ops[planned.role].node, replica_};
    const std::vector<std::size_t>& parts = all_.communications_.of(member);
    const CommunicationPool pool = all_.communications_.pool_of(member.node);
    if (pool.kind == CollectiveKind::Copy) op.bytes = pool.bytes;
    const auto call = std::ranges::find(trace_.calls, op.correlation, &HostCall::correlation);
    CpuOp range{.start_ns = call->start_ns,
                .duration_ns = call->duration_ns,
                .thread = call->thread,
                .name = name("record_param_comms")};
    for (const std::size_t part_of : parts) {
      range.comm = record(all_.communications_.all()[part_of], member, pool, parts.size());
      if (parts.size() > 1) {
        --range.start_ns;
        range.duration_ns = 0;
      } else {
        op.comm = range.comm;
      }
      trace_.cpu_ops.push_back(range);
    }
  }

  CommId record(const KernelCommunication& communication, KernelCommunication::Member member,
                const CommunicationPool& pool, std::size_t parts) {
    const KernelCommunications& all = all_.communications_;
    const ProcessGroup& group = all.groups()[communication.group];
    CommRecord record;
    record.collective = name(record_name(pool.kind));
    record.group = name(group.name);
    record.group_description = name(group.description);
    record.group_size = group.size;
    record.members = group.members;
    record.sequence = all.groups().sequence(communication.group, step_, communication.ordinal);
    record.comms_id = simulated_comms_id(communication.group, record.sequence, communication.pair);
    if (pool.bytes >= 0) {
      record.dtype = name("Byte");
      record.in_elements = record.out_elements = pool.bytes / static_cast<std::int64_t>(parts);
      if (pool.kind == CollectiveKind::AllGather && pool.group_size > 0)
        record.in_elements /= pool.group_size;
      if (pool.kind == CollectiveKind::ReduceScatter && pool.group_size > 0)
        record.out_elements /= pool.group_size;
    }
    if (communication.pair) {
      const auto& [first, second] = std::pair(communication.members[0], communication.members[1]);
      const bool sends = all.sends(communication, member);
      record.collective = name(sends ? "send" : "recv");
      (sends ? record.destination : record.source) = all.rank_of(first == member ? second : first);
    }
    trace_.comms.push_back(std::move(record));
    return CommId(trace_.comms.size() - 1);
  }

  /// What a launch belongs to, as an annotation says it.
  [[nodiscard]] std::string place_of(const PlannedCall& call) const {
    if (call.launched.empty()) return "";
    const Node& node = node_of(plan_->ops[call.launched.front()]);
    std::string text;
    const auto add = [&](const std::string& word) { text += (text.empty() ? "" : " ") + word; };
    if (node.phase == Phase::Forward) add("forward");
    if (node.phase == Phase::Backward) add("backward");
    if (node.phase == Phase::Optimizer) add("Optimizer.step");
    if (node.microbatch >= 0) add("microbatch " + std::to_string(node.microbatch));
    if (node.stage >= 0) add("stage " + std::to_string(node.stage));
    return text;
  }

  /// Annotations around runs of launches of a thread that belong to one part of the step.
  void write_places() {
    struct Run {
      std::string place;
      Window time;
    };
    std::map<ThreadId, Run> open;
    const auto close = [&](ThreadId thread, const Run& run) {
      if (run.place.empty()) return;
      trace_.annotations.push_back({.start_ns = run.time.start_ns,
                                    .duration_ns = run.time.end_ns - run.time.start_ns,
                                    .thread = thread,
                                    .name = name(run.place)});
    };
    for (std::size_t c = 0; c < plan_->calls.size(); ++c) {
      if (plan_->calls[c].launched.empty()) continue;
      const ThreadId thread = thread_of(plan_->calls[c]);
      const std::string place = place_of(plan_->calls[c]);
      Run& run = open[thread];
      if (run.place == place) {
        run.time.end_ns = call_time_[c].end_ns;
        continue;
      }
      close(thread, run);
      run = {place, call_time_[c]};
    }
    for (const auto& [thread, run] : open) close(thread, run);
  }

  void sort() {
    std::ranges::stable_sort(trace_.gpu_ops, {}, &GpuOp::start_ns);
    std::ranges::stable_sort(trace_.calls, {}, &HostCall::start_ns);
    std::ranges::stable_sort(trace_.syncs, {}, &SyncRecord::start_ns);
    std::ranges::stable_sort(trace_.cpu_ops, {}, &CpuOp::start_ns);
    std::ranges::stable_sort(trace_.annotations, {}, &Annotation::start_ns);
  }

  static constexpr std::int64_t kProcess = 1000;
  static constexpr std::int64_t kOtherThreads =
      1'000'000;  // apart, so that no rank has a thread of another's number

  const KernelTraces& all_;
  const StepModel& model_;
  const RankRoles& roles_;
  std::size_t index_;
  std::uint32_t replica_;
  RankTrace trace_;
  NameTable names_;
  std::map<std::int64_t, ThreadId> thread_of_;  // by lane
  ThreadId made_up_thread_;
  std::int64_t correlation_ = 0;
  // Of the step that is being written:
  const StepPlan* plan_ = nullptr;
  std::size_t step_ = 0;
  std::int64_t begin_ns_ = 0;
  std::vector<std::int64_t> correlation_of_call_;
  std::vector<Window> call_time_;
  std::vector<std::optional<std::int64_t>>
      event_of_;  // [op] correlation of the event behind it, if one is needed
};

RankTrace KernelTraces::rank(std::size_t index) const {
  return RankWriter(*this, index).run();
}

}  // namespace prism
