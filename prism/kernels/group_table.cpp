// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/group_table.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "prism/trace/error.hpp"

namespace prism {

namespace {

constexpr std::string_view kOneRun = "give the files of one run of one job, each rank once";

std::string text(const std::vector<std::int32_t>& members) {
  constexpr std::size_t kMaxShown = 16;
  std::string out;
  for (std::size_t i = 0; i < members.size() && i < kMaxShown; ++i) {
    out += (i > 0 ? "," : "") + std::to_string(members[i]);
  }
  if (members.size() > kMaxShown) out += ",... (" + std::to_string(members.size()) + " ranks)";
  return out;
}

/// Sequence numbers that one trace used with one group pointer.
struct Run {
  std::uint64_t pointer = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::size_t ops = 0;
  std::int32_t size = -1;
};

class Builder {
 public:
  Builder(std::span<const RankTrace> traces, std::span<const RankCommunication> communication,
          ImportReport& report)
      : traces_(traces), communication_(communication), report_(report) {}

  GroupTable build() {
    table_.of_op.resize(traces_.size());
    for (std::size_t t = 0; t < traces_.size(); ++t) {
      table_.of_op[t].resize(communication_[t].ops.size());
      list_configured(t);
    }
    for (std::size_t t = 0; t < traces_.size(); ++t) place_named(t);
    for (std::size_t t = 0; t < traces_.size(); ++t) place_runs(t);
    for (std::size_t t = 0; t < traces_.size(); ++t) place_by_stream(t);
    for (CommGroup& group : table_.groups) {
      group.ambiguous = group.identity != GroupIdentity::Name && group.size > 0 &&
                        group.traces.size() > static_cast<std::size_t>(group.size);
    }
    return std::move(table_);
  }

 private:
  std::uint32_t named(const std::string& name) {
    const auto [entry, is_new] = by_name_.try_emplace(name, static_cast<std::uint32_t>(table_.groups.size()));
    if (is_new) {
      table_.groups.emplace_back().name = name;
      told_by_.push_back(0);
    }
    return entry->second;
  }

  void set_members(std::uint32_t index, std::vector<std::int32_t> members, std::size_t trace) {
    if (members.empty()) return;
    if (!std::ranges::is_sorted(members)) std::ranges::sort(members);
    CommGroup& group = table_.groups[index];
    if (group.members.empty()) {
      group.size = static_cast<std::int32_t>(members.size());
      group.members = std::move(members);
      told_by_[index] = trace;
    } else if (group.members != members) {
      throw InputError({traces_[trace].source, {}, {}},
                       "process group \"" + group.name + "\" has ranks " + text(members) + ", but ranks " +
                           text(group.members) + " in " + traces_[told_by_[index]].source,
                       std::string(kOneRun));
    }
  }

  void list_configured(std::size_t t) {
    for (const ProcessGroup& configured : traces_[t].groups) {
      if (configured.name.empty()) continue;
      const std::uint32_t index = named(configured.name);
      set_members(index, configured.members, t);
      CommGroup& group = table_.groups[index];
      if (group.size < 0) group.size = configured.size;
      if (group.description.empty()) group.description = configured.description;
    }
    NameId last;
    const std::vector<std::int32_t>* last_members = nullptr;
    for (const CommRecord& record : traces_[t].comms) {
      if (record.group == NameId() || record.members.empty()) continue;
      // Thousands of records say the same; compare with the one before first.
      if (last_members != nullptr && record.group == last && record.members == *last_members) continue;
      last = record.group;
      last_members = &record.members;
      set_members(named(traces_[t].name(record.group)), record.members, t);
    }
  }

  void join(std::size_t t, std::size_t op, std::uint32_t index) {
    table_.of_op[t][op] = index;
    add_trace(index, t);
  }

  void add_trace(std::uint32_t index, std::size_t t) {
    std::vector<std::size_t>& traces = table_.groups[index].traces;
    const auto at = std::ranges::lower_bound(traces, t);
    if (at == traces.end() || *at != t) traces.insert(at, t);
  }

  void place_named(std::size_t t) {
    const RankTrace& trace = traces_[t];
    std::vector<std::optional<std::uint32_t>> of_name(trace.names.size());
    for (std::size_t i = 0; i < communication_[t].ops.size(); ++i) {
      const CommunicationOp& op = communication_[t].ops[i];
      if (op.group == NameId()) continue;
      std::optional<std::uint32_t>& index = of_name[op.group.value];
      if (!index) {
        index = named(trace.name(op.group));
        check_membership(t, table_.groups[*index]);
      }
      CommGroup& group = table_.groups[*index];
      if (group.description.empty()) group.description = trace.name(op.group_description);
      if (group.size < 0) group.size = op.group_size;
      if (op.group_size > 0 && group.size > 0 && op.group_size != group.size) {
        report_.add(Severity::Info, "a communication record gives another group size than the member list",
                    trace.source + ": group " + group.name);
      }
      join(t, i, *index);
    }
  }

  void check_membership(std::size_t t, const CommGroup& group) const {
    if (!traces_[t].rank || group.members.empty()) return;
    if (std::ranges::binary_search(group.members, *traces_[t].rank)) return;
    throw InputError({traces_[t].source, {}, {}},
                     "rank " + std::to_string(*traces_[t].rank) + " communicates in process group \"" +
                         group.name + "\" of ranks " + text(group.members) + " (" +
                         traces_[told_by_[static_cast<std::size_t>(&group - table_.groups.data())]].source +
                         ")",
                     "the rank of the file is wrong, or " + std::string(kOneRun));
  }

  void place_runs(std::size_t t) {
    std::map<std::uint64_t, Run> runs;
    const std::vector<CommunicationOp>& ops = communication_[t].ops;
    const auto has_run = [](const CommunicationOp& op) {
      return op.group == NameId() && op.group_pointer && op.sequence >= 0;
    };
    for (const CommunicationOp& op : ops) {
      if (!has_run(op)) continue;
      const auto [entry, is_new] = runs.try_emplace(
          *op.group_pointer, Run{*op.group_pointer, op.sequence, op.sequence, 0, op.group_size});
      entry->second.first = std::min(entry->second.first, op.sequence);
      entry->second.last = std::max(entry->second.last, op.sequence);
      ++entry->second.ops;
    }
    std::map<std::uint64_t, std::uint32_t> group_of;
    for (const auto& [pointer, run] : runs) group_of[pointer] = group_with_run(t, run);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (has_run(ops[i])) join(t, i, group_of[*ops[i].group_pointer]);
    }
  }

  /// The known group whose run is about the same: of equal size, and overlapping in at least half of the shorter run
  /// (ranks lose a different number of collectives at the start). A new group if there is none or more than one, or if
  /// this trace has it already.
  std::uint32_t group_with_run(std::size_t t, const Run& run) {
    std::vector<std::uint32_t> similar;
    for (const auto& [index, known] : runs_) {
      const std::int64_t common = std::min(known.last, run.last) - std::max(known.first, run.first) + 1;
      const std::int64_t shorter = std::min(known.last - known.first, run.last - run.first) + 1;
      if (known.size == run.size && common > 0 && common >= shorter - common) similar.push_back(index);
    }
    if (similar.size() == 1 && !std::ranges::binary_search(table_.groups[similar[0]].traces, t)) {
      add_trace(similar[0], t);
      return similar[0];
    }
    const auto index = static_cast<std::uint32_t>(table_.groups.size());
    CommGroup group;
    group.identity = GroupIdentity::SequenceRuns;
    group.name = "sequence " + std::to_string(run.first) + ".." + std::to_string(run.last);
    group.size = run.size;
    group.ambiguous = similar.size() > 1;
    table_.groups.push_back(std::move(group));
    told_by_.push_back(t);
    runs_.emplace(index, run);
    add_trace(index, t);
    return index;
  }

  /// Ops without metadata: of the only group on their stream; on a stream without any, of a group made of the k-th
  /// such stream of every trace.
  void place_by_stream(std::size_t t) {
    using Stream = std::pair<std::int32_t, std::uint64_t>;
    const auto stream_of = [&](std::size_t i) {
      const GpuOp& op = traces_[t].gpu_ops[communication_[t].ops[i].gpu_op];
      return Stream(op.device, op.stream);
    };
    struct Groups {
      std::optional<std::uint32_t> only;
      bool several = false;
    };
    std::map<Stream, Groups> streams;
    std::vector<std::optional<std::uint32_t>>& of_op = table_.of_op[t];
    for (std::size_t i = 0; i < of_op.size(); ++i) {
      if (communication_[t].ops[i].kind == CollectiveKind::Copy) continue;
      Groups& on_stream = streams[stream_of(i)];
      if (!of_op[i]) continue;
      on_stream.several = on_stream.several || (on_stream.only && on_stream.only != of_op[i]);
      on_stream.only = of_op[i];
    }
    std::size_t nameless = 0;
    for (auto& [stream, groups] : streams) {
      if (groups.only) continue;
      groups.only = group_of_stream(nameless++, stream.second);
    }
    for (std::size_t i = 0; i < of_op.size(); ++i) {
      if (of_op[i] || communication_[t].ops[i].kind == CollectiveKind::Copy) continue;
      const Groups& on_stream = streams[stream_of(i)];
      if (!on_stream.several) join(t, i, *on_stream.only);
    }
  }

  std::uint32_t group_of_stream(std::size_t number, std::uint64_t stream) {
    if (number < of_stream_.size()) return of_stream_[number];
    CommGroup group;
    group.identity = GroupIdentity::Stream;
    group.name = "stream " + std::to_string(stream);
    of_stream_.push_back(static_cast<std::uint32_t>(table_.groups.size()));
    table_.groups.push_back(std::move(group));
    told_by_.push_back(0);
    return of_stream_.back();
  }

  std::span<const RankTrace> traces_;
  std::span<const RankCommunication> communication_;
  ImportReport& report_;
  GroupTable table_;
  std::map<std::string, std::uint32_t> by_name_;
  std::vector<std::size_t> told_by_;   // [group] the trace that gave its members
  std::map<std::uint32_t, Run> runs_;  // [group] of those told by sequence numbers
  std::vector<std::uint32_t> of_stream_;
};

}  // namespace

GroupTable build_group_table(std::span<const RankTrace> traces,
                             std::span<const RankCommunication> communication, ImportReport& report) {
  return Builder(traces, communication, report).build();
}

}  // namespace prism
