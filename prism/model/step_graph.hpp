// SPDX-License-Identifier: Apache-2.0
// The step graph: structure only. Everything else about a node is an array beside it, indexed by NodeId.
//
// It describes ONE data-parallel replica (the template, all its ranks); a job runs D copies of it. Nodes are
// numbered in topological order and predecessors are in compressed rows, so evaluation is one forward sweep:
//
//   start(v)  = max over predecessors of their finish         (0 if there is none)
//   start(v)  = max of that over the replicas of v's group    (if v spans replicas)
//   finish(v) = start(v) + duration(v)
//
// Collectives are written with a join node (zero duration) before the members' transfers, or with the member
// itself when it is alone. Immutable; StepGraphBuilder makes it, sorts, renumbers, and names the nodes of a
// cycle.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "prism/trace/ids.hpp"

namespace prism {

/// Replicas a node waits for: those that differ by multiples of `stride` inside a run of `size * stride`.
/// {1, 1} is the replica alone; {D, 1} all of D replicas; {4, 1} shard groups of 4 neighbours; {8, 4} the 8
/// replicas of a shard when 4 neighbours shard together.
struct ReplicaGroup {
  std::uint32_t size = 1;
  std::uint32_t stride = 1;

  [[nodiscard]] bool spans() const { return size > 1; }
  /// Number of groups that D replicas form. D must be a multiple of size * stride.
  [[nodiscard]] std::uint32_t count(std::uint32_t replicas) const { return replicas / size; }
  /// Which of them a replica belongs to.
  [[nodiscard]] std::uint32_t index_of(std::uint32_t replica) const {
    return replica / (size * stride) * stride + replica % stride;
  }
  friend bool operator==(const ReplicaGroup&, const ReplicaGroup&) = default;
};

class StepGraph {
 public:
  StepGraph() = default;

  [[nodiscard]] std::size_t size() const { return groups_.size(); }
  [[nodiscard]] std::size_t edge_count() const { return predecessors_.size(); }

  /// Nodes that must finish before `node` starts; all have smaller ids. Ascending.
  [[nodiscard]] std::span<const NodeId> predecessors(NodeId node) const {
    return std::span(predecessors_).subspan(first_[node.value], first_[node.value + 1] - first_[node.value]);
  }

  [[nodiscard]] ReplicaGroup replica_group(NodeId node) const { return groups_[node]; }

  friend bool operator==(const StepGraph&, const StepGraph&) = default;

 private:
  friend class StepGraphBuilder;
  std::vector<std::uint32_t> first_;  // size() + 1 offsets into predecessors_
  std::vector<NodeId> predecessors_;
  IdVector<NodeId, ReplicaGroup> groups_;
};

/// Collects nodes and edges in any order. Ids given by add_node are the builder's own; build() renumbers.
class StepGraphBuilder {
 public:
  struct Result {
    StepGraph graph;
    std::vector<NodeId> node_of;  ///< builder id -> node of the graph
  };

  /// Adds a node and returns its builder id.
  std::uint32_t add_node(ReplicaGroup group = {});

  /// `after` may start when `before` has finished. Both must exist; doubled edges count once.
  void add_edge(std::uint32_t before, std::uint32_t after);

  [[nodiscard]] std::size_t size() const { return groups_.size(); }

  /// The graph, topologically sorted; among nodes that could come next, the one added first does. Throws
  /// InputError naming `source` and the nodes of one cycle (`label` gives a builder id's name).
  [[nodiscard]] Result build(const std::string& source,
                             const std::function<std::string(std::uint32_t)>& label) const;

 private:
  std::vector<ReplicaGroup> groups_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges_;
};

}  // namespace prism
