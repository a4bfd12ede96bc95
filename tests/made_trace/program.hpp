// SPDX-License-Identifier: Apache-2.0
// What every rank's host does, call by call, and what its GPU ops are: a training framework's schedule written
// out. Durations are drawn here; when things happen is decided by machine.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/made_trace/made_trace.hpp"

namespace prism::made {

enum class Thread : std::uint8_t { Main, Autograd };
inline constexpr std::size_t kThreads = 2;

/// The streams of a rank.
inline constexpr std::uint64_t kComputeStream = 7;
inline constexpr std::uint64_t kDataParallelStream = 20;
inline constexpr std::uint64_t kTensorParallelStream = 24;
inline constexpr std::uint64_t kWorldStream = 28;
inline constexpr std::uint64_t kFirstPipelineStream = 32;  ///< and the three after it

struct ProgramOp {
  GpuOpKind kind = GpuOpKind::Kernel;
  std::string name;
  std::uint64_t stream = kComputeStream;
  std::int64_t duration_ns = 0;  ///< of its own work; not used by collectives
  std::int64_t lag_ns = 0;       ///< from the launch call's start to the earliest start
  std::int64_t exit_skew_ns = 0;
  std::int64_t bytes = -1;
  std::uint32_t graph = 0;
  int step = 0;
  std::optional<std::size_t> meeting;  ///< index into Program::meetings
  std::optional<std::size_t> record;   ///< index into RankProgram::records
};

/// One communication as its host record describes it.
struct ProgramRecord {
  std::string collective;
  std::string group;
  std::int64_t in_elements = -1;
  std::int64_t out_elements = -1;
  std::int32_t source = -1;
  std::int32_t destination = -1;
  std::int64_t sequence = -1;
  bool on_kernel = true;
};

/// What the host does next. Calls of one rank run one after the other, whichever thread makes them: a thread
/// works while the other one is blocked.
struct Instruction {
  enum class Kind : std::uint8_t {
    Work,         ///< no call
    Launch,       ///< ops [first, first + count)
    EventRecord,  ///< event `first` is what `stream` holds now
    StreamWait,   ///< later ops of `stream` wait for event `first`
    StreamSync,
    DeviceSync,
    BeginRange,  ///< of an operator, a record or an annotation, named or described below
    EndRange,
  };
  enum class Range : std::uint8_t { Operator, Record, Annotation };

  Kind kind = Kind::Work;
  Thread thread = Thread::Main;
  Range range = Range::Operator;
  std::int64_t duration_ns = 0;
  std::uint64_t stream = 0;
  std::size_t first = 0;
  std::size_t count = 0;
  std::size_t record = 0;  ///< of a Record range: index into RankProgram::records
  int step = 0;
  std::string name;  ///< of the call or range
};

struct RankProgram {
  std::vector<Instruction> instructions;
  std::vector<ProgramOp> ops;
  std::vector<ProgramRecord> records;
  std::size_t events = 0;
};

/// Ops of several ranks that move data together.
struct Meeting {
  struct Member {
    int rank = 0;
    std::size_t op = 0;  ///< index into the rank's ops
  };
  std::string name;
  std::string group;
  int step = 0;
  std::int64_t transfer_ns = 0;
  std::size_t size = 0;  ///< members it takes
  std::vector<Member> members;
};

/// A process group of the job.
struct Group {
  std::string name;
  std::string description;
  std::vector<std::int32_t> members;
};

struct Program {
  std::vector<RankProgram> ranks;
  std::vector<Meeting> meetings;
  std::vector<Group> groups;

  [[nodiscard]] const Group& group(const std::string& name) const;
};

/// The job's program. Throws std::invalid_argument for sizes below 1.
Program write_program(const MadeTraceSpec& spec);

}  // namespace prism::made
