// SPDX-License-Identifier: Apache-2.0
// GPU memory of a plan, per pipeline rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "prism/plan/schedule.hpp"
#include "prism/plan/stage_programs.hpp"

namespace prism {

struct MemoryUse {  // bytes
  double weights = 0;
  double gradients = 0;
  double optimizer = 0;
  double activations = 0;  ///< of all microbatches in flight at the peak
  double workspace = 0;    ///< communication buffers, framework, logits: a fixed reserve is part of it
  double in_flight = 0;    ///< virtual-stage forwards alive at the peak (a number, not bytes)
  [[nodiscard]] double total() const { return weights + gradients + optimizer + activations + workspace; }
};

/// [pipeline rank]. `layers`: per virtual stage.
std::vector<MemoryUse> memory_use(const Transformer& model, const Parallel& parallel,
                                  const Precisions& precisions, const Microbatch& microbatch,
                                  const PipelineSchedule& schedule, const std::vector<StageLayers>& layers,
                                  const std::string& source);

/// Activation bytes that one rank keeps of one layer and one microbatch from forward to backward.
double layer_activation_bytes(const Transformer& model, const Parallel& parallel,
                              const Precisions& precisions, const Microbatch& microbatch, std::int64_t layer);

}  // namespace prism
