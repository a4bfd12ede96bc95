// SPDX-License-Identifier: Apache-2.0
#include "prism/analysis/kernel_step_plan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

namespace prism {

namespace {

constexpr std::size_t kAbsent = std::numeric_limits<std::size_t>::max();

class Planner {
 public:
  Planner(const StepModel& model, const RankRoles& roles, const NodeTimes& times, std::uint32_t replica)
      : model_(model), roles_(roles), times_(times), replica_(replica) {}

  StepPlan run() {
    plan_ops();
    plan_calls();
    find_waits();
    for (const StreamRole& stream : roles_.streams) {
      if (duration(stream.start) > 0) plan_.busy_until[stream.stream] = finish_ns(stream.start);
    }
    return std::move(plan_);
  }

 private:
  [[nodiscard]] std::size_t at(NodeId node) const {
    return std::size_t{node.value} * model_.replicas + replica_;
  }
  [[nodiscard]] double duration(NodeId node) const { return times_.duration_ns[at(node)]; }
  /// What a step did not run takes exactly no time.
  [[nodiscard]] bool ran(NodeId node) const { return did_run(duration(node)); }
  [[nodiscard]] std::int64_t finish_ns(NodeId node) const {
    return std::llround(times_.finish(at(node)) - model_.lead_ns);
  }

  void plan_ops() {
    for (std::size_t i = 0; i < roles_.ops.size(); ++i) {
      const OpRole& role = roles_.ops[i];
      if (!ran(role.node)) continue;
      const std::int64_t start_ns = finish_ns(role.gap);
      plan_.ops.push_back(
          {.role = i, .start_ns = start_ns, .end_ns = std::max(finish_ns(role.node), start_ns + 1)});
    }
    std::ranges::stable_sort(plan_.ops, {}, &PlannedOp::start_ns);
    op_of_.assign(roles_.ops.size(), kAbsent);
    for (std::size_t i = 0; i < plan_.ops.size(); ++i) op_of_[plan_.ops[i].role] = i;
  }

  /// The call that launched an op in this step: one that took time, the latest of several.
  [[nodiscard]] std::optional<std::size_t> launching_call(const OpRole& op) const {
    std::optional<std::size_t> best;
    std::tuple<bool, bool, double> rank_of_best;
    for (const LaunchRole& launch : op.launches) {
      const NodeId begin = roles_.calls[launch.call].begin;
      const std::tuple<bool, bool, double> rank(ran(launch.delay), ran(begin), times_.finish(at(begin)));
      if (best && rank <= rank_of_best) continue;
      best = launch.call;
      rank_of_best = rank;
    }
    return best;
  }

  void plan_calls() {
    std::vector<std::vector<std::size_t>> launched(roles_.calls.size());
    for (std::size_t i = 0; i < plan_.ops.size(); ++i) {
      if (const auto call = launching_call(roles_.ops[plan_.ops[i].role])) {
        launched[*call].push_back(i);
      } else {
        plan_.calls.push_back({.role = {}, .start_ns = plan_.ops[i].start_ns, .end_ns = {}, .launched = {i}});
      }
    }
    for (std::size_t c = 0; c < roles_.calls.size(); ++c) {
      const CallRole& role = roles_.calls[c];
      const bool blocked = role.end && ran(*role.end);
      const bool waited = !role.launches && (ran(role.begin) || blocked);
      if (launched[c].empty() && !waited) continue;
      PlannedCall call{
          .role = c, .start_ns = finish_ns(role.begin), .end_ns = {}, .launched = std::move(launched[c])};
      if (blocked) call.end_ns = std::max(call.start_ns, finish_ns(*role.end));
      plan_.calls.push_back(std::move(call));
    }
    std::ranges::stable_sort(plan_.calls, {}, &PlannedCall::start_ns);
    for (std::size_t c = 0; c < plan_.calls.size(); ++c) {
      for (const std::size_t op : plan_.calls[c].launched) plan_.ops[op].call = c;
    }
  }

  [[nodiscard]] std::int64_t stream_of(std::size_t op) const {
    return model_.nodes[roles_.ops[plan_.ops[op].role].node].lane;
  }

  /// Of each other stream the op launched last; through ops that the step did not run.
  void find_waits() {
    for (std::size_t i = 0; i < plan_.ops.size(); ++i) {
      std::map<std::int64_t, std::size_t> last;
      std::set<std::size_t> seen;
      std::vector<std::size_t> todo = roles_.ops[plan_.ops[i].role].after;
      while (!todo.empty()) {
        const std::size_t role = todo.back();
        todo.pop_back();
        if (!seen.insert(role).second) continue;
        const std::size_t before = op_of_[role];
        if (before == kAbsent) {
          todo.insert(todo.end(), roles_.ops[role].after.begin(), roles_.ops[role].after.end());
        } else if (stream_of(before) != stream_of(i)) {
          std::size_t& latest = last.try_emplace(stream_of(before), before).first->second;
          if (plan_.ops[before].call >= plan_.ops[latest].call) latest = before;
        }
      }
      for (const auto& [stream, before] : last) plan_.ops[i].waits_for.push_back(before);
    }
  }

  const StepModel& model_;
  const RankRoles& roles_;
  const NodeTimes& times_;
  std::uint32_t replica_;
  std::vector<std::size_t> op_of_;  // [role] index into plan_.ops
  StepPlan plan_;
};

}  // namespace

std::int64_t StepPlan::host_end_ns() const {
  std::int64_t end = std::numeric_limits<std::int64_t>::min();
  for (const PlannedCall& call : calls) end = std::max(end, call.end_ns.value_or(call.start_ns));
  return calls.empty() ? 0 : end;
}

StepPlan plan_step(const StepModel& model, const RankRoles& roles, const NodeTimes& times,
                   std::uint32_t replica) {
  return Planner(model, roles, times, replica).run();
}

}  // namespace prism
