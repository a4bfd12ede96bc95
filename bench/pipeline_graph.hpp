// SPDX-License-Identifier: Apache-2.0
// The step graph that the sweep is measured on: a transformer trained with tensor, pipeline and data
// parallelism.
//
// 1F1B; per layer and direction two times (all-gather, one compute op per tensor-parallel rank,
// reduce-scatter). A collective instance is one node (start: max over its members, one duration); a transfer
// between stages is one node per tensor-parallel rank. With dp > 1 the step ends with gradient reduction,
// optimizer and parameter gather. The default sizes are those of a 96-layer model on 1,024 ranks: 1,012,865
// nodes and 1,731,520 edges; with dp = 1 there are 63,233 nodes and 108,032 edges.
#pragma once

#include <cstdint>

#include "prism/model/sampling.hpp"
#include "prism/model/step_model.hpp"

namespace prism::bench {

enum class Durations {
  FirstOnly,  ///< the first node draws from a pool, all others are joins of zero duration
  Plain,      ///< every node draws from the plain pool of its class
  Profiled,   ///< the same values, as `pool_values` profiled steps
};

struct PipelineGraphSpec {
  std::uint32_t tp = 8;
  std::uint32_t pp = 8;
  std::uint32_t dp = 16;
  std::uint32_t microbatches = 16;
  std::uint32_t layers = 12;       ///< of a stage
  bool explicit_replicas = false;  ///< all replicas in one template, instead of dp copies of one
  Durations durations = Durations::Plain;
  std::uint32_t pool_values = 1000;
  bool pools_per_rank = false;  ///< compute pools of each tensor-parallel rank apart: many cold pools
  friend bool operator==(const PipelineGraphSpec&, const PipelineGraphSpec&) = default;
};

/// The model of it. Durations are whole nanoseconds and assumed, not measured: compute lognormal around
/// 0.8 ms forward and 1.6 ms backward with 3 % spread, communication with 15 % and rare outliers.
StepModel pipeline_model(const PipelineGraphSpec& spec);

/// Step effects of a Profiled model that make the compute ops of `hierarchical` scaled draws.
StepEffects made_step_effects(const StepModel& model);

/// Nodes and edges of the whole job by closed formula, a spanning node counted once.
struct GraphSize {
  std::uint64_t nodes = 0;
  std::uint64_t edges = 0;
};
GraphSize expected_size(const PipelineGraphSpec& spec);

}  // namespace prism::bench
