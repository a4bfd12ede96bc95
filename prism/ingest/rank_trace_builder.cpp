// SPDX-License-Identifier: Apache-2.0
#include "prism/ingest/rank_trace_builder.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "prism/ingest/decimal_micros.hpp"
#include "prism/ingest/host_call_kind.hpp"
#include "prism/ingest/json_string.hpp"
#include "prism/ingest/kineto_comm.hpp"
#include "prism/ingest/kineto_numbers.hpp"

namespace prism {

namespace {

constexpr std::int64_t kMostDuration = 100'000'000'000'000'000;  // three years: no event lasts as long
constexpr std::int64_t kMinute = 60'000'000'000;
constexpr std::int64_t kAbsolute = 1'000'000'000'000'000'000;  // later than 2001 if Unix time, else 31 years
constexpr std::int64_t kMost64 = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast64 = std::numeric_limits<std::int64_t>::min();

std::int32_t small(std::string_view text) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  return static_cast<std::int32_t>(kineto_int(text, -1, kMost).value_or(-1));
}

std::int32_t device_of(const KinetoEvent& event) {
  return small(event.args.device.empty() ? event.pid : event.args.device);
}

/// The stream in `args`, else the row, which may be text: "stream 7".
std::uint64_t stream_of(const KinetoEvent& event) {
  if (const auto stream = kineto_id(event.args.stream)) return *stream;
  if (const auto stream = kineto_id(event.tid)) return *stream;
  constexpr std::string_view kDigits = "0123456789";
  const std::size_t first = event.tid.find_first_of(kDigits);
  if (first == std::string_view::npos) return 0;
  const std::string_view digits = event.tid.substr(first);
  return kineto_id(digits.substr(0, digits.find_first_not_of(kDigits))).value_or(0);
}

/// Streams in synchronisation records: all bits set, in 32 or 64, mean none.
std::optional<std::uint64_t> awaited_stream(std::string_view text) {
  const auto stream = kineto_id(text);
  if (stream == UINT64_MAX || stream == UINT32_MAX) return std::nullopt;
  return stream;
}

std::optional<SyncRecord::Kind> sync_kind(const KinetoEvent& event) {
  if (event.kind == KinetoKind::CudaEvent) return SyncRecord::Kind::EventRecord;
  const std::string_view kind = event.args.sync_kind.empty() ? event.name : event.args.sync_kind;
  if (kind == "Stream Sync") return SyncRecord::Kind::StreamSync;
  if (kind == "Event Sync") return SyncRecord::Kind::EventSync;
  if (kind == "Context Sync") return SyncRecord::Kind::ContextSync;
  if (kind == "Stream Wait Event") return SyncRecord::Kind::StreamWait;
  return std::nullopt;
}

std::uint64_t device_row(std::int32_t device, std::uint64_t stream) {
  return (static_cast<std::uint64_t>(device) << 48U) ^ stream;
}

template <class Event>
void sort_by_start(std::vector<Event>& events) {
  const auto by_start = [](const Event& a, const Event& b) { return a.start_ns < b.start_ns; };
  if (!std::is_sorted(events.begin(), events.end(), by_start)) {
    std::stable_sort(events.begin(), events.end(), by_start);
  }
  events.shrink_to_fit();
}

/// Calls use(vector) for every kind of timed event.
template <class Trace, class Use>
void for_each_vector(Trace& trace, Use use) {
  use(trace.gpu_ops);
  use(trace.calls);
  use(trace.syncs);
  use(trace.cpu_ops);
  use(trace.annotations);
}

/// From the first start to the last end of what happened on the host; without any, of GPU starts.
std::int64_t traced_time(const RankTrace& trace) {
  std::int64_t first = kMost64;
  std::int64_t last = kLeast64;
  const auto take = [&](const auto& events) {
    for (const auto& event : events) {
      first = std::min(first, event.start_ns);
      last = std::max(last, event.end_ns());
    }
  };
  take(trace.calls);
  take(trace.cpu_ops);
  take(trace.annotations);
  if (first > last) {
    for (const GpuOp& op : trace.gpu_ops) {
      first = std::min(first, op.start_ns);
      last = std::max(last, op.start_ns);
    }
  }
  return first > last ? 0 : last - first;
}

/// A corrupt duration (seen from ROCm) runs over the next op of its stream. Kernels of one graph launch may
/// really overlap, and so may neighbours by a few us (programmatic dependent launch). `ops` are sorted.
std::size_t cut_corrupt_durations(std::vector<GpuOp>& ops) {
  constexpr std::int64_t kTolerated = 10'000;
  constexpr std::int64_t kToleratedShare = 20;  // one in 20 of the op
  std::map<std::pair<std::int32_t, std::uint64_t>, GpuOp*> last_of_stream;
  std::size_t cut = 0;
  for (GpuOp& op : ops) {
    GpuOp*& last = last_of_stream[{op.device, op.stream}];
    if (last != nullptr && (op.correlation == 0 || op.correlation != last->correlation)) {
      const std::int64_t overlap = last->end_ns() - op.start_ns;
      if (overlap > kTolerated && overlap > last->duration_ns / kToleratedShare) {
        last->duration_ns = op.start_ns - last->start_ns;
        ++cut;
      }
    }
    last = &op;
  }
  return cut;
}

}  // namespace

void RankTraceBuilder::add(const KinetoEvent& event, std::uint64_t byte) {
  ++trace_.counts.events;
  if (event.repeated_key) notes_.add(KinetoNote::RepeatedKey, byte);
  if (event.phase == 'X') {
    ++trace_.counts.complete_events;
    if (event.kind == KinetoKind::PythonFunction) ++trace_.counts.python_functions;
  }
  if (event.skipped) return;
  switch (event.phase) {
    case 'X':
      return add_complete(event, byte);
    case 'B':
      return add_begin(event, byte);
    case 'E':
      return add_end(event, byte);
    default:
      return add_flow(event);
  }
}

void RankTraceBuilder::add_complete(const KinetoEvent& event, std::uint64_t byte) {
  if (event.kind == KinetoKind::MtiaDevice) return notes_.add(KinetoNote::MtiaDevice, byte);
  const auto start = ns_of_micros(event.start);
  const auto duration = ns_of_micros(event.duration);
  if (is_gpu_op(event.kind)) {
    ++trace_.counts.gpu_ops;
    if (start && *start != 0 && duration && *duration >= 0 && *duration <= kMostDuration) {
      keep_gpu_op(event, *start, *duration, byte);
      return;
    }
    ++trace_.counts.gpu_ops_set_aside;
    notes_.add(!start                       ? KinetoNote::NoStart
               : *start == 0                ? KinetoNote::LostStart
               : !duration || *duration < 0 ? KinetoNote::LostDuration
                                            : KinetoNote::TooLong,
               byte);
    return;
  }
  if (!start) return notes_.add(KinetoNote::NoStart, byte);
  if (!duration || *duration < 0 || *duration > kMostDuration)
    return notes_.add(KinetoNote::NoDuration, byte);
  keep(event, *start, *duration, byte);
}

void RankTraceBuilder::add_begin(const KinetoEvent& event, std::uint64_t byte) {
  const auto start = ns_of_micros(event.start);
  if (!start) return notes_.add(KinetoNote::NoStart, byte);
  Begin begin{event.kind, 0, *start, byte};
  begin.index = static_cast<std::uint32_t>(size_of(event.kind));
  if (is_gpu_op(event.kind)) ++trace_.counts.gpu_ops;
  if (!keep(event, *start, kOpen, byte)) begin.kind = KinetoKind::Other;
  begins_[thread(event).value].push_back(begin);
}

void RankTraceBuilder::add_end(const KinetoEvent& event, std::uint64_t byte) {
  std::vector<Begin>& open = begins_[thread(event).value];
  if (open.empty()) return notes_.add(KinetoNote::EndWithoutBegin, byte);
  const Begin begin = open.back();
  open.pop_back();
  std::int64_t* const duration = duration_of(begin);
  if (duration == nullptr) return;
  const auto end = ns_of_micros(event.start);
  // An end that is no use leaves its begin open, to be dropped and counted in the end.
  if (!end || *end < begin.start_ns || *end - begin.start_ns > kMostDuration) {
    return notes_.add(KinetoNote::BeginWithoutEnd, begin.byte);
  }
  *duration = *end - begin.start_ns;
  whole_micros_ = whole_micros_ && (!is_gpu_op(begin.kind) || *duration % 1000 == 0);
  notes_.add(KinetoNote::JoinedPair, begin.byte);
}

void RankTraceBuilder::add_flow(const KinetoEvent& event) {
  const auto start = ns_of_micros(event.start);
  const auto correlation = kineto_int(event.id, 1, kMost64);
  if (!start || !correlation) return;  // another kind of flow
  if (event.phase == 's') {
    host_flows_.push_back({*start, *correlation, thread(event).value});
  } else {
    device_flows_.push_back({*start, *correlation, device_row(device_of(event), stream_of(event))});
  }
}

bool RankTraceBuilder::keep(const KinetoEvent& event, std::int64_t start_ns, std::int64_t duration_ns,
                            std::uint64_t byte) {
  switch (event.kind) {
    case KinetoKind::Kernel:
    case KinetoKind::Memcpy:
    case KinetoKind::Memset:
      keep_gpu_op(event, start_ns, duration_ns, byte);
      return true;
    case KinetoKind::HostCall:
      trace_.calls.push_back({start_ns, duration_ns, correlation(event), thread(event),
                              name(event.name, event.name_has_escape)});
      return true;
    case KinetoKind::Sync:
    case KinetoKind::CudaEvent: {
      const std::size_t before = trace_.syncs.size();
      keep_sync(event, start_ns, duration_ns);
      if (trace_.syncs.size() == before) notes_.add(KinetoNote::UnknownSync, byte, event.name);
      return trace_.syncs.size() > before;
    }
    case KinetoKind::CpuOp: {
      ++trace_.counts.cpu_ops;
      const NameId label = name(event.name, event.name_has_escape);
      // PyTorch 1.8 and 1.9 write steps as operators.
      if (duration_ns != kOpen && event.name.starts_with("ProfilerStep#")) {
        trace_.annotations.push_back({start_ns, duration_ns, thread(event), label});
        return true;
      }
      CpuOp op{start_ns, duration_ns, thread(event), label, {}};
      if (event.name == "record_param_comms") op.comm = comm(event.args);
      trace_.cpu_ops.push_back(op);
      return true;
    }
    case KinetoKind::Annotation:
      trace_.annotations.push_back(
          {start_ns, duration_ns, thread(event), name(event.name, event.name_has_escape)});
      return true;
    default:
      return false;
  }
}

void RankTraceBuilder::keep_gpu_op(const KinetoEvent& event, std::int64_t start_ns, std::int64_t duration_ns,
                                   std::uint64_t byte) {
  GpuOp op;
  op.start_ns = start_ns;
  op.duration_ns = duration_ns;
  op.device = device_of(event);
  op.stream = stream_of(event);
  op.correlation = correlation(event);
  op.bytes = kineto_int(event.args.bytes, 0, kMost64).value_or(-1);
  op.graph = static_cast<std::uint32_t>(kineto_int(event.args.graph, 0, UINT32_MAX).value_or(0));
  op.kind = event.kind == KinetoKind::Kernel   ? GpuOpKind::Kernel
            : event.kind == KinetoKind::Memcpy ? GpuOpKind::Memcpy
                                               : GpuOpKind::Memset;
  op.name = name(event.name, event.name_has_escape);
  if (event.name.empty() || event.name == "unknown") notes_.add(KinetoNote::UnknownName, byte);
  if (!event.args.collective.empty()) op.comm = comm(event.args);
  whole_micros_ = whole_micros_ && start_ns % 1000 == 0 && (duration_ns == kOpen || duration_ns % 1000 == 0);
  trace_.gpu_ops.push_back(op);
}

void RankTraceBuilder::keep_sync(const KinetoEvent& event, std::int64_t start_ns, std::int64_t duration_ns) {
  const auto kind = sync_kind(event);
  if (!kind) return;
  // Since April 2026 the row of a stream sync is the stream plus this.
  constexpr std::uint64_t kRowOfSyncs = 1'000'000;
  SyncRecord sync;
  sync.start_ns = start_ns;
  sync.duration_ns = duration_ns;
  sync.kind = *kind;
  sync.device = device_of(event);
  sync.correlation = correlation(event);
  sync.event_correlation = kineto_int(event.args.wait_on_record, 0, kMost64).value_or(-1);
  sync.stream = awaited_stream(event.args.stream.empty() ? event.tid : event.args.stream);
  if (event.args.stream.empty() && sync.stream && *sync.stream >= kRowOfSyncs) *sync.stream -= kRowOfSyncs;
  sync.awaited_stream = awaited_stream(event.args.wait_on_stream);
  trace_.syncs.push_back(sync);
}

NameId RankTraceBuilder::name(std::string_view raw, bool has_escape) {
  if (!has_escape) {
    if (const std::uint32_t known = names_.find(raw); known != NameTable::kNone) return NameId(known);
    if (is_utf8(raw)) return NameId(names_.id(raw));
  }
  const JsonString resolved = resolve_json_string(raw);
  if (resolved.repaired) notes_.add(KinetoNote::NotUtf8, {}, resolved.text.substr(0, 60));
  return NameId(names_.id(resolved.text));
}

ThreadId RankTraceBuilder::thread(const KinetoEvent& event) {
  thread_key_.assign(event.pid);
  thread_key_ += '/';
  thread_key_ += event.tid;
  if (thread_key_ != last_thread_key_) {
    last_thread_ = ThreadId(threads_.id(resolve_json_string(thread_key_).text));
    last_thread_key_.swap(thread_key_);
  }
  return last_thread_;
}

CommId RankTraceBuilder::comm(const KinetoArgs& args) {
  trace_.comms.push_back(kineto_comm(args, [this](std::string_view raw) { return name(raw); }));
  return CommId(trace_.comms.size() - 1);
}

std::int64_t RankTraceBuilder::correlation(const KinetoEvent& event) {
  if (event.args.correlation.empty()) wants_flows_ = true;
  const auto correlation = kineto_id(event.args.correlation);
  if (!correlation || *correlation == UINT64_MAX || *correlation == UINT32_MAX) return 0;
  return static_cast<std::int64_t>(*correlation);
}

std::size_t RankTraceBuilder::size_of(KinetoKind kind) const {
  switch (kind) {
    case KinetoKind::Kernel:
    case KinetoKind::Memcpy:
    case KinetoKind::Memset:
      return trace_.gpu_ops.size();
    case KinetoKind::HostCall:
      return trace_.calls.size();
    case KinetoKind::Sync:
    case KinetoKind::CudaEvent:
      return trace_.syncs.size();
    case KinetoKind::CpuOp:
      return trace_.cpu_ops.size();
    case KinetoKind::Annotation:
      return trace_.annotations.size();
    default:
      return 0;
  }
}

std::int64_t* RankTraceBuilder::duration_of(const Begin& begin) {
  switch (begin.kind) {
    case KinetoKind::Kernel:
    case KinetoKind::Memcpy:
    case KinetoKind::Memset:
      return &trace_.gpu_ops[begin.index].duration_ns;
    case KinetoKind::HostCall:
      return &trace_.calls[begin.index].duration_ns;
    case KinetoKind::Sync:
    case KinetoKind::CudaEvent:
      return &trace_.syncs[begin.index].duration_ns;
    case KinetoKind::CpuOp:
      return &trace_.cpu_ops[begin.index].duration_ns;
    case KinetoKind::Annotation:
      return &trace_.annotations[begin.index].duration_ns;
    default:
      return nullptr;
  }
}

void RankTraceBuilder::drop_open_begins() {
  for (const auto& [thread, open] : begins_) {
    for (const Begin& begin : open) {
      if (duration_of(begin) != nullptr) notes_.add(KinetoNote::BeginWithoutEnd, begin.byte);
    }
  }
  const std::size_t gpu_ops = trace_.gpu_ops.size();
  for_each_vector(trace_, [](auto& events) {
    std::erase_if(events, [](const auto& event) { return event.duration_ns == kOpen; });
  });
  trace_.counts.gpu_ops_set_aside += gpu_ops - trace_.gpu_ops.size();
}

void RankTraceBuilder::link_flows() {
  if (host_flows_.empty() || device_flows_.empty()) return;
  const auto sort = [](std::vector<Flow>& flows) {
    std::ranges::sort(flows, {}, [](const Flow& f) { return std::pair(f.row, f.start_ns); });
  };
  sort(host_flows_);
  sort(device_flows_);
  const auto link = [&](const std::vector<Flow>& flows, std::uint64_t row, auto& event) {
    if (event.correlation != 0) return;
    const auto found = std::ranges::lower_bound(flows, std::pair(row, event.start_ns), {},
                                                [](const Flow& f) { return std::pair(f.row, f.start_ns); });
    if (found == flows.end() || found->row != row || found->start_ns != event.start_ns) return;
    event.correlation = found->correlation;
    notes_.add(KinetoNote::FlowLink);
  };
  for (HostCall& call : trace_.calls) link(host_flows_, call.thread.value, call);
  for (GpuOp& op : trace_.gpu_ops) link(device_flows_, device_row(op.device, op.stream), op);
}

void RankTraceBuilder::set_aside_lost_gpu_ops() {
  const std::int64_t longest = traced_time(trace_) + kMinute;
  const std::size_t before = trace_.gpu_ops.size();
  std::erase_if(trace_.gpu_ops, [&](const GpuOp& op) {
    // Whole microseconds show what took less than half of one as 0; decimals do not.
    if (op.duration_ns == 0) {
      notes_.add(whole_micros_ ? KinetoNote::ZeroLength : KinetoNote::LostDuration);
      return !whole_micros_;
    }
    if (op.duration_ns <= longest) return false;
    notes_.add(KinetoNote::TooLong);
    return true;
  });
  trace_.counts.gpu_ops_set_aside += before - trace_.gpu_ops.size();
}

void RankTraceBuilder::keep_linked_calls() {
  std::vector<std::int64_t> launched;
  launched.reserve(trace_.gpu_ops.size());
  for (const GpuOp& op : trace_.gpu_ops) {
    if (op.correlation != 0) launched.push_back(op.correlation);
  }
  std::ranges::sort(launched);
  launched.erase(std::unique(launched.begin(), launched.end()), launched.end());

  std::vector<std::optional<HostCallKind>> kinds(names_.names().size());
  for (std::size_t i = 0; i < kinds.size(); ++i) kinds[i] = host_call_kind(names_.names()[i]);
  std::erase_if(trace_.calls, [&](HostCall& call) {
    if (call.correlation != 0 && std::ranges::binary_search(launched, call.correlation)) return false;
    const auto kind = kinds[call.name.value];
    if (kind) call.kind = *kind;
    return !kind;
  });
}

void RankTraceBuilder::complete_members(const std::vector<ProcessGroup>& groups) {
  std::unordered_map<std::uint32_t, const ProcessGroup*> by_name;
  for (const ProcessGroup& group : groups) by_name.emplace(names_.find(group.name), &group);
  for (CommRecord& record : trace_.comms) {
    if (!record.members.empty() || record.group.value == 0) continue;
    if (const auto found = by_name.find(record.group.value); found != by_name.end()) {
      record.members = found->second->members;
    }
  }
}

void RankTraceBuilder::add_base(const KinetoMetadata& metadata) {
  std::size_t events = 0;
  std::size_t absolute = 0;
  for_each_vector(trace_, [&](const auto& all) {
    events += all.size();
    absolute += static_cast<std::size_t>(
        std::ranges::count_if(all, [](const auto& event) { return event.start_ns > kAbsolute; }));
  });
  const bool is_absolute = events > 0 && absolute * 2 > events;
  trace_.absolute_time = is_absolute || metadata.base_time_ns.has_value();
  if (!metadata.base_time_ns) {
    if (!is_absolute && events > 0) notes_.add(KinetoNote::RelativeTime);
  } else if (is_absolute) {
    notes_.add(KinetoNote::BaseIgnored);
  } else {
    trace_.base_time_ns = metadata.base_time_ns;
    for_each_vector(trace_, [&](auto& all) {
      for (auto& event : all) event.start_ns += *metadata.base_time_ns;
    });
  }
}

RankTrace RankTraceBuilder::finish(KinetoMetadata metadata) {
  drop_open_begins();
  link_flows();
  set_aside_lost_gpu_ops();
  keep_linked_calls();
  add_base(metadata);
  complete_members(metadata.groups);
  for_each_vector(trace_, [](auto& events) { sort_by_start(events); });
  for (std::size_t cut = cut_corrupt_durations(trace_.gpu_ops); cut > 0; --cut)
    notes_.add(KinetoNote::CutAtNext);
  trace_.comms.shrink_to_fit();

  trace_.world_size = metadata.world_size;
  trace_.backend = std::move(metadata.backend);
  trace_.host = std::move(metadata.host);
  trace_.common_clock = std::move(metadata.common_clock);
  trace_.groups = std::move(metadata.groups);
  const auto used_device = std::ranges::find_if(metadata.devices, [&](const auto& device) {
    return !trace_.gpu_ops.empty() && device.first == trace_.gpu_ops.front().device;
  });
  if (used_device != metadata.devices.end()) {
    trace_.gpu_name = std::move(used_device->second);
  } else if (!metadata.devices.empty()) {
    trace_.gpu_name = std::move(metadata.devices.front().second);
  }
  if (trace_.gpu_ops.empty()) notes_.add(KinetoNote::NoGpuWork);
  trace_.names = names_.take();
  trace_.threads = threads_.take();
  return std::move(trace_);
}

}  // namespace prism
