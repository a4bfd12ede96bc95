// SPDX-License-Identifier: Apache-2.0
#include "prism/plan/plan_costs.hpp"

#include <algorithm>

#include "prism/plan/collective_cost.hpp"
#include "prism/plan/gpu_kind.hpp"

namespace prism {

namespace {

bool is_slow(const SlowPart& part, std::int64_t rank, std::int64_t host) {
  return part.number == (part.what == SlowPart::What::Rank ? rank : host);
}

}  // namespace

const std::vector<KernelTime>& PlanCosts::kernels(const PassOp& op, std::int32_t rank,
                                                  std::uint32_t replica) {
  const std::size_t kind = layout_.location(rank, replica).group;
  const auto [place, is_new] = kernels_.try_emplace({&op, kind});
  if (is_new) {
    for (const Kernel& kernel : op.kernels) {
      place->second.push_back({kernel.kind, kernel_ns(kernel, plan_.cluster.groups[kind].gpu)});
    }
  }
  return place->second;
}

double PlanCosts::slow_compute(std::int32_t rank, std::uint32_t replica) const {
  double factor = 1;
  for (const SlowPart& part : plan_.variability.slow) {
    if (is_slow(part, layout_.global_rank(rank, replica), layout_.location(rank, replica).host))
      factor *= part.compute;
  }
  return factor;
}

double PlanCosts::slow_link(const GroupPlace& placement, std::int32_t rank, std::uint32_t replica) const {
  if (placement.link != LinkClass::Network && placement.link != LinkClass::Far) return 1;
  double factor = 1;
  for (const SlowPart& part : plan_.variability.slow) {
    if (is_slow(part, layout_.global_rank(rank, replica), layout_.location(rank, replica).host)) {
      factor = std::max(factor, part.communication);
    }
  }
  return factor;
}

double PlanCosts::compute_ns(const PassOp& op, std::int32_t rank, std::uint32_t replica) {
  double sum = 0;
  for (const KernelTime& kernel : kernels(op, rank, replica)) sum += kernel.ns;
  return sum * slow_compute(rank, replica);
}

double PlanCosts::message_ns(CollectiveOp kind, double bytes, const GroupPlace& placement) {
  const auto [place, is_new] = messages_.try_emplace({kind, bytes, placement}, 0.0);
  if (is_new) place->second = collective_time(kind, bytes, placement, plan_.collectives).ns;
  return place->second;
}

const GroupPlace& PlanCosts::placement(const TemplateGroup& group, std::uint32_t replica) {
  const auto [place, is_new] = placements_.try_emplace({&group, group.replicas.index_of(replica)});
  if (is_new) place->second = layout_.placement(group, replica);
  return place->second;
}

double PlanCosts::collective_ns(const Communication& communication, const TemplateGroup& group,
                                std::uint32_t replica) {
  const GroupPlace& lies = placement(group, replica);
  double factor = 1;  // one slow member holds all up
  if (!plan_.variability.slow.empty()) {
    const std::uint32_t size = group.replicas.size;
    const std::uint32_t stride = group.replicas.stride;
    const std::uint32_t first = replica / (size * stride) * (size * stride) + replica % stride;
    for (const std::int32_t member : group.members) {
      for (std::uint32_t i = 0; i < size; ++i) {
        factor = std::max(factor, slow_link(lies, member, first + i * stride));
      }
    }
  }
  return message_ns(communication.kind, communication.bytes, lies) * (1 - communication.hidden) * factor;
}

double PlanCosts::transfer_ns(double bytes, std::int32_t from, std::int32_t to, std::uint32_t replica) {
  const GroupPlace placement = layout_.pair(from, to, replica);
  const double factor = std::max(slow_link(placement, from, replica), slow_link(placement, to, replica));
  return message_ns(CollectiveOp::SendReceive, bytes, placement) * factor;
}

}  // namespace prism
