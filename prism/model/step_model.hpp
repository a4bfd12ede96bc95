// SPDX-License-Identifier: Apache-2.0
// The model of a step: graph + what each node is + duration pools + the job's mesh. What every question is
// asked of.
//
//   timeline -> align -> op graph -> waits split from work -> StepModel -> engine
//   nodes.csv, edges.csv, pools.csv ----------------------------^
//   job.prism (saved) ------------------------------------------^
//
// Immutable once built; questions such as "other steps" make changed copies.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "prism/model/duration_pools.hpp"
#include "prism/model/mesh.hpp"
#include "prism/model/recorded_job.hpp"
#include "prism/model/step_graph.hpp"
#include "prism/trace/import_report.hpp"

namespace prism {

enum class NodeKind : std::uint8_t {
  Op,     ///< a compute, communication or local op; its duration comes from a pool
  Delay,  ///< a launch delay, kept as an op of its own
  Join,   ///< zero duration: members of a communication wait here for each other
};

/// What part of a training step an op belongs to, where the trace says so.
enum class Phase : std::uint8_t { Unknown, Forward, Backward, Optimizer, Communication };

/// "", "forward", "backward", "optimizer" or "communication".
std::string_view phase_name(Phase phase);

/// What a node is. `id` survives edits and renumbering; `draw_id` is shared by the members of one
/// communication, so that models that draw per instance give all of them one step.
struct Node {
  NodeKind kind = NodeKind::Op;
  std::string name;              ///< "forward-compute 3 of stage 1"
  std::int32_t rank = 0;         ///< template rank: index among one replica's ranks
  std::int32_t stage = -1;       ///< -1: unknown
  std::int32_t microbatch = -1;  ///< -1: none
  Phase phase = Phase::Unknown;
  std::int64_t lane = -1;      ///< kernel level: stream of a GPU op, thread of host work (index); -1: none
  std::int32_t cell = 0;       ///< which of the template's cells its rank belongs to (StepModel::cells)
  bool over_replicas = false;  ///< its communication also spans data-parallel replicas, should there be more
  std::uint64_t id = 0;        ///< stable op id: hash of (rank, kind, signature, occurrence)
  std::uint64_t draw_id = 0;
  ReplicaGroup draw_group;     ///< replicas that share a draw where draws are per instance; {1, 1}: none
  ClassId duration_class;      ///< not used by Join
  std::uint32_t member = 0;    ///< place in the class
  double base_ns = 0;          ///< of a composed class: duration when all factors are 1
  std::int32_t base_row = -1;  ///< row of StepModel::replica_bases_ns that holds it by replica; -1: base_ns
  std::int32_t link = -1;      ///< process group it communicates over, for factors of FactorScope::Link
  std::uint32_t replica_offset =
      0;  ///< added to the replica where random numbers are keyed: which replica this node is of,
          ///< in a template that holds several
  friend bool operator==(const Node&, const Node&) = default;
};

/// How launch delays enter a model that is built from a recorded job.
enum class LaunchDelays {
  Clean,  ///< posting edges inferred, waiting taken out of the delays, delays kept as ops (sampling.md
          ///< section 2)
  None,  ///< as Clean, but the delays themselves are left out: isolates the sampling of compute and transfers
  Raw,   ///< recorded dependencies, each op's recorded delay: replays exactly, hides waits in delays
  Off,   ///< recorded dependencies, no delays: the graph of Lin et al.
};

/// "clean", "none", "raw" or "off".
std::string_view launch_delays_name(LaunchDelays delays);

/// Something the builder inferred from times rather than read from the trace.
struct Inference {
  std::string kind;  ///< "posting edge", "barrier over replicas" or "wait for all stages"
  std::string what;
  friend bool operator==(const Inference&, const Inference&) = default;
};

/// Where the time of a rank went, as shares of its profiled steps; they add up to 1.
struct RankActivity {
  std::int32_t rank = 0;     ///< global rank
  double busy = 0;           ///< computing
  double communicating = 0;  ///< transferring with no compute at the same time (exposed communication)
  double waiting_host = 0;   ///< idle: nothing was launched yet
  double waiting_ranks =
      0;  ///< in a communication whose other members have not arrived, nothing else running
  friend bool operator==(const RankActivity&, const RankActivity&) = default;
};

struct StepModel {
  std::string source;  ///< where it came from, as given
  std::string digest;  ///< of the input's bytes; empty if unknown
  Mesh mesh;
  std::uint32_t replicas = 1;         ///< D copies of the template
  std::uint32_t traced_replicas = 0;  ///< replicas whose durations the pools hold; replica d takes those of
                                      ///< d modulo this many; 0: all (extend_replicas.hpp)
  std::uint32_t template_ranks = 1;   ///< ranks of one replica that the graph holds
  StepGraph graph;
  IdVector<NodeId, Node> nodes;
  DurationPools pools;
  std::vector<int> steps;           ///< profiled step numbers; empty if the pools are not from profiled steps
  std::vector<double> observed_ns;  ///< observed step time of each, same size
  LaunchDelays delays = LaunchDelays::Clean;  ///< how it was built from its recording
  std::uint32_t cells = 1;  ///< cells of one template: groups of ranks that draw a profiled step of their own
  std::vector<int> step_kinds;  ///< per profiled step: equal numbers, equal structure; empty: all are equal
  double lead_ns =
      0;  ///< simulated times start this long before the end of the previous step, where a step begins
  std::vector<double> rank_factors;          ///< of compute, [replica * template_ranks + rank]; empty: all 1
  IdVector<FactorId, SharedFactor> factors;  ///< of composed classes
  std::vector<double> replica_bases_ns;      ///< [row * replicas + replica], of nodes with a base_row
  std::vector<std::uint32_t> rank_ids;  ///< global rank, [replica * template_ranks + rank]; empty: that index
  std::vector<std::uint32_t> host_ids;  ///< host of each rank, same index; empty: unknown
  std::uint32_t world_ranks = 0;        ///< ranks of the job the trace is of; 0: those that were traced
  std::vector<RankActivity> activity;
  std::vector<double>
      recorded_start_ns;  ///< [(node * K + step) * pool_replicas() + replica] against the previous
                          ///< step's end; NaN where it did not run; empty if not kept
  std::vector<Inference> inferences;
  std::vector<double> clock_offsets_ns;  ///< per rank [replica * stages + stage]; empty if not estimated
  ImportReport report;                   ///< what was dropped or changed on the way here
  std::shared_ptr<const RecordedJob>
      recording;  ///< what it was built from, to build other delay modes; may be null

  [[nodiscard]] std::size_t step_count() const { return steps.size(); }
  /// Replicas whose durations the pools hold.
  [[nodiscard]] std::uint32_t pool_replicas() const {
    return traced_replicas == 0 ? replicas : traced_replicas;
  }
  /// Ranks that were traced, of all replicas.
  [[nodiscard]] std::uint64_t traced_ranks() const { return std::uint64_t{template_ranks} * pool_replicas(); }
};

/// The model with the profiled steps `selected` (indices into model.steps, repeats allowed) in place of all:
/// same graph, pools regathered. Precondition: the model has profiled steps and `selected` is not empty.
StepModel with_steps(const StepModel& model, std::span<const std::size_t> selected);

/// Whether its durations are composed of laws (of a plan) rather than drawn from pools.
bool is_composed(const StepModel& model);

/// Throws InputError with that fix for a model whose durations are composed (of a plan), where only pools of values will do.
void refuse_composed(const StepModel& model, const std::string& fix);

}  // namespace prism
