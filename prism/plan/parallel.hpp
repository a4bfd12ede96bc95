// SPDX-License-Identifier: Apache-2.0
// How a model is split over ranks.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "prism/model/mesh.hpp"

namespace prism {

/// How the ranks of a context-parallel group exchange keys and values.
enum class ContextExchange : std::uint8_t {
  Ring,       ///< passed on step by step, behind the attention of the part before
  AllGather,  ///< gathered before the attention, exposed
  AllToAll,   ///< heads exchanged for sequence (Ulysses)
};

/// What is kept from forward to backward.
enum class Recompute : std::uint8_t {
  None,
  Selective,  ///< the attention core is computed again
  Full,       ///< the whole layer is computed again
};

enum class ScheduleKind : std::uint8_t {
  GPipe,
  OneForwardOneBackward,  ///< 1F1B
  Interleaved,            ///< interleaved 1F1B
  ZeroBubbleH1,
  ZeroBubbleV,
  DualPipe,
  DualPipeV,
  Table,  ///< read from a file
};

struct Parallel {
  std::int64_t tp = 1;
  std::int64_t cp = 1;
  std::int64_t pp = 1;
  std::int64_t dp = 1;            ///< dense data-parallel degree: replicas
  std::int64_t ep = 1;            ///< expert-parallel degree, a second factorisation of tp*cp*dp ranks
  std::int64_t etp = 1;           ///< tensor-parallel degree of experts
  bool sequence_parallel = true;  ///< norms and dropouts split along the sequence; of no effect with tp 1
  double tp_overlap = 0;          ///< share of tensor-parallel transfer time hidden behind its matrix product
  ContextExchange cp_exchange = ContextExchange::Ring;
  int zero = 1;            ///< 0: replicated, 1: optimizer, 2: and gradients, 3: and weights sharded
  std::int64_t shard = 0;  ///< ranks of dp x cp that share one copy (hybrid sharding); 0: all of them
  bool reshard_after_forward = true;   ///< zero 3: gathered again for backward
  bool overlap_gradients = true;       ///< reductions behind the last microbatch's backward
  bool overlap_parameters = true;      ///< gathers behind the first microbatch's forward
  bool overlap_p2p = true;             ///< pipeline transfers beside compute
  std::int64_t bucket_parameters = 0;  ///< of overlapped data-parallel communication; 0: max(40 M, 1 M * dp)
  int gradient_bytes = 4;              ///< of one reduced gradient value
  int main_gradient_bytes = 4;         ///< of one stored gradient value
  double optimizer_state_bytes = 12;   ///< per parameter: master weight and two moments
  Recompute recompute = Recompute::None;
  std::int64_t recompute_layers = 0;  ///< layers of a stage that Full covers; 0: all
  double expert_load = 1;             ///< largest over mean number of tokens an expert gets
  std::array<Axis, kAxisCount> order = {Axis::Tp, Axis::Cp, Axis::Ep, Axis::Dp, Axis::Pp};  ///< fastest first

  [[nodiscard]] std::int64_t world_size() const { return tp * cp * pp * dp; }
  friend bool operator==(const Parallel&, const Parallel&) = default;
};

struct ScheduleChoice {
  ScheduleKind kind = ScheduleKind::OneForwardOneBackward;
  std::int64_t chunks = 1;  ///< virtual stages per pipeline rank (interleaved); 2 for the V schedules
  std::int64_t group = 0;   ///< interleaved: microbatches per group and chunk; 0: pp
  std::string table;        ///< file of Table
  std::vector<std::int64_t> layers;  ///< per virtual stage, in order; empty: as even as possible
  bool embedding_counts = false;     ///< the embedding takes a layer's place in the split
  bool loss_counts = false;          ///< the output layer takes a layer's place in the split
  bool embedding_alone = false;      ///< the first virtual stage holds the embedding only
  bool loss_alone = false;           ///< the last virtual stage holds the output layer and the loss only
  friend bool operator==(const ScheduleChoice&, const ScheduleChoice&) = default;
};

/// "1f1b", "gpipe", "interleaved", "zb-h1", "zb-v", "dualpipe", "dualpipe-v" or "table".
std::string_view schedule_name(ScheduleKind kind);

}  // namespace prism
