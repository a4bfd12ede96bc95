// SPDX-License-Identifier: Apache-2.0
// Pipeline schedules: in which order each pipeline rank runs its passes.
//
// Orders are those published: GPipe (Huang et al. 2019), 1F1B (Narayanan et al. 2021), interleaved 1F1B
// (Megatron), zero bubble H1 and V (Qi et al. 2024), DualPipe and DualPipeV (DeepSeek). Communication
// follows from the order and is not part of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "prism/plan/parallel.hpp"

namespace prism {

enum class PassKind : std::uint8_t {
  Forward,
  Backward,        ///< input and weight gradients together
  BackwardInput,   ///< I
  BackwardWeight,  ///< W
};

/// One pass of one microbatch through one virtual stage.
struct Pass {
  PassKind kind = PassKind::Forward;
  std::int32_t stage = 0;       ///< virtual stage, 0 .. stages-1, along the way of the microbatch
  std::int32_t microbatch = 0;  ///< 0 .. microbatches-1 of one replica
  std::int32_t copy = 0;        ///< which model copy (DualPipe has two: its directions)
  bool with_next = false;       ///< runs overlapped with the pass that follows it
  friend bool operator==(const Pass&, const Pass&) = default;
};

struct PipelineSchedule {
  std::int32_t ranks = 1;                ///< p
  std::int32_t stages = 1;               ///< virtual stages of one model copy
  std::int32_t microbatches = 1;         ///< m
  std::int32_t copies = 1;               ///< model copies; of 2, copy 0 has the first m/2 microbatches
  std::vector<std::vector<Pass>> order;  ///< [rank], in time order
  std::vector<std::vector<std::int32_t>> rank_of;  ///< [copy][stage]

  /// The rank that holds a stage of a model copy.
  [[nodiscard]] std::int32_t rank(std::int32_t copy, std::int32_t stage) const {
    return rank_of[static_cast<std::size_t>(copy)][static_cast<std::size_t>(stage)];
  }
};

/// The schedule of `choice` (not Table) for p ranks and m microbatches. Throws InputError (place: `source`)
/// with the reason if p, m and the number of chunks do not admit it. DualPipe: p and m even, m >= 2p;
/// DualPipeV: m >= 2p, 2 chunks; ZB-V: 2 chunks, p <= 1,448; interleaved: any that does not deadlock, among
/// them all of Megatron's (a group of p to m microbatches, the last group as large as the others or at
/// least p). At most 4 million passes of each kind.
PipelineSchedule make_schedule(const ScheduleChoice& choice, std::int64_t p, std::int64_t m,
                               const std::string& source);

/// Reads the table that torchtitan and PyTorch write: one row per pipeline rank, cells
/// `<stage><op><microbatch>` in time order with op F, B, I or W, overlapped cells `(2F0;3B1)OVERLAP_F_B`,
/// empty cells idle. Cells of the lowered format (SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD,
/// REDUCE_GRAD) are left out. Throws InputError with file, line and cell for unknown cells, a doubled pass
/// and a stage on two ranks, with file and line (the rank's row) for a missing pass and a rank without
/// passes, with file for a missing stage and an order that deadlocks.
PipelineSchedule parse_schedule_table(std::string_view csv, const std::string& source);

/// Durations of one pass of each kind through one whole rank's share of the model; a virtual stage takes
/// its share of that. Communication is free.
struct PassCosts {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
};

/// What a schedule does when communication is free: when each pass starts, how long it takes in all, what
/// is alive.
struct ScheduleTimes {
  double makespan = 0;
  std::vector<std::vector<double>> start;  ///< [rank][position in its order]
  std::vector<double> idle;                ///< [rank]: makespan less its passes
  /// [rank]: most virtual-stage forwards whose weight gradient is still due. A forward that overlaps a
  /// backward counts beside it.
  std::vector<std::int32_t> most_alive;
};

/// Time and memory are linear in the passes. Precondition: the stages, copies and microbatches of passes
/// are those that `schedule` counts. Throws InputError naming passes of the circle if the order deadlocks.
/// Costs of a virtual stage are the rank's over the number of virtual stages it holds (over 1 for DualPipe,
/// whose copies are whole stages).
ScheduleTimes time_schedule(const PipelineSchedule& schedule, const PassCosts& costs,
                            const std::string& source);

}  // namespace prism
