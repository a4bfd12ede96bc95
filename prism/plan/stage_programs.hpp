// SPDX-License-Identifier: Apache-2.0
// The passes of each virtual stage of a transformer, and what ends a step.
//
// Work and messages follow plan.md sections 3 and 5 of the literature named in the .cpp: sequence parallelism
// (Korthikanti et al. 2022), ring attention, Ulysses, expert parallelism, ZeRO.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "prism/plan/parallel.hpp"
#include "prism/plan/pass_program.hpp"
#include "prism/plan/precisions.hpp"
#include "prism/plan/transformer.hpp"

namespace prism {

/// What one microbatch holds.
struct Microbatch {
  std::int64_t sequence = 0;   ///< tokens of one sequence
  std::int64_t sequences = 1;  ///< b: sequences of a microbatch, per replica
};

/// Which layers a virtual stage holds.
struct StageLayers {
  std::int64_t first = 0;  ///< layers [first, first + count)
  std::int64_t count = 0;
  bool embedding = false;
  bool loss = false;
};

/// The split of the model's layers over `stages` virtual stages that `choice` asks for. Throws InputError (place: `source`)
/// with the numbers if it does not come out.
std::vector<StageLayers> split_layers(const Transformer& model, const ScheduleChoice& choice,
                                      std::int64_t stages, const std::string& source);

/// Throws InputError (place: `source`) if the model cannot be split so: heads over tp, experts over ep, sequence over cp...
void check_split(const Transformer& model, const Parallel& parallel, const Microbatch& microbatch,
                 const std::string& source);

/// The passes of one virtual stage. Gradient reductions and parameter gathers that overlap are part of them
/// (When::LastMicrobatch, When::FirstMicrobatch; for zero 3 of every pass).
StagePrograms transformer_passes(const Transformer& model, const Parallel& parallel,
                                 const Precisions& precisions, const Microbatch& microbatch,
                                 const StageLayers& layers);

/// What a pipeline rank does after its last pass: gradient reductions that did not overlap, tied embeddings, gradient norm,
/// optimizer, parameter gathers that did not overlap. `stages`: the virtual stages it holds.
PassProgram transformer_step_end(const Transformer& model, const Parallel& parallel,
                                 const Precisions& precisions, const std::vector<StageLayers>& stages);

/// Weights of a virtual stage that one rank of it holds before any data-parallel sharding.
struct RankParameters {
  std::int64_t dense = 0;   ///< replicated over dp x cp
  std::int64_t expert = 0;  ///< replicated over the expert data-parallel group
};
RankParameters rank_parameters(const Transformer& model, const Parallel& parallel, const StageLayers& layers);

/// Bytes that passing on a microbatch from one virtual stage to the next sends, per rank.
double boundary_bytes(const Transformer& model, const Parallel& parallel, const Microbatch& microbatch);

}  // namespace prism
