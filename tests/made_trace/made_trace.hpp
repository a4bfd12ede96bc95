// SPDX-License-Identifier: Apache-2.0
// Made-up jobs with known truth, one level below made_job: what a profiler records of each rank's host threads
// and GPU streams.
//
// A simulation of its own (it uses nothing of prism/model or prism/engine) runs every rank: host threads issue
// calls one after the other, streams run kernels in order, events order streams, collectives start their
// transfer when the last member has arrived, and blocking calls hold the host. What was simulated is then
// recorded as a profiler would: from a window, with the clock of each host, with or without metadata. Not part
// of the library.
//
//   const MadeTrace made = make_trace({.dp = 2, .pp = 2, .microbatches = 4});
//   made.ranks[3]            what rank 3's profiler saw
//   made.truth.steps[0]      the first recorded step's true time
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "prism/trace/rank_trace.hpp"

namespace prism {

/// How replicas share gradients and parameters.
enum class DataParallelism : std::uint8_t {
  Ddp,   ///< a layer's gradients are all-reduced beside the backward that goes on
  Fsdp,  ///< parameters are gathered per layer, one layer ahead; gradients reduce-scattered
};

/// What a step ends with on the host.
enum class StepEnd : std::uint8_t {
  Nothing,     ///< the host runs ahead of the GPU
  Item,        ///< the gradient norm is copied to the host, which waits for the compute stream
  DeviceSync,  ///< the host waits for all streams
};

/// What the profiler says about collectives.
enum class Metadata : std::uint8_t {
  None,      ///< kernel names only
  Position,  ///< PyTorch 1.9 to 2.2: host records with sequence and group pointer, nothing on kernels
  Names,     ///< 2.4 to 2.11: names and sizes on records and kernels, records of waits
  Full,      ///< since 2.12: Seq and Comms Id too
};

struct MadeTraceSpec {
  // The job. Global rank = t + tp * (d + dp * stage).
  int tp = 1;
  int dp = 1;
  int pp = 1;
  int ranks_per_host = 8;
  int microbatches = 1;
  int layers = 2;  ///< per stage
  int kernels_per_layer = 3;
  DataParallelism data_parallelism = DataParallelism::Ddp;
  StepEnd step_end = StepEnd::Item;
  bool cuda_graphs = false;    ///< compute kernels that follow each other are one launch
  bool shared_stream = false;  ///< tensor-parallel collectives run on the compute stream
  bool coalesced_p2p = false;  ///< kernels of sends and receives carry no metadata (batch_isend_irecv)

  // The recording.
  int steps = 3;
  int first_step = 10;       ///< number of the first recorded step
  int unprofiled_steps = 1;  ///< run before the window; their backlog reaches into it
  Metadata metadata = Metadata::Full;
  bool sync_records = false;   ///< category cuda_sync
  bool absolute_time = true;   ///< false: each rank's times count from its own window's start
  std::set<int> older_base;    ///< ranks that wrote the base time of the quarter before
  std::map<int, int> late_by;  ///< rank -> steps by which its profiler started later and counts less

  // Times in us; coefficients of variation are relative.
  double kernel_us = 60;
  double collective_us = 90;  ///< transfer of a layer's all-reduce, all-gather or reduce-scatter
  double p2p_us = 25;
  double call_us = 4;        ///< a host call
  double gap_us = 5;         ///< host work between two calls
  double launch_lag_us = 5;  ///< least time from a launch call's start to its kernel on an idle stream
  double launch_jitter_us = 2;
  double kernel_gap_us = 1.2;  ///< between queued kernels of one stream
  double wake_us = 3;          ///< from the awaited kernel's end to the blocking call's
  double exit_skew_us = 4;     ///< mean time by which a member's end lags the end of the transfer
  double observer_tax = 1;     ///< factor on all host work
  double step_sd = 0;          ///< of a factor common to all kernels of a step
  double rank_sd = 0;          ///< of a rank's factor, the same in all steps
  double kernel_sd = 0.02;     ///< of each kernel by itself
  double host_cv = 0.2;
  std::map<int, double> slow_ranks;  ///< rank -> factor on its kernels

  // Clocks, by host.
  std::map<int, double> clock_offset_us;  ///< positive: recorded times are late
  std::map<int, double> clock_drift_ppm;

  std::uint32_t seed = 1;
};

using MadeOpId = Id<struct MadeOpTag>;  ///< index into MadeTruth::ops

/// A GPU op as it ran, in the job's own time.
struct MadeOp {
  int rank = 0;
  int step = 0;  ///< from 0, counts unprofiled steps too; the step whose host launched it
  std::string name;
  std::uint64_t stream = 0;
  std::int64_t call_ns = 0;    ///< start of its launch call
  std::int64_t queued_ns = 0;  ///< earliest start the launch allowed
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::optional<std::size_t> collective;
  std::optional<std::size_t> recorded;  ///< index into its RankTrace's gpu_ops

  /// Launch lag: launch call's start to the earliest start, whatever the stream did then.
  [[nodiscard]] std::int64_t lag_ns() const { return queued_ns - call_ns; }
};

/// `after` could not start (or, for HostWait, could not be launched) before `before` had ended.
struct MadeDependency {
  enum class Kind : std::uint8_t { Stream, StreamWait, HostWait };
  MadeOpId before;
  MadeOpId after;
  Kind kind = Kind::Stream;
};

/// Ops that move data together, a send and its receive too.
struct MadeCollective {
  std::string name;   ///< as in "Collective name"; of a pair "send"
  std::string group;  ///< name of its process group
  int step = 0;
  std::vector<MadeOpId> members;
  std::int64_t arrival_ns = 0;             ///< latest start of a member
  std::int64_t transfer_ns = 0;            ///< from there to the end of the transfer
  std::vector<std::int64_t> exit_skew_ns;  ///< per member: its end after the end of the transfer

  [[nodiscard]] bool is_pair() const { return name == "send"; }
};

struct MadeStep {
  int step = 0;              ///< as in MadeOp
  std::int64_t end_ns = 0;   ///< last GPU end of the step's ops over all ranks
  std::int64_t time_ns = 0;  ///< that less the same of the step before (of the first: less the job's start)
};

struct MadeTruth {
  IdVector<MadeOpId, MadeOp> ops;
  std::vector<MadeDependency> dependencies;
  std::vector<MadeCollective> collectives;
  std::vector<MadeStep> steps;                ///< all, unprofiled ones first
  std::int64_t start_ns = 0;                  ///< the job's start, where drifting clocks have their offset
  std::vector<std::int64_t> clock_offset_ns;  ///< per rank: recorded minus true time at the start
  std::vector<double> clock_drift_ppm;        ///< per rank
};

struct MadeTrace {
  std::vector<RankTrace> ranks;
  MadeTruth truth;
};

/// Runs and records the job. Throws std::invalid_argument for sizes below 1.
MadeTrace make_trace(const MadeTraceSpec& spec);

}  // namespace prism
