// SPDX-License-Identifier: Apache-2.0
// What the nodes of a kernel-level model are to a profiler: host calls, GPU ops, and the links between them.
//
// prism/kernels/kernel_graph.hpp shows how such a graph is built. Roles follow from structure alone, so they
// are found in saved and anonymised models too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "prism/model/step_model.hpp"

namespace prism {

/// A host call: a launch, or one that waits for the GPU.
struct CallRole {
  NodeId begin;
  std::optional<NodeId> end;        ///< its return, if it blocks
  std::vector<std::size_t> awaits;  ///< ops that its return waits for, indices into RankRoles::ops
  bool launches = false;
};

/// A way in which a GPU op may be launched: steps may differ in which call does.
struct LaunchRole {
  NodeId delay;
  std::size_t call = 0;  ///< index into RankRoles::calls
};

struct OpRole {
  NodeId node;
  NodeId gap;  ///< finishes when the op starts on its own rank
  std::vector<LaunchRole> launches;
  std::vector<std::size_t> after;  ///< ops of its rank that it waits for directly
  /// Where it meets ops of other ranks (a join) or waits for ranks that were not traced, the first such node of
  /// each communication it is part of; empty for compute.
  std::vector<NodeId> meetings;
};

struct StreamRole {
  NodeId start;  ///< finishes when the stream is done with work from before the step
  std::int64_t stream = 0;
};

/// All nodes of one template rank, in the order of the graph.
struct RankRoles {
  std::vector<CallRole> calls;
  std::vector<OpRole> ops;
  std::vector<StreamRole> streams;
};

struct KernelRoles {
  std::vector<RankRoles> ranks;  ///< [template rank]
};

/// Whether the model says on which threads its host work and on which streams its GPU ops run, as those of profiler
/// traces do.
bool has_lanes(const StepModel& model);

/// Precondition: has_lanes(model).
KernelRoles find_kernel_roles(const StepModel& model);

/// Whether a node is where a communication waits for ranks: a join, or the wait for ranks that were not traced.
bool is_meeting(const StepModel& model, NodeId node);

}  // namespace prism
