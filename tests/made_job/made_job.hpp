// SPDX-License-Identifier: Apache-2.0
// Made-up jobs with known truth: the op-level timeline of a pipeline-parallel job, as a framework's timers
// would record it.
//
// A small event simulation of its own (it uses nothing of prism/model or prism/engine) runs each step: ops of
// a rank wait for each other as a training framework makes them wait, transfers start when all sides have
// arrived. Step times and work durations are therefore known exactly, also for schedules that no recorded
// trace at hand has. Not part of the library.
//
//   const MadeJob job = make_job({.dp = 2, .pp = 4, .step_sd = 0.02});
//   write(to_csv(job.timeline));
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "prism/trace/op_timeline.hpp"

namespace prism {

enum class PipelineSchedule {
  OneFOneB,     ///< a few warm-up forwards, then forward and backward in turn
  GPipe,        ///< all forwards, then all backwards in reverse order
  Interleaved,  ///< Megatron's, for several chunks per rank
};

/// A rank whose compute takes `factor` times as long.
struct SlowRank {
  int dp_rank = 0;
  int stage = 0;
  double factor = 1;
};

struct MadeJobSpec {
  std::string name = "made";
  int dp = 2;
  int pp = 4;
  int tp = 1;
  int dsp = 1;
  int microbatches = 8;
  int chunks = 1;  ///< virtual pipeline stages per rank; more than 1 only with Interleaved
  PipelineSchedule schedule = PipelineSchedule::OneFOneB;
  bool overlapped_reduction =
      false;                  ///< gradients of a chunk are reduced as soon as its last backward has ended
  bool loss_barrier = false;  ///< the last stage's tail waits for all replicas, where losses are averaged

  int steps = 24;  ///< profiled steps, spread evenly over the windows
  int first_step = 20;
  int windows = 1;
  int window_hole = 150;  ///< step numbers between two windows

  double forward_s = 0.06;  ///< mean per microbatch and stage; a chunk takes its share
  double backward_s = 0.12;
  double last_stage_factor = 1;
  double step_sd = 0;      ///< relative spread of a factor common to all compute of a step
  double rank_sd = 0;      ///< of a rank's factor, the same in all steps
  double content_sd = 0;   ///< of a microbatch's factor, common to its forward and backward on all stages
  double residual_sd = 0;  ///< of each compute op by itself
  std::optional<SlowRank> slow_rank;

  double p2p_s = 0.0004;
  double allgather_s = 0.02;
  double reducescatter_s = 0.05;
  double embedding_s = 0.005;
  double clip_s = 0.014;
  double optimizer_s = 0.04;
  double layernorm_s = 0.00004;
  double other_cv = 0.05;        ///< coefficient of variation of all these
  double transfer_jitter_s = 0;  ///< mean time by which a member's end lags the end of its transfer

  double start_delay_s = 0;    ///< mean time until a rank begins a step
  double forward_delay_s = 0;  ///< mean launch delay before a rank's first forward
  double reduce_delay_s = 0;   ///< mean launch delay before a rank's gradient reduction
  double delay_cv = 0.5;
  std::map<int, double> clock_offset_s;  ///< by global rank; positive: its recorded times are late

  std::uint32_t seed = 1;
};

struct MadeJob {
  OpTimeline timeline;  ///< ordered by step, rank, type (alphabetical), seq; times rounded as in real traces
  std::vector<double>
      step_times_s;  ///< truth, per profiled step: last end minus first start, without clock offsets
  std::vector<double> work_s;  ///< truth, per record: duration of work; of communication its transfer part
};

/// Runs the job. Throws std::invalid_argument if sizes or schedule do not fit each other.
MadeJob make_job(const MadeJobSpec& spec);

/// The timeline as the CSV that prism/ingest reads, with all columns of the format (gmc too). Seconds are the
/// shortest decimals of 32-bit floats.
std::string to_csv(const OpTimeline& timeline);

/// The metadata file that belongs to the job.
std::string meta_yaml(const MadeJobSpec& spec);

}  // namespace prism
