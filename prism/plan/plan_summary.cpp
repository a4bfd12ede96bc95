// SPDX-License-Identifier: Apache-2.0
#include "prism/plan/plan_summary.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "prism/plan/collective_cost.hpp"
#include "prism/plan/plan_programs.hpp"
#include "prism/plan/rank_layout.hpp"
#include "prism/plan/schedule.hpp"

namespace prism {

namespace {

/// Messages of pipeline rank `rank`, first lane, first replica.
class MessageCount {
 public:
  MessageCount(const Plan& plan, const PlanPrograms& programs, const RankLayout& layout, std::int32_t rank)
      : plan_(plan),
        programs_(programs),
        layout_(layout),
        rank_(rank),
        lane_(layout.template_rank(rank, 0, 0)) {}

  std::vector<MessageSummary> run() {
    std::map<std::pair<std::int32_t, std::int32_t>, std::pair<std::size_t, std::size_t>> ends;
    const std::vector<Pass>& order = programs_.schedule.order[static_cast<std::size_t>(rank_)];
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto place = ends.try_emplace({order[i].copy, order[i].stage}, order.size(), 0).first;
      if (order[i].kind == PassKind::Forward) place->second.first = std::min(place->second.first, i);
      if (order[i].kind == PassKind::Backward || order[i].kind == PassKind::BackwardWeight)
        place->second.second = i;
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Pass& pass = order[i];
      const StagePrograms& stage = programs_.stages[static_cast<std::size_t>(pass.stage)];
      const auto& [first, last] = ends.at({pass.copy, pass.stage});
      add_program(pass.kind == PassKind::Forward         ? stage.forward
                  : pass.kind == PassKind::Backward      ? stage.backward
                  : pass.kind == PassKind::BackwardInput ? stage.backward_input
                                                         : stage.backward_weight,
                  i == first, i == last);
      add_transfer(pass);
    }
    add_program(programs_.step_ends[static_cast<std::size_t>(rank_)], true, true);
    std::vector<MessageSummary> result;
    for (auto& [key, message] : found_) result.push_back(std::move(message));
    std::ranges::stable_sort(result, [](const MessageSummary& a, const MessageSummary& b) {
      return a.ns * static_cast<double>(a.count) > b.ns * static_cast<double>(b.count);
    });
    return result;
  }

 private:
  void add(GroupAxis axis, CollectiveOp kind, const std::string& name, double bytes,
           const GroupPlace& placement) {
    const auto [place, is_new] = found_.try_emplace({axis, kind, name, bytes});
    MessageSummary& message = place->second;
    ++message.count;
    if (!is_new) return;
    const CollectiveTime time = collective_time(kind, bytes, placement, plan_.collectives);
    message.axis = axis;
    message.kind = kind;
    message.name = name;
    message.bytes = bytes;
    message.ns = time.ns;
    message.algorithm = time.algorithm;
    message.link = placement.link;
    message.ranks = placement.ranks;
  }

  void add_program(const PassProgram& program, bool first, bool last) {
    for (const PassOp& op : program.ops) {
      if (!op.communication || (op.when == When::FirstMicrobatch && !first) ||
          (op.when == When::LastMicrobatch && !last)) {
        continue;
      }
      const GroupPlace& place = place_of(op.communication->axis);
      if (place.ranks > 1) {
        add(op.communication->axis, op.communication->kind, op.name, op.communication->bytes, place);
      }
    }
  }

  /// Where the lane's group of an axis lies; of one rank if there is none.
  const GroupPlace& place_of(GroupAxis axis) {
    const auto [known, is_new] = places_.try_emplace(axis);
    if (!is_new) return known->second;
    for (const TemplateGroup& group : layout_.groups(axis, rank_)) {
      if (std::ranges::binary_search(group.members, lane_)) known->second = layout_.placement(group, 0);
    }
    return known->second;
  }

  void add_transfer(const Pass& pass) {
    if (pass.kind == PassKind::BackwardWeight) return;
    const std::int32_t to = pass.stage + (pass.kind == PassKind::Forward ? 1 : -1);
    if (to < 0 || to >= programs_.schedule.stages) return;
    const std::int32_t other = programs_.schedule.rank(pass.copy, to);
    if (other == rank_) return;
    add(GroupAxis::Pp, CollectiveOp::SendReceive,
        pass.kind == PassKind::Forward ? "send activations" : "send gradients", programs_.boundary_bytes,
        layout_.pair(lane_, layout_.template_rank(other, 0, 0), 0));
  }

  const Plan& plan_;
  const PlanPrograms& programs_;
  const RankLayout& layout_;
  std::int32_t rank_;
  std::int32_t lane_;
  std::map<GroupAxis, GroupPlace> places_;
  std::map<std::tuple<GroupAxis, CollectiveOp, std::string, double>, MessageSummary> found_;
};

double idle_share(const PipelineSchedule& schedule, const std::string& source) {
  const ScheduleTimes times = time_schedule(schedule, {}, source);
  double idle = 0;
  for (const double rank : times.idle) idle += rank;
  return times.makespan > 0 ? idle / (times.makespan * static_cast<double>(times.idle.size())) : 0;
}

}  // namespace

PlanSummary summarise_plan(const Plan& plan) {
  const RankLayout layout(plan.parallel, plan.cluster, plan.source);
  const PlanPrograms programs = plan_programs(plan);
  PlanSummary summary;
  summary.bubble = idle_share(programs.schedule, plan.source);
  for (std::uint32_t d = 0; d < layout.replicas(); ++d) {
    for (std::int32_t rank = 0; rank < layout.template_ranks(); ++rank) {
      summary.peak_flops += plan.cluster.groups[layout.location(rank, d).group].gpu.peak(Precision::Bf16);
    }
  }
  if (plan.model) {
    summary.parameters = count_parameters(*plan.model);
    summary.tokens_per_step = static_cast<double>(plan.global_batch() * plan.microbatch.sequence);
    summary.flops_per_step =
        summary.tokens_per_step * model_flops_per_token(*plan.model, plan.microbatch.sequence);
    summary.memory = memory_use(*plan.model, plan.parallel, plan.precisions, plan.microbatch,
                                programs.schedule, programs.layers, plan.source);
    for (std::size_t q = 0; q < summary.memory.size(); ++q) {
      summary.memory_limit_bytes.push_back(layout.least_memory_gb(static_cast<std::int64_t>(q)) * 1e9 -
                                           plan.memory_reserve_gb * 1e9);
    }
  }
  const std::int32_t middle = programs.schedule.ranks / 2;
  summary.messages = MessageCount(plan, programs, layout, middle).run();
  return summary;
}

}  // namespace prism
