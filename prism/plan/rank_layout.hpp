// SPDX-License-Identifier: Apache-2.0
// Ranks of a plan: template ranks and replicas, global ranks, machines, process groups.
//
// One replica has tp * cp * pp template ranks, number (q * cp + c) * tp + t for pipeline rank q, context rank c and tensor
// rank t; replica d is the data-parallel coordinate. The global rank follows from the order of the axes (Mesh). Experts
// factor the tp * cp * dp ranks of a pipeline rank a second time, as etp x ep x expert-dp with etp fastest, in the order of
// their dense position (tp fastest, then cp, then dp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "prism/model/mesh.hpp"
#include "prism/model/step_graph.hpp"
#include "prism/plan/cluster.hpp"
#include "prism/plan/parallel.hpp"
#include "prism/plan/pass_program.hpp"

namespace prism {

/// One process group as the template sees it: these template ranks, in each of the replicas that `replicas` joins.
struct TemplateGroup {
  std::vector<std::int32_t> members;  ///< template ranks, ascending
  ReplicaGroup replicas;
};

class RankLayout {
 public:
  /// Throws InputError (place: `source`) if degrees do not divide each other as they must (ep * etp | tp * cp * dp,
  /// shard | dp * cp, ...) or there are too few GPUs.
  RankLayout(const Parallel& parallel, const Cluster& cluster, const std::string& source);

  [[nodiscard]] std::int32_t template_ranks() const { return template_ranks_; }
  [[nodiscard]] std::uint32_t replicas() const { return replicas_; }
  [[nodiscard]] const Mesh& mesh() const { return mesh_; }
  [[nodiscard]] std::int32_t template_rank(std::int64_t pp, std::int64_t cp, std::int64_t tp) const;
  [[nodiscard]] std::int32_t pipeline_rank(std::int32_t template_rank) const;
  [[nodiscard]] std::int64_t global_rank(std::int32_t template_rank, std::uint32_t replica) const;
  [[nodiscard]] const Location& location(std::int32_t template_rank, std::uint32_t replica) const;

  /// The process groups of an axis that touch pipeline rank `pp`, each once. Not for Pp.
  [[nodiscard]] std::vector<TemplateGroup> groups(GroupAxis axis, std::int64_t pp) const;

  /// Smallest GPU memory among the ranks of a pipeline rank, in 1e9 bytes.
  [[nodiscard]] double least_memory_gb(std::int64_t pp) const;

  /// Where the group lies for the replica `replica`.
  [[nodiscard]] GroupPlace placement(const TemplateGroup& group, std::uint32_t replica) const;
  /// Where a message between two template ranks of a replica goes.
  [[nodiscard]] GroupPlace pair(std::int32_t from, std::int32_t to, std::uint32_t replica) const;

 private:
  Parallel parallel_;
  Cluster cluster_;
  Mesh mesh_;
  std::int32_t template_ranks_ = 1;
  std::uint32_t replicas_ = 1;
  std::vector<Location> locations_;  // by global rank
};

}  // namespace prism
