// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/communication.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace prism {

namespace {

constexpr std::string_view kAnnotationPrefix = "nccl:";

bool is_wait(const RankTrace& trace, const CommRecord& record) {
  return trace.name(record.collective) == "wait";
}

bool is_informative(NameId collective, std::int64_t sequence, std::int64_t in_elements,
                    std::int64_t out_elements) {
  return collective != NameId() || sequence >= 0 || in_elements >= 0 || out_elements >= 0;
}

bool is_informative(const CommRecord& record) {
  return is_informative(record.collective, record.sequence, record.in_elements, record.out_elements);
}

/// What `from` knows and `into` lacks.
void fill_in(CommunicationOp& into, const CommRecord& from) {
  const auto take_name = [](NameId& to, NameId name) {
    if (to == NameId()) to = name;
  };
  const auto take_number = [](auto& to, auto number) {
    if (to < 0) to = number;
  };
  take_name(into.collective, from.collective);
  take_name(into.dtype, from.dtype);
  take_name(into.group, from.group);
  take_name(into.group_description, from.group_description);
  take_number(into.in_elements, from.in_elements);
  take_number(into.out_elements, from.out_elements);
  take_number(into.group_size, from.group_size);
  take_number(into.source, from.source);
  take_number(into.destination, from.destination);
  take_number(into.sequence, from.sequence);
  if (!into.comms_id) into.comms_id = from.comms_id;
  if (!into.group_pointer) into.group_pointer = from.group_pointer;
}

/// Of two counts, -1 being unknown. No real count is near the limit.
std::int64_t sum(std::int64_t a, std::int64_t b) {
  if (a < 0 || b < 0) return std::max(a, b);
  return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/// Whether a kernel that says `kernel` can be the work of a record that says `recorded`.
bool can_be(CollectiveKind kernel, CollectiveKind recorded) {
  if (kernel == CollectiveKind::Unknown || recorded == CollectiveKind::Unknown || kernel == recorded)
    return true;
  // Gather, scatter and all-to-all are made of sends and receives.
  return kernel == CollectiveKind::SendRecv &&
         (is_point_to_point(recorded) || recorded == CollectiveKind::AllToAll ||
          recorded == CollectiveKind::Gather || recorded == CollectiveKind::Scatter);
}

class Finder {
 public:
  Finder(const RankTrace& trace, const Launches& launches, const std::vector<CommunicationPattern>& patterns)
      : trace_(trace), launches_(launches), patterns_(patterns) {}

  RankCommunication find() {
    collect_records();
    const auto record_of = operators_around_launches(trace_, launches_, records_);
    mark_records_with_work(record_of);
    for (std::uint32_t i = 0; i < trace_.gpu_ops.size(); ++i) consider(i, record_of[i]);
    claim_coalesced();
    claim_by_order();
    const std::vector<std::optional<std::uint32_t>> annotation_of =
        annotations_around_launches(trace_, launches_, communication_annotations());
    found_.of_gpu_op.resize(trace_.gpu_ops.size());
    for (CommunicationOp& op : found_.ops) finish(op, annotation_of[op.gpu_op]);
    for (const CommunicationOp& op : found_.ops) found_.with_metadata += is_informative(op) ? 1U : 0U;
    for (const std::uint32_t i : records_) {
      if (!owned_[i]) ++(is_informative(record(i)) ? found_.records_without_op : found_.wait_records);
    }
    return std::move(found_);
  }

 private:
  const CommRecord& record(std::uint32_t cpu_op) const {
    return trace_.comms[trace_.cpu_ops[cpu_op].comm->value];
  }
  CollectiveKind recorded_kind(const CommRecord& record) const {
    return kind_of_collective(trace_.name(record.collective));
  }

  void collect_records() {
    owned_.resize(trace_.cpu_ops.size());
    has_known_work_.resize(trace_.cpu_ops.size());
    for (std::uint32_t i = 0; i < trace_.cpu_ops.size(); ++i) {
      if (!trace_.cpu_ops[i].comm) continue;
      if (is_wait(trace_, record(i))) {
        ++found_.wait_records;
      } else {
        records_.push_back(i);
      }
    }
    of_name_.resize(trace_.names.size());
  }

  /// What the name of GPU op `i` says, looked up once per name.
  struct Named {
    bool known = false;
    bool is_communication = false;
    CollectiveKind kind = CollectiveKind::Unknown;
    std::optional<std::uint32_t> kernel;
  };
  Named& named(std::uint32_t i) {
    const NameId id = trace_.gpu_ops[i].name;
    Named& entry = of_name_[id.value];
    if (!entry.known) {
      entry.known = true;
      if (const CommunicationPattern* pattern = find_pattern(patterns_, trace_.name(id))) {
        entry.is_communication = true;
        entry.kind = pattern->kind;
      }
    }
    return entry;
  }
  std::uint32_t kernel(std::uint32_t i) {
    Named& entry = named(i);
    if (!entry.kernel) {
      entry.kernel = static_cast<std::uint32_t>(found_.kernels.size());
      found_.kernels.push_back(parse_kernel_name(trace_.name(trace_.gpu_ops[i].name)));
      if (entry.kind != CollectiveKind::Unknown) found_.kernels.back().kind = entry.kind;
    }
    return *entry.kernel;
  }

  /// A record may also launch copies that pack its tensors. Where it has an op that is communication by itself, only
  /// such ops are.
  void mark_records_with_work(const std::vector<std::optional<std::uint32_t>>& record_of) {
    for (std::uint32_t i = 0; i < trace_.gpu_ops.size(); ++i) {
      if (record_of[i] && (trace_.gpu_ops[i].comm || named(i).is_communication)) {
        has_known_work_[*record_of[i]] = true;
      }
    }
  }

  void consider(std::uint32_t i, std::optional<std::uint32_t> host_record) {
    const GpuOp& gpu_op = trace_.gpu_ops[i];
    CommunicationOp op;
    op.gpu_op = i;
    if (gpu_op.comm) {
      op.evidence = CommEvidence::KernelMetadata;
      fill_in(op, trace_.comms[gpu_op.comm->value]);
    } else if (host_record && (named(i).is_communication ||
                               (!has_known_work_[*host_record] && gpu_op.kind == GpuOpKind::Kernel))) {
      op.evidence = CommEvidence::HostRecord;
    } else if (!named(i).is_communication) {
      return;
    }
    op.kernel = kernel(i);
    if (launches_.call_of[i]) {
      const HostCall& call = trace_.calls[*launches_.call_of[i]];
      op.issue_ns = call.start_ns;
      op.thread = call.thread;
    }
    if (host_record) own(op, *host_record);
    found_.ops.push_back(std::move(op));
  }

  /// Takes a host record for `op`: it fills in what is missing, and the op was issued when it began.
  void own(CommunicationOp& op, std::uint32_t cpu_op) {
    fill_in(op, record(cpu_op));
    op.records.push_back(*trace_.cpu_ops[cpu_op].comm);
    op.issue_ns =
        std::min(op.issue_ns.value_or(trace_.cpu_ops[cpu_op].start_ns), trace_.cpu_ops[cpu_op].start_ns);
    op.thread = trace_.cpu_ops[cpu_op].thread;
    owned_[cpu_op] = true;
  }

  /// Coalesced operations launch one kernel after their records, outside of all of them: it takes the records of its
  /// thread since the thread's communication before it, as far back as they are of one group.
  void claim_coalesced() {
    std::vector<std::vector<std::uint32_t>> pending(trace_.threads.size());
    std::vector<CommunicationOp*> issued;
    for (CommunicationOp& op : found_.ops) {
      if (op.issue_ns) issued.push_back(&op);
    }
    std::ranges::stable_sort(issued, {}, [](const CommunicationOp* op) { return *op->issue_ns; });
    auto next = records_.begin();
    for (CommunicationOp* op : issued) {
      for (; next != records_.end() && trace_.cpu_ops[*next].start_ns <= *op->issue_ns; ++next) {
        if (!owned_[*next] && is_informative(record(*next)))
          pending[trace_.cpu_ops[*next].thread.value].push_back(*next);
      }
      std::vector<std::uint32_t>& before = pending[op->thread->value];
      if (op->evidence == CommEvidence::Name && !before.empty()) {
        coalesce(*op, before);
      }
      before.clear();
    }
  }

  void coalesce(CommunicationOp& op, const std::vector<std::uint32_t>& before) {
    const CommRecord& last = record(before.back());
    auto first = before.end();
    while (first != before.begin()) {
      const CommRecord& candidate = record(*(first - 1));
      if (candidate.group != last.group || candidate.group_pointer != last.group_pointer ||
          !can_be(found_.kernels[op.kernel].kind, recorded_kind(candidate))) {
        break;
      }
      --first;
    }
    if (first == before.end()) return;
    op.evidence = CommEvidence::CoalescedRecords;
    for (auto it = first; it != before.end(); ++it) own(op, *it);
    if (op.records.size() > 1) add_up(op);
  }

  /// Sizes of several records add up; several peers are none.
  void add_up(CommunicationOp& op) const {
    op.in_elements = op.out_elements = -1;
    for (const CommId id : op.records) {
      const CommRecord& part = trace_.comms[id.value];
      op.in_elements = sum(op.in_elements, part.in_elements);
      op.out_elements = sum(op.out_elements, part.out_elements);
      if (is_point_to_point(recorded_kind(part))) op.kind = CollectiveKind::SendRecv;
    }
    if (op.kind == CollectiveKind::SendRecv) op.source = op.destination = -1;
  }

  /// Some profilers write no correlation at all (0): kernels and the records that own none pair from the end, as long
  /// as no kernel starts before its record.
  void claim_by_order() {
    auto free_record = records_.rbegin();
    for (auto op = found_.ops.rbegin(); op != found_.ops.rend(); ++op) {
      if (op->evidence != CommEvidence::Name || trace_.gpu_ops[op->gpu_op].correlation > 0) continue;
      const std::int64_t start = trace_.gpu_ops[op->gpu_op].start_ns;
      while (free_record != records_.rend() &&
             (owned_[*free_record] || !is_informative(record(*free_record)) ||
              trace_.cpu_ops[*free_record].start_ns > start)) {
        ++free_record;
      }
      if (free_record == records_.rend()) return;
      if (!can_be(found_.kernels[op->kernel].kind, recorded_kind(record(*free_record)))) continue;
      op->evidence = CommEvidence::RecordByOrder;
      own(*op, *free_record);
    }
  }

  /// "nccl:all_reduce", "nccl:send 0->1", ...
  std::vector<std::uint32_t> communication_annotations() const {
    std::vector<std::uint32_t> found;
    for (std::uint32_t i = 0; i < trace_.annotations.size(); ++i) {
      if (trace_.name(trace_.annotations[i].name).starts_with(kAnnotationPrefix)) found.push_back(i);
    }
    return found;
  }

  void finish(CommunicationOp& op, std::optional<std::uint32_t> annotation) {
    const KernelName& name = found_.kernels[op.kernel];
    if (op.kind == CollectiveKind::Unknown) op.kind = kind_of_collective(trace_.name(op.collective));
    if (op.kind == CollectiveKind::Unknown) op.kind = name.kind;
    // Most collectives can run as sends and receives, and some kernels are named after none.
    if (annotation && op.collective == NameId() &&
        (op.kind == CollectiveKind::Unknown || op.kind == CollectiveKind::SendRecv)) {
      const std::string_view text = trace_.name(trace_.annotations[*annotation].name);
      const CollectiveKind annotated = kind_of_collective(text.substr(kAnnotationPrefix.size()));
      if (annotated != CollectiveKind::Unknown) op.kind = annotated;
    }
    std::optional<int> size = element_bytes(trace_.name(op.dtype));
    if (!size) size = element_bytes(name.dtype);
    const std::int64_t elements = std::max(op.in_elements, op.out_elements);
    // A size that would not fit is not a size.
    if (size && elements >= 0 && elements <= INT64_MAX / *size) op.bytes = elements * *size;
    if (op.kind == CollectiveKind::Copy && op.bytes < 0) op.bytes = trace_.gpu_ops[op.gpu_op].bytes;
    found_.of_gpu_op[op.gpu_op] = static_cast<std::uint32_t>(&op - found_.ops.data());
  }

  const RankTrace& trace_;
  const Launches& launches_;
  const std::vector<CommunicationPattern>& patterns_;
  RankCommunication found_;
  std::vector<std::uint32_t> records_;  // cpu_ops that record a communication, by start
  std::vector<bool> owned_;             // [cpu_op] a GPU op has it
  std::vector<bool> has_known_work_;    // [cpu_op] launched an op that is communication by itself
  std::vector<Named> of_name_;          // [name]
};

}  // namespace

bool is_informative(const CommunicationOp& op) {
  return is_informative(op.collective, op.sequence, op.in_elements, op.out_elements);
}

RankCommunication find_communication(const RankTrace& trace, const Launches& launches,
                                     const std::vector<CommunicationPattern>& patterns) {
  return Finder(trace, launches, patterns).find();
}

}  // namespace prism
