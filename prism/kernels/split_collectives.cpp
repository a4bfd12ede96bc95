// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/split_collectives.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <utility>

namespace prism {

namespace {

/// Times of one member on the common clock.
struct Interval {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

std::int64_t median(std::vector<std::int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  const std::int64_t below = *std::max_element(values.begin(), middle);
  return below + (*middle - below) / 2;
}

/// When what held up a member was there: the latest start among the members that began before it ended.
std::int64_t ready_for(const Interval& own, const std::vector<Interval>& all) {
  std::int64_t ready = own.start_ns;
  for (const Interval& other : all) {
    if (other.start_ns <= own.end_ns) ready = std::max(ready, other.start_ns);
  }
  return ready;
}

class Splitter {
 public:
  Splitter(std::span<const RankTrace> traces, std::span<const RankCommunication> communication,
           const CollectiveMatching& matching, ImportReport& report)
      : traces_(traces), communication_(communication), matching_(matching), report_(report) {}

  CollectiveSplit split() {
    out_.ops.resize(traces_.size());
    ready_.resize(traces_.size());
    for (std::size_t t = 0; t < traces_.size(); ++t) {
      out_.ops[t].resize(communication_[t].ops.size());
      ready_[t].resize(communication_[t].ops.size());
      for (std::uint32_t i = 0; i < communication_[t].ops.size(); ++i) {
        out_.ops[t][i].transfer_ns = gpu_op({t, i}).duration_ns;
      }
    }
    for (const MatchedCollective& match : matching_.matched) out_.matches.push_back(split(match));
    for (std::size_t t = 0; t < traces_.size(); ++t) {
      for (std::uint32_t i = 0; i < ready_[t].size(); ++i) apply({t, i});
    }
    take_shortest();
    return std::move(out_);
  }

 private:
  const GpuOp& gpu_op(CommMember m) const {
    return traces_[m.trace].gpu_ops[communication_[m.trace].ops[m.op].gpu_op];
  }
  Interval interval(CommMember m) const {
    const GpuOp& op = gpu_op(m);
    const std::int64_t start = matching_.clocks[m.trace].aligned(op.start_ns);
    return {start, start + op.duration_ns};
  }

  MatchSplit split(const MatchedCollective& match) {
    MatchSplit result;
    std::vector<Interval> all;
    for (const CommMember& m : match.members) all.push_back(interval(m));
    const auto last = std::ranges::max_element(all, {}, &Interval::start_ns);
    result.last_arriver = static_cast<std::size_t>(last - all.begin());
    result.ready_ns = last->start_ns;
    result.start_spread_ns =
        last->start_ns - std::ranges::min_element(all, {}, &Interval::start_ns)->start_ns;
    const std::int64_t latest_end = std::ranges::max_element(all, {}, &Interval::end_ns)->end_ns;
    result.end_spread_ns = latest_end - std::ranges::min_element(all, {}, &Interval::end_ns)->end_ns;
    result.shortest_ns = INT64_MAX;
    std::vector<std::int64_t> transfers;
    for (std::size_t k = 0; k < all.size(); ++k) {
      const CommMember m = match.members[k];
      const std::int64_t ready = ready_for(all[k], all);
      result.shortest_ns = std::min(result.shortest_ns, all[k].end_ns - all[k].start_ns);
      transfers.push_back(all[k].end_ns - ready);
      std::optional<std::int64_t>& known = ready_[m.trace][m.op];
      known = std::max(known.value_or(ready), ready);
      out_.ops[m.trace][m.op].exit_skew_ns =
          std::min(out_.ops[m.trace][m.op].exit_skew_ns, all[k].end_ns - latest_end);
    }
    // A sender leaves when its buffers are taken; the transfer is over when the receiver has it.
    result.transfer_ns =
        is_point_to_point(match.kind) && all.size() == 2 ? transfers[1] : median(std::move(transfers));
    return result;
  }

  void apply(CommMember m) {
    const std::optional<std::int64_t> ready = ready_[m.trace][m.op];
    if (!ready) return;
    OpSplit& op = out_.ops[m.trace][m.op];
    const Interval own = interval(m);
    op.basis = SplitBasis::Members;
    op.wait_ns = *ready - own.start_ns;
    op.transfer_ns = own.end_ns - *ready;
  }

  /// Untraced members may have held an op up beyond what the traced ones show.
  void take_shortest() {
    std::map<std::string, std::vector<CommMember>> pools;
    for (const LocalOp& local : matching_.local) {
      if (waits_for_untraced(local.reason)) pools[pool_key(local.op)].push_back(local.op);
    }
    for (const MatchedCollective& match : matching_.matched) {
      const bool all_there = match.untraced == 0 || (match.untraced < 0 && all_traced());
      if (all_there) continue;
      for (const CommMember& m : match.members) pools[pool_key(m)].push_back(m);
    }
    std::size_t ops = 0;
    for (const auto& [key, members] : pools) {
      std::int64_t shortest = INT64_MAX;
      for (const CommMember& m : members) {
        shortest = std::min(shortest, out_.ops[m.trace][m.op].transfer_ns);
      }
      for (const CommMember& m : members) {
        OpSplit& op = out_.ops[m.trace][m.op];
        op.basis = SplitBasis::Shortest;
        op.wait_ns = gpu_op(m).duration_ns - shortest;
        op.transfer_ns = shortest;
        ++ops;
      }
    }
    for (std::size_t i = 0; i < matching_.matched.size(); ++i) {
      const CommMember first = matching_.matched[i].members.front();
      if (out_.ops[first.trace][first.op].basis == SplitBasis::Shortest) {
        out_.matches[i].transfer_ns = out_.ops[first.trace][first.op].transfer_ns;
      }
    }
    if (ops == 0) return;
    report_.add({Severity::Info,
                 "communication with untraced ranks: the shortest of its kind and size counts as transfer, "
                 "the rest as "
                 "waiting for them",
                 ops,
                 {}});
  }

  bool all_traced() const {
    int world = -1;
    for (const RankTrace& trace : traces_) world = std::max(world, trace.world_size.value_or(-1));
    return world <= static_cast<int>(traces_.size());
  }

  std::string pool_key(CommMember m) const {
    const CommunicationOp& op = communication_[m.trace].ops[m.op];
    const std::optional<std::uint32_t> group = matching_.groups.of_op[m.trace][m.op];
    const std::int32_t size = group ? matching_.groups.groups[*group].size : op.group_size;
    const KernelName& kernel = communication_[m.trace].kernels[op.kernel];
    return communication_pool_key(op.kind, size, GroupPlacement::Unknown, op.bytes, kernel) + kernel.base;
  }

  std::span<const RankTrace> traces_;
  std::span<const RankCommunication> communication_;
  const CollectiveMatching& matching_;
  ImportReport& report_;
  CollectiveSplit out_;
  std::vector<std::vector<std::optional<std::int64_t>>>
      ready_;  // [trace][communication op] on the common clock
};

}  // namespace

CollectiveSplit split_collectives(std::span<const RankTrace> traces,
                                  std::span<const RankCommunication> communication,
                                  const CollectiveMatching& matching, ImportReport& report) {
  return Splitter(traces, communication, matching, report).split();
}

GroupPlacement placement_of(std::span<const RankTrace> traces, const CommGroup& group) {
  std::size_t known = 0;
  const std::string* host = nullptr;
  for (const std::size_t t : group.traces) {
    if (traces[t].host.empty()) continue;
    if (host != nullptr && *host != traces[t].host) return GroupPlacement::InterHost;
    host = &traces[t].host;
    ++known;
  }
  const bool is_whole = group.size > 0 && known == static_cast<std::size_t>(group.size);
  return is_whole ? GroupPlacement::IntraHost : GroupPlacement::Unknown;
}

std::string communication_pool_key(CollectiveKind kind, std::int32_t group_size, GroupPlacement placement,
                                   std::int64_t bytes, const KernelName& kernel) {
  const auto number = [](std::int64_t value) { return value < 0 ? std::string("?") : std::to_string(value); };
  std::string key(collective_kind_name(kind));
  key += ", " + number(group_size) + " ranks";
  if (placement != GroupPlacement::Unknown) {
    key += placement == GroupPlacement::IntraHost ? ", intra-host" : ", inter-host";
  }
  key += ", " + number(bytes) + " bytes";
  if (!kernel.algorithm.empty()) key += ", " + kernel.algorithm;
  if (!kernel.protocol.empty()) key += (kernel.algorithm.empty() ? ", " : " ") + kernel.protocol;
  return key;
}

std::optional<CommunicationPool> parse_communication_pool_key(std::string_view key) {
  const auto take = [&] {
    const std::size_t end = std::min(key.find(", "), key.size());
    const std::string_view part = key.substr(0, end);
    key.remove_prefix(std::min(end + 2, key.size()));
    return part;
  };
  /// The number in front of a unit; -1 for "?".
  const auto number = [](std::string_view part, std::string_view unit, auto& value) {
    if (!part.ends_with(unit)) return false;
    part.remove_suffix(unit.size());
    if (part == "?") return true;
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), value);
    return parsed.ec == std::errc() && parsed.ptr == part.data() + part.size() && value >= 0;
  };
  constexpr std::array<Axis, kAxisCount> kAxes = {Axis::Tp, Axis::Cp, Axis::Ep, Axis::Dp, Axis::Pp};
  for (const Axis axis : kAxes) {
    const std::string prefix = std::string(axis_name(axis)) + " ";
    if (key.starts_with(prefix)) key.remove_prefix(prefix.size());
  }
  for (const std::string_view pair : {", stage ", ", rank "}) key = key.substr(0, key.rfind(pair));
  CommunicationPool pool;
  const std::string_view kind = take();
  pool.kind = kind_of_collective(kind);
  if (collective_kind_name(pool.kind) != kind) return std::nullopt;
  if (!number(take(), " ranks", pool.group_size)) return std::nullopt;
  std::string_view part = take();
  if (part == "intra-host" || part == "inter-host") part = take();
  if (!number(part, " bytes", pool.bytes)) return std::nullopt;
  pool.kernel = std::string(key);
  return pool;
}

}  // namespace prism
