// SPDX-License-Identifier: Apache-2.0
// What a plan comes to before anything is simulated: sizes, work, bubble, memory, messages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "prism/plan/memory.hpp"
#include "prism/plan/plan.hpp"

namespace prism {

/// Messages of one axis and kind, as one rank of the busiest pipeline rank takes part in them.
struct MessageSummary {
  GroupAxis axis = GroupAxis::Tp;
  CollectiveOp kind = CollectiveOp::AllReduce;
  std::string name;
  std::size_t count = 0;  ///< per rank and step
  double bytes = 0;       ///< of one, as nccl-tests counts
  double ns = 0;          ///< mean transfer time of one
  std::string algorithm;  ///< "ring simple", "nvls", "measured", ...
  LinkClass link = LinkClass::None;
  std::int64_t ranks = 1;  ///< of the group
};

struct PlanSummary {
  ParameterCount parameters;  ///< zeros for a free-form plan
  double flops_per_step = 0;  ///< model FLOPs (no recomputation), all ranks
  double tokens_per_step = 0;
  double peak_flops = 0;  ///< bf16, dense, of all GPUs; FLOP/s
  double bubble = 0;  ///< idle share of the schedule with free communication and backward twice the forward
  std::vector<MemoryUse> memory;           ///< per pipeline rank; empty for a free-form plan
  std::vector<double> memory_limit_bytes;  ///< per pipeline rank: GPU memory less the reserve
  std::vector<MessageSummary> messages;    ///< largest total time first
};

/// Throws what build_plan_model throws for an impossible plan, but not for lack of memory.
PlanSummary summarise_plan(const Plan& plan);

}  // namespace prism
