// SPDX-License-Identifier: Apache-2.0
// Which part of the training step each GPU op belongs to: phase, microbatch and stage, where annotations,
// operators or threads say so.
#pragma once

#include <cstdint>
#include <vector>

#include "prism/kernels/communication.hpp"
#include "prism/kernels/launches.hpp"
#include "prism/model/step_model.hpp"
#include "prism/trace/rank_trace.hpp"

namespace prism {

struct OpPlace {
  Phase phase = Phase::Unknown;
  std::int32_t microbatch = -1;  ///< -1: not annotated
  std::int32_t stage = -1;
};

/// [GPU op]. Communication is its own phase. Launched inside "Optimizer.step": optimizer. Launched on autograd's thread
/// or inside its operators: backward. Launched by another operator of the thread that carries the step annotations:
/// forward. Microbatch and stage: annotations such as "forward microbatch 3 stage 1" that enclose the launch.
std::vector<OpPlace> find_op_places(const RankTrace& trace, const Launches& launches,
                                    const RankCommunication& communication);

}  // namespace prism
