// SPDX-License-Identifier: Apache-2.0
// Runs a program: when each host call, GPU op and collective happens, to the nanosecond.
//
// The host of a rank makes its calls in order and stops where a call blocks. A stream runs its ops in launch
// order. An op starts when its launch, the op before it on its stream and the events its stream waits for
// allow; a communication's members end together, once the last has started and the transfer is done.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tests/made_trace/program.hpp"

namespace prism::made {

struct RanInstruction {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::optional<std::size_t> event_call;  ///< of a StreamWait: the instruction that recorded its event
};

struct RanOp {
  std::size_t launched_by = 0;  ///< instruction
  std::int64_t call_ns = 0;
  std::int64_t queued_ns = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::optional<std::size_t> stream_before;  ///< ops of the same rank
  std::vector<std::size_t> waits_for;
  std::vector<std::size_t> host_waited_for;  ///< ops a blocking call awaited since the launch before this one
};

struct RanRank {
  std::vector<RanInstruction> instructions;
  std::vector<RanOp> ops;
};

/// Runs all ranks from `start_ns`. Throws std::logic_error if they wait for each other in a circle.
std::vector<RanRank> run_program(const Program& program, const MadeTraceSpec& spec, std::int64_t start_ns);

}  // namespace prism::made
