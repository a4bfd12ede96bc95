// SPDX-License-Identifier: Apache-2.0
// The sweep kernel's interface: plain data in, finish times in slots out. One replica, one segment, one block
// of 32 samples per call.
//
// The body (sweep_kernel.inc) is compiled once per x86-64 level with plain loops over the 32 lanes, and the
// best one the processor has is chosen at run time. All levels give equal bits: the same additions, maxima
// and multiplications in the same order, none fused. So that no code of a higher level leaks into the rest of
// the program, the body calls no function of any header.
#pragma once

#include <cstdint>

namespace prism {

/// Samples of a block: two 512-bit registers of float, four of double.
inline constexpr std::uint32_t kLanes = 32;

/// How an instruction's duration is drawn, given the replica's pool.
enum class Draw : std::uint8_t {
  None,          ///< zero
  Table,         ///< pool[row[lane]]
  TableScaled,   ///< pool[row[lane]] * factor[lane]
  Random,        ///< pool[floor(N * u)]
  RandomInStep,  ///< pool[row[lane] + floor(N * u)]: any of N members of the row's step
};

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
  std::uint32_t row = 0;          ///< index row of Table, TableScaled, RandomInStep
  std::uint32_t factor = 0;       ///< factor row of TableScaled
  std::uint32_t out = 0;          ///< slot
  std::uint32_t first_input = 0;  ///< slots[first_input, + input_count) are the predecessors
  std::uint32_t input_count = 0;
  std::uint32_t meeting = 0;     ///< of Arrive and Depart
  std::uint32_t share_size = 1;  ///< replicas that share a draw: group size and stride
  std::uint32_t share_stride = 1;
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

template <class Real>
struct SweepArgs {
  const Instruction* begin = nullptr;
  const Instruction* end = nullptr;
  const std::uint32_t* inputs = nullptr;  ///< slot numbers
  const Meeting* meetings = nullptr;
  const Real* pools = nullptr;
  const std::int32_t* rows = nullptr;  ///< [row][lane]
  const Real* factors = nullptr;       ///< [factor][lane]
  Real* scratch = nullptr;             ///< [slot][lane]
  Real* carried = nullptr;             ///< [slot][lane] of this replica
  Real* met = nullptr;                 ///< [meeting block][lane]
  Real* step_end = nullptr;            ///< [lane]
  std::uint32_t replica = 0;
  std::uint32_t block = 0;  ///< samples 32*block, ...
  std::uint32_t seed = 0;
  std::uint32_t purpose = 0;
};

/// Instruction set levels the kernel exists for. `Baseline` is what the rest of the program is compiled for.
enum class SimdLevel : std::uint8_t { Baseline, V2, V3, V4 };

template <class Real>
using SweepFunction = void (*)(const SweepArgs<Real>&);

/// The kernel for a level; null if this build or this processor does not have it.
template <class Real>
SweepFunction<Real> sweep_kernel(SimdLevel level);

/// The highest level this processor can run.
SimdLevel best_simd_level();

/// "baseline", "x86-64-v2", "x86-64-v3" or "x86-64-v4".
const char* simd_level_name(SimdLevel level);

}  // namespace prism
