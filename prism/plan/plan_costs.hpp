// SPDX-License-Identifier: Apache-2.0
// Mean durations of a plan's ops: cost models asked once per (op, GPU kind) and (message, placement).
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "prism/plan/plan.hpp"
#include "prism/plan/plan_laws.hpp"
#include "prism/plan/rank_layout.hpp"

namespace prism {

class PlanCosts {
 public:
  /// Keeps references to both.
  PlanCosts(const Plan& plan, const RankLayout& layout) : plan_(plan), layout_(layout) {}

  /// What a compute op takes on the GPU of a rank, by kernel class.
  const std::vector<KernelTime>& kernels(const PassOp& op, std::int32_t rank, std::uint32_t replica);
  /// Their sum, times the factors of slow ranks and hosts.
  double compute_ns(const PassOp& op, std::int32_t rank, std::uint32_t replica);

  /// What a collective of a group takes when the last member has arrived, where the group lies for `replica`.
  double collective_ns(const Communication& communication, const TemplateGroup& group, std::uint32_t replica);
  /// What a message between two ranks takes.
  double transfer_ns(double bytes, std::int32_t from, std::int32_t to, std::uint32_t replica);

 private:
  double message_ns(CollectiveOp kind, double bytes, const GroupPlace& placement);
  [[nodiscard]] double slow_compute(std::int32_t rank, std::uint32_t replica) const;
  [[nodiscard]] double slow_link(const GroupPlace& placement, std::int32_t rank, std::uint32_t replica) const;

  /// Where a group lies for the replicas that `replica` shares it with.
  const GroupPlace& placement(const TemplateGroup& group, std::uint32_t replica);

  const Plan& plan_;
  const RankLayout& layout_;
  std::map<std::pair<const PassOp*, std::size_t>, std::vector<KernelTime>> kernels_;  // by GPU kind
  std::map<std::pair<const TemplateGroup*, std::uint32_t>, GroupPlace> placements_;
  std::map<std::tuple<CollectiveOp, double, GroupPlace>, double> messages_;
};

}  // namespace prism
