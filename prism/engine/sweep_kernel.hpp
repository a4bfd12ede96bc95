// SPDX-License-Identifier: Apache-2.0
// The sweep kernel's interface: plain data in, finish times in slots out. One replica, one segment, one block
// of 32 samples per call.
//
// The body (sweep_kernel.cpp) is written once with Highway, compiled for several instruction sets, and the
// best one the processor has is chosen at run time. All give equal bits: the same additions, maxima and
// multiplications in the same order, none fused; random words and pool indices are whole numbers.
#pragma once

#include <cstdint>

namespace prism {

/// Samples of a block: four 512-bit registers of double.
inline constexpr std::uint32_t kLanes = 32;

/// How an instruction's duration is drawn, given the replica's pool.
enum class Draw : std::uint8_t {
  None,                ///< zero
  Table,               ///< pool[row[lane]]
  TableScaled,         ///< pool[row[lane]] * factor[lane]
  Random,              ///< pool[floor(N * u)]
  RandomScaled,        ///< the same times factor[lane]
  RandomInStep,        ///< pool[row[lane] + floor(N * u)]: any of N members of the row's step
  RandomInStepScaled,  ///< the same times factor[lane]
  // Composed durations (model/composed_durations.hpp): base * factor[lane], times an own draw.
  Base,           ///< 1
  BasePool,       ///< pool[floor(N * u)]
  BaseLognormal,  ///< exp(sigma z - sigma^2 / 2), z the normal quantile of u
};

/// Whether a draw is of a composed duration.
constexpr bool is_composed(Draw draw) {
  return draw == Draw::Base || draw == Draw::BasePool || draw == Draw::BaseLognormal;
}

/// Whether a draw reads a factor row.
constexpr bool is_scaled(Draw draw) {
  return draw == Draw::TableScaled || draw == Draw::RandomScaled || draw == Draw::RandomInStepScaled ||
         is_composed(draw);
}

enum class Action : std::uint8_t {
  Run,     ///< out = max(inputs) + duration
  Arrive,  ///< meeting = max(meeting, inputs): the replica's arrival at a node that spans replicas
  Depart,  ///< out = meeting + duration, in the segment after all replicas have arrived
};

/// Slot numbers with this bit live across segments, in the replica's own memory; others are shared scratch.
inline constexpr std::uint32_t kCarried = 1U << 31;

struct Instruction {
  std::uint64_t pool = 0;         ///< first value of replica 0's pool
  std::uint64_t draw_id = 0;      ///< id of the random number
  std::uint32_t pool_stride = 0;  ///< values between the pools of two replicas
  std::uint32_t pool_size = 0;    ///< N of Random and RandomInStep
  std::uint32_t row = 0;          ///< index row of the Table and RandomInStep draws
  std::uint32_t factor = 0;       ///< factor row of the scaled draws
  std::uint32_t out = 0;          ///< slot
  std::uint32_t first_input = 0;  ///< slots[first_input, + input_count) are the predecessors
  std::uint32_t input_count = 0;
  std::uint32_t meeting = 0;     ///< of Arrive and Depart
  std::uint32_t share_size = 1;  ///< replicas that share a draw: group size and stride
  std::uint32_t share_stride = 1;
  std::uint32_t replica_offset = 0;  ///< added to the replica (or group) that keys the random number
  std::uint32_t base = 0;            ///< composed: index of replica 0's base
  std::uint32_t base_stride = 0;     ///< 1: each replica has its own
  double sigma = 0;                  ///< of BaseLognormal
  Action action = Action::Run;
  Draw draw = Draw::None;
  bool ends_step = false;  ///< nothing follows: its finish counts for the step's end
};

/// Where the replicas of a spanning node meet: `first` + group index is a block of lanes.
struct Meeting {
  std::uint32_t first = 0;
  std::uint32_t size = 1;
  std::uint32_t stride = 1;
};

struct SweepArgs {
  const Instruction* begin = nullptr;
  const Instruction* end = nullptr;
  const std::uint32_t* inputs = nullptr;  ///< slot numbers
  const Meeting* meetings = nullptr;
  const double* pools = nullptr;
  const double* bases = nullptr;       ///< of composed durations
  const double* normal = nullptr;      ///< coefficients of the normal quantile (stats/normal_table.hpp)
  const std::int32_t* rows = nullptr;  ///< [row][lane]
  const double* factors = nullptr;     ///< [factor][lane]
  double* scratch = nullptr;           ///< [slot][lane]
  double* carried = nullptr;           ///< [slot][lane] of this replica
  double* met = nullptr;               ///< [meeting block][lane]
  double* step_end = nullptr;          ///< [lane]
  std::uint32_t replica = 0;
  std::uint32_t pool_replica = 0;  ///< replica whose pools it takes
  std::uint32_t block = 0;         ///< samples 32*block, ...
  std::uint32_t seed = 0;
  std::uint32_t purpose = 0;
};

/// Instruction sets the kernel exists for, the weakest first.
enum class SimdLevel : std::uint8_t { Portable, Sse4, Avx2, Avx512 };

using SweepFunction = void (*)(const SweepArgs&);

/// The kernel for a level; null if this build or this processor does not have it.
SweepFunction sweep_kernel(SimdLevel level);

/// The highest level that this build has and this processor can run.
SimdLevel best_simd_level();

/// "portable", "SSE4", "AVX2" or "AVX-512".
const char* simd_level_name(SimdLevel level);

}  // namespace prism
