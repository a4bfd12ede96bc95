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

/// What a node is. `id` survives edits and renumbering; `draw_id` is shared by the members of one
/// communication, so that models that draw per instance give all of them one step.
struct Node {
  NodeKind kind = NodeKind::Op;
  std::string name;              ///< "forward-compute 3 of stage 1"
  std::int32_t rank = 0;         ///< template rank: index among one replica's ranks
  std::int32_t stage = -1;       ///< -1: unknown
  std::int32_t microbatch = -1;  ///< -1: none
  std::uint64_t id = 0;          ///< stable op id: hash of (rank, kind, signature, occurrence)
  std::uint64_t draw_id = 0;
  ReplicaGroup draw_group;   ///< replicas that share a draw where draws are per instance; {1, 1}: none
  ClassId duration_class;    ///< not used by Join
  std::uint32_t member = 0;  ///< place in the class
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

struct StepModel {
  std::string source;  ///< where it came from, as given
  std::string digest;  ///< of the input's bytes; empty if unknown
  Mesh mesh;
  std::uint32_t replicas = 1;        ///< D copies of the template
  std::uint32_t template_ranks = 1;  ///< ranks of one replica that the graph holds
  StepGraph graph;
  IdVector<NodeId, Node> nodes;
  DurationPools pools;
  std::vector<int> steps;           ///< profiled step numbers; empty if the pools are not from profiled steps
  std::vector<double> observed_ns;  ///< observed step time of each, same size
  LaunchDelays delays = LaunchDelays::Clean;  ///< how it was built from its recording
  std::vector<Inference> inferences;
  std::vector<double> clock_offsets_ns;  ///< per rank [replica * stages + stage]; empty if not estimated
  ImportReport report;                   ///< what was dropped or changed on the way here
  std::shared_ptr<const RecordedJob>
      recording;  ///< what it was built from, to build other delay modes; may be null

  [[nodiscard]] std::size_t step_count() const { return steps.size(); }
};

/// The model with the profiled steps `selected` (indices into model.steps, repeats allowed) in place of all:
/// same graph, pools regathered. Precondition: the model has profiled steps and `selected` is not empty.
StepModel with_steps(const StepModel& model, std::span<const std::size_t> selected);

}  // namespace prism
