// SPDX-License-Identifier: Apache-2.0
#include "tests/made_trace/recorder.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>

#include "prism/stats/random.hpp"

namespace prism::made {

namespace {

constexpr std::int64_t kBasePeriodNs = 7'889'238'000'000'000;  // Kineto's base time moves by this
constexpr std::int64_t kFirstProcess = 1000;
constexpr std::int64_t kFirstPointer = 93'825'000'000'000;
constexpr std::int64_t kSyncRecordNs = 2000;  // of a stream wait

template <class Key>
double value_or_zero(const std::map<Key, double>& values, Key key) {
  const auto found = values.find(key);
  return found == values.end() ? 0 : found->second;
}

/// Sorts events by start and returns where each went.
template <class Event>
std::vector<std::size_t> sort_by_start(std::vector<Event>& events) {
  std::vector<std::size_t> order(events.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return events[i].start_ns; });
  std::vector<Event> sorted;
  std::vector<std::size_t> place(events.size());
  for (const std::size_t i : order) {
    place[i] = sorted.size();
    sorted.push_back(events[i]);
  }
  events = std::move(sorted);
  return place;
}

class Recorder {
 public:
  Recorder(const MadeTraceSpec& spec, const Program& program, const RanRank& ran, int rank)
      : spec_(spec),
        program_(program),
        mine_(program.ranks[static_cast<std::size_t>(rank)]),
        ran_(ran),
        rank_(rank) {
    out_.trace.names = {""};
    find_window();
    const int host = rank / spec.ranks_per_host;
    out_.clock_drift_ppm = value_or_zero(spec.clock_drift_ppm, host);
    // Relative times count from the window's start.
    out_.clock_offset_ns = spec.absolute_time ? std::llround(1000 * value_or_zero(spec.clock_offset_us, host))
                                              : kMarginNs - window_ns_;
  }

  RecordedRank run() {
    describe_rank();
    record_host();
    record_gpu();
    RankTrace& t = out_.trace;
    sort_by_start(t.calls);
    sort_by_start(t.syncs);
    sort_by_start(t.cpu_ops);
    sort_by_start(t.annotations);
    const std::vector<std::size_t> place = sort_by_start(t.gpu_ops);
    for (auto& op : out_.gpu_op_of) {
      if (op) op = place[*op];
    }
    return std::move(out_);
  }

 private:
  static constexpr std::int64_t kMarginNs = 1'000'000;  // of relative times, so that none is 0

  /// The window starts with the host's first recorded step.
  void find_window() {
    const auto late = spec_.late_by.find(rank_);
    first_step_ = spec_.unprofiled_steps + (late == spec_.late_by.end() ? 0 : late->second);
    while (first_ < mine_.instructions.size() && mine_.instructions[first_].step < first_step_) ++first_;
    window_ns_ = ran_.instructions[std::min(first_, ran_.instructions.size() - 1)].start_ns;
  }

  [[nodiscard]] std::int64_t recorded(std::int64_t true_ns) const {
    const auto since_start = static_cast<double>(true_ns - kJobStartNs);
    return true_ns + out_.clock_offset_ns + std::llround(since_start * out_.clock_drift_ppm * 1e-6);
  }
  template <class Event>
  void set_times(Event& event, std::int64_t start_ns, std::int64_t end_ns) const {
    event.start_ns = recorded(start_ns);
    event.duration_ns = recorded(end_ns) - event.start_ns;
  }

  NameId name(const std::string& text) {
    const auto [known, is_new] = name_of_.try_emplace(text, out_.trace.names.size());
    if (is_new) out_.trace.names.push_back(text);
    return known->second;
  }

  void describe_rank() {
    RankTrace& t = out_.trace;
    t.rank = rank_;
    t.world_size = static_cast<int>(program_.ranks.size());
    t.backend = "nccl";
    t.gpu_name = "Made GPU";
    t.host = "host-" + std::to_string(rank_ / spec_.ranks_per_host);
    t.absolute_time = spec_.absolute_time;
    if (spec_.absolute_time) {
      t.base_time_ns = kBaseTimeNs - (spec_.older_base.contains(rank_) ? kBasePeriodNs : 0);
    }
    const std::string process = std::to_string(kFirstProcess + rank_);
    t.threads = {process + "/" + process, process + "/" + std::to_string(kFirstProcess * 2 + rank_)};
    if (spec_.metadata < Metadata::Names) return;
    for (const Group& group : program_.groups) {
      if (std::ranges::find(group.members, rank_) == group.members.end()) continue;
      t.groups.push_back(
          {group.name, group.description, static_cast<std::int32_t>(group.members.size()), group.members});
    }
  }

  static ThreadId thread_id(Thread thread) { return ThreadId(static_cast<std::size_t>(thread)); }
  static std::int64_t correlation(std::size_t instruction) {
    return static_cast<std::int64_t>(instruction) + 1;
  }

  void record_host() {
    std::vector<std::size_t> open;  // ranges
    for (std::size_t i = first_; i < mine_.instructions.size(); ++i) {
      const Instruction& instruction = mine_.instructions[i];
      switch (instruction.kind) {
        case Instruction::Kind::Work:
          break;
        case Instruction::Kind::BeginRange:
          open.push_back(i);
          break;
        case Instruction::Kind::EndRange:
          record_range(open.back(), i);
          open.pop_back();
          break;
        default:
          record_call(i);
      }
    }
  }

  void record_range(std::size_t begin, std::size_t end) {
    const Instruction& range = mine_.instructions[begin];
    const std::int64_t start_ns = ran_.instructions[begin].start_ns;
    const std::int64_t end_ns = ran_.instructions[end].end_ns;
    if (range.range == Instruction::Range::Annotation) {
      const bool step = range.name == "ProfilerStep#";
      const int number = spec_.first_step + range.step - first_step_;
      Annotation annotation{.thread = thread_id(range.thread),
                            .name = name(step ? range.name + std::to_string(number) : range.name)};
      set_times(annotation, start_ns, end_ns);
      out_.trace.annotations.push_back(annotation);
      return;
    }
    CpuOp op{.thread = thread_id(range.thread), .name = name(range.name)};
    set_times(op, start_ns, end_ns);
    if (range.range == Instruction::Range::Record) {
      if (spec_.metadata == Metadata::None) return;
      op.comm = record(mine_.records[range.record]);
    }
    out_.trace.cpu_ops.push_back(op);
  }

  static HostCallKind kind_of(Instruction::Kind kind) {
    using enum Instruction::Kind;
    switch (kind) {
      case EventRecord:
        return HostCallKind::EventRecord;
      case StreamWait:
        return HostCallKind::StreamWait;
      case StreamSync:
        return HostCallKind::StreamSync;
      case DeviceSync:
        return HostCallKind::DeviceSync;
      default:
        return HostCallKind::Launch;
    }
  }

  void record_call(std::size_t i) {
    const Instruction& instruction = mine_.instructions[i];
    HostCall call{.correlation = correlation(i),
                  .thread = thread_id(instruction.thread),
                  .name = name(instruction.name),
                  .kind = kind_of(instruction.kind)};
    set_times(call, ran_.instructions[i].start_ns, ran_.instructions[i].end_ns);
    out_.trace.calls.push_back(call);
    if (spec_.sync_records) record_sync(i);
  }

  void record_sync(std::size_t i) {
    const Instruction& instruction = mine_.instructions[i];
    const RanInstruction& ran = ran_.instructions[i];
    SyncRecord sync{.correlation = correlation(i), .device = device()};
    std::int64_t end_ns = ran.end_ns;
    switch (instruction.kind) {
      case Instruction::Kind::StreamWait: {
        if (!ran.event_call || *ran.event_call < first_) return;
        sync.kind = SyncRecord::Kind::StreamWait;
        sync.stream = instruction.stream;
        sync.awaited_stream = mine_.instructions[*ran.event_call].stream;
        sync.event_correlation = correlation(*ran.event_call);
        end_ns = std::min(end_ns, ran.start_ns + kSyncRecordNs);
        break;
      }
      case Instruction::Kind::StreamSync:
        sync.kind = SyncRecord::Kind::StreamSync;
        sync.stream = instruction.stream;
        break;
      case Instruction::Kind::DeviceSync:
        sync.kind = SyncRecord::Kind::ContextSync;
        break;
      default:
        return;
    }
    set_times(sync, ran.start_ns, end_ns);
    out_.trace.syncs.push_back(sync);
  }

  [[nodiscard]] std::int32_t device() const { return rank_ % spec_.ranks_per_host; }

  /// A record as the profiler of that version describes it.
  CommId record(const ProgramRecord& described) {
    CommRecord record;
    const bool wait = described.collective == "wait";
    if (wait || spec_.metadata >= Metadata::Names) record.collective = name(described.collective);
    if (wait) {
      record.group_size = 1;
      if (spec_.metadata == Metadata::Position) {
        record.sequence = described.sequence;  // of what is awaited
        record.group_pointer = 0;
      } else {
        record.dtype = name("Byte");
        record.in_elements = record.out_elements = 0;
      }
    } else {
      const Group& group = program_.group(described.group);
      record.group_size = static_cast<std::int32_t>(group.members.size());
      if (spec_.metadata == Metadata::Position) {
        record.sequence = described.sequence;
        record.group_pointer =
            static_cast<std::uint64_t>(kFirstPointer + 4096 * (rank_ + 64 * std::stoi(group.name)));
      } else {
        describe(described, group, record);
      }
    }
    out_.trace.comms.push_back(std::move(record));
    return CommId(out_.trace.comms.size() - 1);
  }

  void describe(const ProgramRecord& described, const Group& group, CommRecord& record) {
    record.dtype = name("BFloat16");
    record.group = name(group.name);
    record.group_description = name(group.description);
    record.in_elements = described.in_elements;
    record.out_elements = described.out_elements;
    // PyTorch names the other side of a pair only.
    if (described.source != rank_) record.source = described.source;
    if (described.destination != rank_) record.destination = described.destination;
    record.members = group.members;
    if (spec_.metadata != Metadata::Full) return;
    record.sequence = described.sequence;
    const bool pair = described.source >= 0;
    std::uint64_t hash = mix_id(static_cast<std::uint64_t>(std::stoi(group.name)),
                                static_cast<std::uint64_t>(described.sequence));
    for (const std::int32_t member : group.members) hash = mix_id(hash, static_cast<std::uint64_t>(member));
    record.comms_id = mix_id(hash, pair ? 1 : 0);
  }

  void record_gpu() {
    out_.gpu_op_of.resize(ran_.ops.size());
    for (std::size_t i = 0; i < ran_.ops.size(); ++i) {
      const ProgramOp& described = mine_.ops[i];
      const RanOp& ran = ran_.ops[i];
      if (ran.start_ns < window_ns_) continue;
      GpuOp op{.stream = described.stream,
               .correlation = correlation(ran.launched_by),
               .bytes = described.bytes,
               .device = device(),
               .name = name(described.name),
               .graph = described.graph,
               .kind = described.kind};
      set_times(op, ran.start_ns, ran.end_ns);
      // The profiler takes a kernel's metadata from the record of its launch.
      if (described.record && spec_.metadata >= Metadata::Names && ran.launched_by >= first_) {
        const ProgramRecord& communication = mine_.records[*described.record];
        if (communication.on_kernel) op.comm = record(communication);
      }
      out_.gpu_op_of[i] = out_.trace.gpu_ops.size();
      out_.trace.gpu_ops.push_back(op);
    }
  }

  const MadeTraceSpec& spec_;
  const Program& program_;
  const RankProgram& mine_;
  const RanRank& ran_;
  int rank_;
  int first_step_ = 0;
  std::size_t first_ = 0;  // recorded instruction
  std::int64_t window_ns_ = 0;
  std::map<std::string, NameId> name_of_{{"", NameId(0)}};
  RecordedRank out_;
};

}  // namespace

RecordedRank record_rank(const MadeTraceSpec& spec, const Program& program, const RanRank& ran, int rank) {
  return Recorder(spec, program, ran, rank).run();
}

}  // namespace prism::made
