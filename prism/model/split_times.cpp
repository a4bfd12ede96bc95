// SPDX-License-Identifier: Apache-2.0
#include "prism/model/split_times.hpp"

#include <algorithm>
#include <map>

#include "prism/model/inference_rule.hpp"

namespace prism {

namespace {

constexpr double kClockErrorNs = -10e6;

/// Times per (step, replica) derived from one recorded job and its graph.
class Times {
 public:
  Times(const RecordedJob& job, const OpGraph& graph)
      : job_(job), graph_(graph), first_(job.first_starts_ns()) {}

  std::size_t steps() const { return job_.step_count(); }
  std::size_t replicas() const { return job_.replicas(); }

  /// Latest end among the op's dependencies; the step's first start if it has none.
  double arrival(OpId op, std::size_t k, std::size_t d) const {
    if (graph_.depends_on[op].empty()) return first_[k];
    double latest = job_.end(graph_.depends_on[op].front(), k, d);
    for (const OpId before : graph_.depends_on[op]) latest = std::max(latest, job_.end(before, k, d));
    return latest;
  }
  CellValues arrivals(OpId op) const {
    return per_cell([&](std::size_t k, std::size_t d) { return arrival(op, k, d); });
  }

  /// Latest value of `time(op, k, d)` over the members of a group, and over all replicas if it spans them.
  template <class Time>
  double latest(const OpGroup& group, std::size_t k, std::size_t d, const Time& time) const {
    const std::size_t begin = group.spans_replicas ? 0 : d;
    const std::size_t end = group.spans_replicas ? replicas() : d + 1;
    double value = time(group.members.front(), k, begin);
    for (const OpId op : group.members) {
      for (std::size_t other = begin; other < end; ++other) value = std::max(value, time(op, k, other));
    }
    return value;
  }

  /// As above for every cell; a spanning group is walked once per step, not once per replica.
  template <class Time>
  CellValues latest_per_cell(const OpGroup& group, const Time& time) const {
    CellValues values(steps() * replicas());
    for (std::size_t k = 0; k < steps(); ++k) {
      const double all = group.spans_replicas ? latest(group, k, 0, time) : 0;
      for (std::size_t d = 0; d < replicas(); ++d) {
        values[k * replicas() + d] = group.spans_replicas ? all : latest(group, k, d, time);
      }
    }
    return values;
  }

  template <class Value>
  CellValues per_cell(const Value& value) const {
    CellValues values(steps() * replicas());
    for (std::size_t k = 0; k < steps(); ++k) {
      for (std::size_t d = 0; d < replicas(); ++d) values[k * replicas() + d] = value(k, d);
    }
    return values;
  }

  double start(OpId op, std::size_t k, std::size_t d) const { return job_.start(op, k, d); }
  double end(OpId op, std::size_t k, std::size_t d) const { return job_.end(op, k, d); }

 private:
  const RecordedJob& job_;
  const OpGraph& graph_;
  std::vector<double> first_;
};

void zero_clock_errors(CellValues& values, std::string_view reason, const std::string& op,
                       ImportReport& report) {
  for (double& value : values) {
    if (value > kClockErrorNs) continue;
    report.add(Severity::Repaired, reason, op);
    value = 0;
  }
}

IdVector<OpId, CellValues> work_of_ops(const RecordedJob& job, const OpGraph& graph, const Times& times,
                                       ImportReport& report) {
  IdVector<OpId, CellValues> work(job.ops.size());
  for (std::size_t i = 0; i < job.ops.size(); ++i) {
    const OpId op(i);
    if (graph.group_of[op]) continue;
    work[op] =
        times.per_cell([&](std::size_t k, std::size_t d) { return job.end(op, k, d) - job.start(op, k, d); });
  }
  for (const OpGroup& group : graph.groups) {
    const CellValues met = times.latest_per_cell(
        group, [&](OpId op, std::size_t k, std::size_t d) { return job.start(op, k, d); });
    for (const OpId op : group.members) {
      work[op] = times.per_cell(
          [&](std::size_t k, std::size_t d) { return job.end(op, k, d) - met[k * times.replicas() + d]; });
      zero_clock_errors(work[op], "transfer part below -10 ms set to 0: clocks disagree",
                        op_text(job.ops[op]), report);
    }
  }
  return work;
}

/// Every op's recorded delay, before it joins its group.
void raw_delays(const RecordedJob& job, const Times& times, SplitTimes& split, ImportReport& report) {
  for (std::size_t i = 0; i < job.ops.size(); ++i) {
    const OpId op(i);
    split.delay_before_ns[op] = times.per_cell(
        [&](std::size_t k, std::size_t d) { return times.start(op, k, d) - times.arrival(op, k, d); });
    zero_clock_errors(split.delay_before_ns[op], "launch delay below -10 ms set to 0: clocks disagree",
                      op_text(job.ops[op]), report);
  }
}

/// start minus arrival, never negative.
CellValues delays_from(const CellValues& starts, const CellValues& arrivals) {
  CellValues delays(starts.size());
  for (std::size_t i = 0; i < delays.size(); ++i) delays[i] = std::max(0.0, starts[i] - arrivals[i]);
  return delays;
}

/// The clean split of delays (sampling.md 2.3).
class CleanDelays {
 public:
  CleanDelays(const RecordedJob& job, const OpGraph& graph, const Times& times, SplitTimes& split)
      : job_(job), graph_(graph), times_(times), split_(split) {}

  void run() {
    for (const OpGroup& group : graph_.groups) delay_group(group);
    std::map<std::pair<OpType, int>, std::vector<OpId>> local;  // by (type, seq): the same op over the stages
    for (std::size_t i = 0; i < job_.ops.size(); ++i) {
      const OpId op(i);
      if (graph_.group_of[op]) continue;
      const CellValues starts = starts_of(op);
      CellValues arrivals = times_.arrivals(op);
      if (!is_compute(job_.ops[op].type)) {
        if (waits_for_replicas(starts, arrivals)) mark_barrier(op, arrivals);
        local[{job_.ops[op].type, job_.ops[op].seq}].push_back(op);
        arrivals_[op] = arrivals;
      }
      split_.delay_before_ns[op] = delays_from(starts, arrivals);
    }
    for (const auto& [key, ops] : local) {
      if (ops.size() == static_cast<std::size_t>(job_.stages()) && ops.size() > 1) remove_stage_waits(ops);
    }
  }

 private:
  CellValues starts_of(OpId op) const {
    return times_.per_cell([&](std::size_t k, std::size_t d) { return times_.start(op, k, d); });
  }

  /// A pair's delay is its send's; a receive's own delay is waiting. A collective has one delay after all
  /// have met.
  void delay_group(const OpGroup& group) {
    const bool pair = !group.spans_replicas && group.members.size() == 2 &&
                      (is_send(job_.ops[group.members[0]].type) || is_send(job_.ops[group.members[1]].type));
    if (pair) {
      for (const OpId op : group.members) {
        if (is_send(job_.ops[op].type))
          split_.delay_before_ns[op] = delays_from(starts_of(op), times_.arrivals(op));
      }
      return;
    }
    const GroupId id = *graph_.group_of[group.members.front()];
    split_.delay_after_ns[id] = delays_from(
        times_.latest_per_cell(group,
                               [&](OpId op, std::size_t k, std::size_t d) { return times_.start(op, k, d); }),
        times_.latest_per_cell(
            group, [&](OpId op, std::size_t k, std::size_t d) { return times_.arrival(op, k, d); }));
  }

  /// (a) In nearly all steps no replica starts before the last one has arrived, and arrivals differ.
  bool waits_for_replicas(const CellValues& starts, const CellValues& arrivals) const {
    if (times_.replicas() < 2) return false;
    std::size_t agreeing = 0;
    double spread = 0;
    for (std::size_t k = 0; k < times_.steps(); ++k) {
      const auto row = [&](const CellValues& values) {
        return std::span(values).subspan(k * times_.replicas(), times_.replicas());
      };
      const double last_arrival = std::ranges::max(row(arrivals));
      agreeing += std::ranges::min(row(starts)) >= last_arrival - kInferenceToleranceNs;
      spread += last_arrival - std::ranges::min(row(arrivals));
    }
    return nearly_all(agreeing, times_.steps()) &&
           spread > kMinSpreadNs * static_cast<double>(times_.steps());
  }

  void mark_barrier(OpId op, CellValues& arrivals) {
    split_.barrier[op] = 1;
    split_.inferences.push_back({"barrier over replicas", op_text(job_.ops[op])});
    for (std::size_t k = 0; k < times_.steps(); ++k) {
      const auto row = std::span(arrivals).subspan(k * times_.replicas(), times_.replicas());
      std::ranges::fill(row, std::ranges::max(row));
    }
  }

  /// (b) In one replica an op waits for its copies on all stages: its delay counts from the last arrival
  /// there. No edge is added, since one template serves all replicas.
  void remove_stage_waits(const std::vector<OpId>& ops) {
    for (std::size_t d = 0; d < times_.replicas(); ++d) {
      CellValues last(times_.steps());
      std::size_t agreeing = 0;
      double spread = 0;
      for (std::size_t k = 0; k < times_.steps(); ++k) {
        const std::size_t cell = k * times_.replicas() + d;
        last[k] = arrivals_[ops.front()][cell];
        double first_arrival = last[k];
        double first_start = times_.start(ops.front(), k, d);
        for (const OpId op : ops) {
          last[k] = std::max(last[k], arrivals_[op][cell]);
          first_arrival = std::min(first_arrival, arrivals_[op][cell]);
          first_start = std::min(first_start, times_.start(op, k, d));
        }
        agreeing += first_start >= last[k] - kInferenceToleranceNs;
        spread += last[k] - first_arrival;
      }
      if (!nearly_all(agreeing, times_.steps()) ||
          spread <= kMinSpreadNs * static_cast<double>(times_.steps()))
        continue;
      split_.inferences.push_back(
          {"wait for all stages", std::string(op_type_name(job_.ops[ops.front()].type)) + " " +
                                      std::to_string(job_.ops[ops.front()].seq) + " of replica " +
                                      std::to_string(d)});
      for (const OpId op : ops) {
        for (std::size_t k = 0; k < times_.steps(); ++k) {
          split_.delay_before_ns[op][k * times_.replicas() + d] =
              std::max(0.0, times_.start(op, k, d) - last[k]);
        }
      }
    }
  }

  const RecordedJob& job_;
  const OpGraph& graph_;
  const Times& times_;
  SplitTimes& split_;
  std::map<OpId, CellValues> arrivals_;  // of local ops, after (a)
};

}  // namespace

SplitTimes split_times(const RecordedJob& job, const OpGraph& graph, LaunchDelays mode,
                       ImportReport& report) {
  const Times times(job, graph);
  SplitTimes split;
  split.work_ns = work_of_ops(job, graph, times, report);
  split.delay_before_ns = IdVector<OpId, CellValues>(job.ops.size());
  split.delay_after_ns = IdVector<GroupId, CellValues>(graph.groups.size());
  split.barrier = IdVector<OpId, char>(job.ops.size(), 0);
  if (mode == LaunchDelays::Raw) raw_delays(job, times, split, report);
  if (mode == LaunchDelays::Clean || mode == LaunchDelays::None) CleanDelays(job, graph, times, split).run();
  if (mode == LaunchDelays::None) {
    for (CellValues& delays : split.delay_before_ns) delays.clear();
    for (CellValues& delays : split.delay_after_ns) delays.clear();
  }
  return split;
}

}  // namespace prism
