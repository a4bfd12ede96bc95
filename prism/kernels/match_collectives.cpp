// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/match_collectives.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "prism/kernels/align_order.hpp"
#include "prism/kernels/check_trace_set.hpp"
#include "prism/kernels/match_point_to_point.hpp"
#include "prism/kernels/relative_clocks.hpp"
#include "prism/kernels/report_matching.hpp"
#include "prism/kernels/trace_clocks.hpp"
#include "prism/trace/error.hpp"

namespace prism {

namespace {

constexpr std::ptrdiff_t kNoPosition = PTRDIFF_MIN;

/// The ops of one group in one trace, in order of issue, and the place of each in the group's common sequence.
struct RankSequence {
  std::size_t trace = 0;
  ClockFit clock;  // its clock minus that of the group's reference, from this group alone
  std::vector<std::uint32_t> ops;
  std::vector<OrderedOp> ordered;        // beside ops
  std::vector<std::ptrdiff_t> position;  // beside ops; kNoPosition: none
  std::vector<bool> odd;                 // beside ops; does not fit the op of its position in the reference
};

/// Why a group could not be aligned.
struct GroupFailure {
  OrderFailure order;
  std::size_t a = 0;  // sequences
  std::size_t b = 0;
};

class Matcher {
 public:
  Matcher(std::span<const RankTrace> traces, std::span<const RankCommunication> communication,
          ImportReport& report)
      : traces_(traces), communication_(communication), report_(report), clocks_(absolute(traces)) {}

  CollectiveMatching match() {
    check_trace_set(traces_);
    out_.groups = build_group_table(traces_, communication_, report_);
    number_signatures();
    out_.matches_of.resize(traces_.size());
    reason_.resize(traces_.size());
    for (std::size_t t = 0; t < traces_.size(); ++t) {
      out_.matches_of[t].resize(communication_[t].ops.size());
      reason_[t].resize(communication_[t].ops.size());
    }
    channels_ = find_channels(traces_, communication_, out_.groups);
    for (const std::uint32_t group : best_recorded_first()) match_group(group);
    for (const auto& [key, channel] : channels_.channels) match_channel(key, channel);
    std::ranges::stable_sort(out_.matched, {}, &MatchedCollective::group);
    for (std::uint32_t m = 0; m < out_.matched.size(); ++m) {
      for (const CommMember& member : out_.matched[m].members) {
        out_.matches_of[member.trace][member.op].push_back(m);
      }
    }
    list_local();
    clocks_.join_absolute();
    out_.clocks = have_common_clock(traces_)
                      ? std::vector<TraceClock>(traces_.size())
                      : estimate_trace_clocks(traces_, communication_, out_.matched, clocks_, report_);
    return std::move(out_);
  }

 private:
  static std::vector<bool> absolute(std::span<const RankTrace> traces) {
    std::vector<bool> is_absolute;
    for (const RankTrace& trace : traces) is_absolute.push_back(trace.absolute_time);
    return is_absolute;
  }

  static bool have_common_clock(std::span<const RankTrace> traces) {
    return std::ranges::all_of(traces, [&](const RankTrace& trace) {
      return !trace.common_clock.empty() && trace.common_clock == traces.front().common_clock;
    });
  }

  const CommunicationOp& op(CommMember m) const { return communication_[m.trace].ops[m.op]; }
  const GpuOp& gpu_op(CommMember m) const { return traces_[m.trace].gpu_ops[op(m).gpu_op]; }
  static bool is_recorded(const CommunicationOp& op) { return is_informative(op); }
  /// A send or receive by its record; the kernels of other collectives may look like one.
  static bool is_transfer(const CommunicationOp& op) {
    return is_informative(op) && is_point_to_point(op.kind);
  }

  // --- What each op looks like, comparable between traces ---

  std::uint32_t number(std::string_view name) {
    if (name.empty()) return 0;
    return names_.try_emplace(std::string(name), static_cast<std::uint32_t>(names_.size() + 1)).first->second;
  }

  void number_signatures() {
    ordered_.resize(traces_.size());
    for (std::size_t t = 0; t < traces_.size(); ++t) {
      std::vector<std::uint32_t> kernels;
      for (const KernelName& kernel : communication_[t].kernels) kernels.push_back(number(kernel.base));
      std::vector<std::optional<std::uint32_t>> types(traces_[t].names.size());
      for (const CommunicationOp& op : communication_[t].ops) {
        const GpuOp& gpu_op = traces_[t].gpu_ops[op.gpu_op];
        std::optional<std::uint32_t>& type = types[op.dtype.value];
        if (!type) type = number(traces_[t].name(op.dtype));
        OrderedOp ordered{gpu_op.start_ns, gpu_op.end_ns(), {}};
        ordered.signature = {op.kind,
                             is_recorded(op),
                             has_equal_sizes(op.kind, traces_[t].name(op.collective)),
                             kernels[op.kernel],
                             *type,
                             op.in_elements,
                             op.out_elements,
                             {}};
        if (op.sequence >= 0) {
          ordered.signature.number = static_cast<std::uint64_t>(op.sequence);
        } else {
          ordered.signature.number = op.comms_id;
        }
        ordered_[t].push_back(ordered);
      }
    }
  }

  // --- Groups ---

  std::vector<std::uint32_t> best_recorded_first() const {
    std::vector<std::size_t> recorded(out_.groups.groups.size());
    std::vector<std::uint32_t> order;
    for (std::uint32_t g = 0; g < recorded.size(); ++g) order.push_back(g);
    for (std::size_t t = 0; t < traces_.size(); ++t) {
      for (std::size_t i = 0; i < communication_[t].ops.size(); ++i) {
        if (out_.groups.of_op[t][i] && is_recorded(communication_[t].ops[i]))
          ++recorded[*out_.groups.of_op[t][i]];
      }
    }
    std::ranges::stable_sort(order, std::greater<>(), [&](std::uint32_t g) { return recorded[g]; });
    return order;
  }

  /// Ops of a group that are matched as collectives; `nameless`: those of them that are send/receive kernels of which
  /// nothing else is known.
  std::vector<RankSequence> sequences(std::uint32_t group, bool nameless) const {
    const bool has_all_to_all = records_all_to_all(group);
    std::vector<RankSequence> all;
    for (const std::size_t t : out_.groups.groups[group].traces) {
      std::vector<std::uint32_t> members;
      bool one_stream = true;
      const std::vector<CommunicationOp>& ops = communication_[t].ops;
      for (std::uint32_t i = 0; i < ops.size(); ++i) {
        if (out_.groups.of_op[t][i] != group) continue;
        const bool is_nameless =
            ops[i].kind == CollectiveKind::SendRecv && !is_recorded(ops[i]) && !has_all_to_all;
        if (is_nameless != nameless || is_transfer(ops[i])) continue;
        one_stream = one_stream && (members.empty() || stream_of({t, i}) == stream_of({t, members[0]}));
        members.push_back(i);
      }
      // One stream runs in the order of issue. What was enqueued before the trace has no time of issue.
      if (!one_stream) {
        std::ranges::stable_sort(members, {},
                                 [&](std::uint32_t i) { return ops[i].issue_ns.value_or(INT64_MIN); });
      }
      if (!members.empty()) all.push_back(unplaced(t, std::move(members)));
    }
    return all;
  }

  RankSequence unplaced(std::size_t trace, std::vector<std::uint32_t> ops) const {
    RankSequence sequence;
    sequence.trace = trace;
    sequence.ops = std::move(ops);
    for (const std::uint32_t i : sequence.ops) sequence.ordered.push_back(ordered_[sequence.trace][i]);
    sequence.position.assign(sequence.ops.size(), kNoPosition);
    sequence.odd.assign(sequence.ops.size(), false);
    return sequence;
  }

  std::pair<std::int32_t, std::uint64_t> stream_of(CommMember m) const {
    return {gpu_op(m).device, gpu_op(m).stream};
  }

  bool records_all_to_all(std::uint32_t group) const {
    for (const std::size_t t : out_.groups.groups[group].traces) {
      for (std::size_t i = 0; i < communication_[t].ops.size(); ++i) {
        const CommunicationOp& op = communication_[t].ops[i];
        if (out_.groups.of_op[t][i] == group && op.kind == CollectiveKind::AllToAll && is_recorded(op))
          return true;
      }
    }
    return false;
  }

  void match_group(std::uint32_t group) {
    const CommGroup& described = out_.groups.groups[group];
    report_silent_members(described);
    std::vector<RankSequence> strong = sequences(group, false);
    std::vector<RankSequence> weak = sequences(group, true);
    if (described.ambiguous) {
      give_up(strong, LocalReason::Ambiguous);
      give_up(weak, LocalReason::Ambiguous);
      return;
    }
    match_strong(group, strong);
    // Kernels that may be anything are matched where they fit, and left alone where they do not.
    if (align_all(weak)) {
      give_up(weak, LocalReason::Ambiguous);
    } else {
      assemble(group, weak);
    }
  }

  void report_silent_members(const CommGroup& group) {
    if (group.traces.size() < 2 || group.members.empty()) return;
    for (std::size_t t = 0; t < traces_.size(); ++t) {
      if (!traces_[t].rank || !std::ranges::binary_search(group.members, *traces_[t].rank)) continue;
      if (std::ranges::binary_search(group.traces, t)) continue;
      report_.add(Severity::DataLoss, "a trace has no communication of a group that its rank belongs to",
                  traces_[t].source + ": group " + group.name);
    }
  }

  void match_strong(std::uint32_t group, std::vector<RankSequence>& all) {
    // Numbers match whatever is missing between them; where only some ops have one, order comes first.
    if (all.size() > 1 && is_numbered(all)) return match_numbers(group, all);
    const std::optional<GroupFailure> failure = align_all(all);
    if (!failure) return assemble(group, all);
    if (numbered_ranks(all) > 1) return match_numbers(group, all);
    // The backlog before the trace may hold other communication of the stream.
    std::vector<RankSequence> recorded = recorded_only(all);
    if (recorded.size() > 1 && !align_all(recorded)) {
      give_up(all, LocalReason::Ambiguous);
      return assemble(group, recorded);
    }
    if (!failure->order.ambiguous) refuse(group, all[failure->a], all[failure->b], failure->order);
    give_up(all, LocalReason::Ambiguous);
  }

  void match_numbers(std::uint32_t group, std::vector<RankSequence>& all) {
    place_by_number(all);
    learn_from_positions(all);
    assemble(group, all);
  }

  static bool is_numbered(const std::vector<RankSequence>& all) {
    return std::ranges::all_of(all, [](const RankSequence& sequence) {
      return std::ranges::all_of(sequence.ordered,
                                 [](const OrderedOp& op) { return op.signature.number.has_value(); });
    });
  }

  static std::size_t numbered_ranks(const std::vector<RankSequence>& all) {
    return static_cast<std::size_t>(std::ranges::count_if(all, [](const RankSequence& sequence) {
      return std::ranges::any_of(sequence.ordered,
                                 [](const OrderedOp& op) { return op.signature.number.has_value(); });
    }));
  }

  std::vector<RankSequence> recorded_only(const std::vector<RankSequence>& all) const {
    std::vector<RankSequence> out;
    for (const RankSequence& sequence : all) {
      std::vector<std::uint32_t> kept;
      for (const std::uint32_t i : sequence.ops) {
        if (is_recorded(communication_[sequence.trace].ops[i])) kept.push_back(i);
      }
      if (!kept.empty()) out.push_back(unplaced(sequence.trace, std::move(kept)));
    }
    return out;
  }

  void give_up(const std::vector<RankSequence>& all, LocalReason reason) {
    for (const RankSequence& sequence : all) {
      for (const std::uint32_t i : sequence.ops) reason_[sequence.trace][i] = reason;
    }
  }

  /// Aligns every sequence with the longest one. None: done; else the first that cannot be.
  std::optional<GroupFailure> align_all(std::vector<RankSequence>& all) {
    if (all.size() < 2) return std::nullopt;
    const auto reference = static_cast<std::size_t>(
        std::ranges::max_element(all, {}, [](const RankSequence& s) { return s.ops.size(); }) - all.begin());
    RankSequence& a = all[reference];
    for (std::size_t i = 0; i < a.ops.size(); ++i) a.position[i] = static_cast<std::ptrdiff_t>(i);
    for (std::size_t s = 0; s < all.size(); ++s) {
      if (s == reference) continue;
      RankSequence& b = all[s];
      const OrderResult result =
          align_order(a.ordered, b.ordered, clocks_.prior(a.trace, b.trace), PairTiming::Collective);
      if (!result.alignment) {
        for (RankSequence& sequence : all) sequence = unplaced(sequence.trace, std::move(sequence.ops));
        return GroupFailure{result.failure, reference, s};
      }
      for (std::size_t i = 0; i < b.ops.size(); ++i) {
        b.position[i] = static_cast<std::ptrdiff_t>(i) + result.alignment->shift;
      }
      for (const std::size_t i : result.alignment->odd) b.odd[i] = true;
      b.clock = result.alignment->clock;
    }
    learn(all);
    return std::nullopt;
  }

  /// Remembers how the clocks of a group's ranks stand to each other.
  void learn(const std::vector<RankSequence>& all) {
    const RankSequence& first = all.front();
    for (const RankSequence& other : all) {
      if (other.trace != first.trace)
        clocks_.learn(first.trace, other.trace, other.clock.offset_ns - first.clock.offset_ns);
    }
  }

  /// The position of an op is its number, counted over the numbers that occur; the k-th op with one number is apart.
  static void place_by_number(std::vector<RankSequence>& all) {
    std::map<std::pair<std::uint64_t, std::size_t>, std::ptrdiff_t> positions;
    const auto visit = [&](auto&& action) {
      for (RankSequence& sequence : all) {
        std::map<std::uint64_t, std::size_t> seen;
        for (std::size_t i = 0; i < sequence.ops.size(); ++i) {
          const std::optional<std::uint64_t> number = sequence.ordered[i].signature.number;
          if (number) action(sequence, i, std::pair(*number, seen[*number]++));
        }
      }
    };
    visit([&](RankSequence&, std::size_t, std::pair<std::uint64_t, std::size_t> key) { positions[key] = 0; });
    std::ptrdiff_t next = 0;
    for (auto& [key, position] : positions) position = next++;
    visit([&](RankSequence& sequence, std::size_t i, std::pair<std::uint64_t, std::size_t> key) {
      sequence.position[i] = positions[key];
    });
  }

  /// The clocks of a group placed by number, relative to its first rank.
  void learn_from_positions(std::vector<RankSequence>& all) {
    const RankSequence& a = all.front();
    std::map<std::ptrdiff_t, std::size_t> in_a;
    for (std::size_t i = 0; i < a.ops.size(); ++i) in_a[a.position[i]] = i;
    for (std::size_t s = 1; s < all.size(); ++s) {
      std::vector<ClockSample> samples;
      for (std::size_t i = 0; i < all[s].ops.size(); ++i) {
        const auto found = in_a.find(all[s].position[i]);
        if (all[s].position[i] == kNoPosition || found == in_a.end()) continue;
        const std::int64_t end = all[s].ordered[i].end_ns;
        samples.push_back({end, end - a.ordered[found->second].end_ns});
      }
      all[s].clock = fit_clock(samples);
    }
    learn(all);
  }

  /// Ops of one position become one collective if every traced rank of the group has one, and they agree.
  void assemble(std::uint32_t group, const std::vector<RankSequence>& all) {
    struct At {
      std::ptrdiff_t position;
      std::size_t sequence;
      std::size_t index;
    };
    const std::size_t ranks = out_.groups.groups[group].traces.size();
    std::vector<At> placed;
    for (std::size_t s = 0; s < all.size(); ++s) {
      for (std::size_t i = 0; i < all[s].ops.size(); ++i) {
        if (all[s].position[i] != kNoPosition) placed.push_back({all[s].position[i], s, i});
        reason_[all[s].trace][all[s].ops[i]] =
            ranks > 1 ? LocalReason::PartnerMissing : LocalReason::Untraced;
      }
    }
    if (ranks < 2) return;
    std::ranges::stable_sort(placed, {}, &At::position);
    std::size_t whole = 0;
    std::vector<std::pair<At, At>> contradictions;
    for (std::size_t begin = 0, end = 0; begin < placed.size(); begin = end) {
      while (end < placed.size() && placed[end].position == placed[begin].position) ++end;
      if (end - begin != ranks) continue;
      ++whole;
      MatchedCollective match;
      std::optional<std::size_t> odd;
      for (std::size_t k = begin; k < end; ++k) {
        const RankSequence& sequence = all[placed[k].sequence];
        match.members.push_back({sequence.trace, sequence.ops[placed[k].index]});
        if (sequence.odd[placed[k].index] ||
            !agree(all[placed[begin].sequence], placed[begin].index, sequence, placed[k].index)) {
          odd = k;
        }
      }
      if (odd) {
        contradictions.emplace_back(placed[begin], placed[*odd]);
        for (const CommMember& m : match.members) reason_[m.trace][m.op] = LocalReason::Odd;
        continue;
      }
      complete(group, match);
    }
    if (contradictions.size() > std::max<std::size_t>(1, whole / 20)) {
      const auto& [a, b] = contradictions.back();
      OrderFailure failure;
      failure.in_a = a.index;
      failure.in_b = b.index;
      failure.reason = "differ in kind, type, size or time";
      refuse(group, all[a.sequence], all[b.sequence], failure);
    }
  }

  bool agree(const RankSequence& a, std::size_t in_a, const RankSequence& b, std::size_t in_b) const {
    const OrderedOp& x = a.ordered[in_a];
    const OrderedOp& y = b.ordered[in_b];
    return a.trace == b.trace ||
           (can_match(x.signature, y.signature) &&
            agree_in_time(on_reference_clock(x, a.clock), on_reference_clock(y, b.clock),
                          std::max(a.clock.spread_ns, b.clock.spread_ns), PairTiming::Collective));
  }

  void complete(std::uint32_t group, MatchedCollective& match) {
    const CommGroup& described = out_.groups.groups[group];
    match.group = group;
    match.evidence = MatchEvidence::Sequence;
    for (const CommMember& m : match.members) {
      const OpSignature& signature = ordered_[m.trace][m.op].signature;
      if (!signature.recorded) {
        match.evidence = MatchEvidence::KernelOrder;
      } else if (!signature.number && match.evidence == MatchEvidence::Sequence) {
        match.evidence = MatchEvidence::MetadataOrder;
      }
      if (match.kind == CollectiveKind::Unknown ||
          (match.kind == CollectiveKind::SendRecv && signature.recorded)) {
        match.kind = signature.kind;
      }
      match.bytes = std::max(match.bytes, op(m).bytes);
      reason_[m.trace][m.op].reset();
    }
    match.untraced = described.size < 0
                         ? -1
                         : std::max(0, described.size - static_cast<std::int32_t>(match.members.size()));
    out_.matched.push_back(std::move(match));
  }

  // --- Point to point ---

  void match_channel(const ChannelKey& key, const Channel& channel) {
    const std::uint32_t group = std::get<0>(key);
    const auto local = [&](const std::vector<Channel::Transfer>& side, LocalReason reason) {
      for (const Channel::Transfer& transfer : side) reason_[transfer.op.trace][transfer.op.op] = reason;
    };
    const LocalReason initial = channel.sends.empty() || channel.receives.empty()
                                    ? LocalReason::Untraced
                                    : LocalReason::PartnerMissing;
    for (const auto* side : {&channel.sends, &channel.receives}) {
      for (const Channel::Transfer& transfer : *side) {
        if (!in_pair(transfer.op)) reason_[transfer.op.trace][transfer.op.op] = initial;
      }
    }
    if (initial == LocalReason::Untraced) return;
    const RankSequence a = side_of(channel.sends);
    const RankSequence b = side_of(channel.receives);
    const OrderResult result =
        align_order(a.ordered, b.ordered, clocks_.prior(a.trace, b.trace), PairTiming::SendFirst);
    if (!result.alignment) {
      if (!result.failure.ambiguous) refuse(group, a, b, result.failure);
      local(channel.sends, LocalReason::Ambiguous);
      local(channel.receives, LocalReason::Ambiguous);
      return;
    }
    clocks_.learn(a.trace, b.trace, result.alignment->clock.offset_ns);
    auto odd = result.alignment->odd.begin();
    for (std::size_t i = 0; i < b.ops.size(); ++i) {
      const std::ptrdiff_t j = static_cast<std::ptrdiff_t>(i) + result.alignment->shift;
      if (j < 0 || j >= static_cast<std::ptrdiff_t>(a.ops.size())) continue;
      const CommMember send{a.trace, a.ops[static_cast<std::size_t>(j)]};
      const CommMember receive{b.trace, b.ops[i]};
      if (odd != result.alignment->odd.end() && *odd == i) {
        ++odd;
        for (const CommMember& m : {send, receive}) {
          if (!in_pair(m)) reason_[m.trace][m.op] = LocalReason::Odd;
        }
        continue;
      }
      MatchedCollective match;
      match.members = {send, receive};
      complete(group, match);
      MatchedCollective& pair = out_.matched.back();
      pair.kind = CollectiveKind::SendRecv;
      pair.untraced = 0;
      paired_.insert(send);
      paired_.insert(receive);
    }
  }

  bool in_pair(CommMember m) const { return paired_.contains(m); }

  RankSequence side_of(const std::vector<Channel::Transfer>& side) const {
    RankSequence sequence;
    sequence.trace = side.front().op.trace;
    for (const Channel::Transfer& transfer : side) {
      sequence.ops.push_back(transfer.op.op);
      OrderedOp ordered = ordered_[transfer.op.trace][transfer.op.op];
      // What is sent is what is received; the counters of the two sides are not.
      ordered.signature.kind = CollectiveKind::SendRecv;
      ordered.signature.equal_sizes = true;
      ordered.signature.in_elements = ordered.signature.out_elements = transfer.elements;
      ordered.signature.number.reset();
      sequence.ordered.push_back(ordered);
    }
    return sequence;
  }

  // --- What is left ---

  [[noreturn]] void refuse(std::uint32_t group, const RankSequence& a, const RankSequence& b,
                           const OrderFailure& failure) const {
    const auto describe = [&](const RankSequence& sequence, std::size_t i) {
      const OrderedOp& ordered = sequence.ordered[i];
      std::string text = std::string(collective_kind_name(ordered.signature.kind));
      if (ordered.signature.in_elements >= 0)
        text += " of " + std::to_string(ordered.signature.in_elements) + " elements";
      return text + " at " + time_text(traces_[sequence.trace], ordered.start_ns);
    };
    throw InputError(
        {traces_[b.trace].source, {}, {}},
        "its communication in group \"" + out_.groups.groups[group].name + "\" does not fit that of " +
            traces_[a.trace].source + ": " + describe(b, failure.in_b) + " and " + describe(a, failure.in_a) +
            " " + failure.reason,
        "give the files of one run of one job, recorded at the same time and whole: where events are "
        "missing in the middle, ranks cannot be matched by order");
  }

  void list_local() {
    for (const CommMember& m : channels_.without_peer) reason_[m.trace][m.op] = LocalReason::PeerUnknown;
    for (std::size_t t = 0; t < traces_.size(); ++t) {
      for (std::uint32_t i = 0; i < communication_[t].ops.size(); ++i) {
        if (!out_.matches_of[t][i].empty()) continue;
        LocalReason reason = LocalReason::GroupUnknown;
        if (communication_[t].ops[i].kind == CollectiveKind::Copy) {
          reason = LocalReason::Copy;
        } else if (reason_[t][i]) {
          reason = *reason_[t][i];
        }
        // Alone, no op can have a partner, whatever its record leaves open.
        if (traces_.size() == 1 && reason != LocalReason::Copy) reason = LocalReason::Untraced;
        out_.local.push_back({{t, i}, reason});
      }
    }
  }

  std::span<const RankTrace> traces_;
  std::span<const RankCommunication> communication_;
  ImportReport& report_;
  RelativeClocks clocks_;
  CollectiveMatching out_;
  PointToPoint channels_;
  std::map<std::string, std::uint32_t> names_;
  std::vector<std::vector<OrderedOp>> ordered_;  // [trace][communication op]
  std::vector<std::vector<std::optional<LocalReason>>>
      reason_;  // [trace][communication op] none: matched or unseen
  std::set<CommMember> paired_;
};

}  // namespace

std::size_t CollectiveMatching::count(MatchEvidence evidence) const {
  return static_cast<std::size_t>(std::ranges::count(matched, evidence, &MatchedCollective::evidence));
}

std::size_t CollectiveMatching::count(LocalReason reason) const {
  return static_cast<std::size_t>(std::ranges::count(local, reason, &LocalOp::reason));
}

CollectiveMatching match_collectives(std::span<const RankTrace> traces,
                                     std::span<const RankCommunication> communication, ImportReport& report) {
  CollectiveMatching matching = Matcher(traces, communication, report).match();
  report_matching(traces, communication, matching, report);
  return matching;
}

}  // namespace prism
