// SPDX-License-Identifier: Apache-2.0
// Which op must end before which may start, and which ops move data together: the dependency rules of an
// op-level timeline.
//
// Built from the recorded order of one replica, since every replica and step runs the same ops in the same
// order (align() made sure). The schedule is not modelled: the recorded order of a stage's compute chain is
// the schedule. Rules follow Lin et al., "Understanding Stragglers in Large Model Training Using What-if
// Analysis" (OSDI 2025), with more tolerance: whatever a rule needs and the trace lacks is reported, and the
// rule is skipped.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "prism/model/recorded_job.hpp"

namespace prism {

/// Ops that start their transfer when the last of them has arrived.
struct OpGroup {
  std::vector<OpId> members;
  bool spans_replicas = false;  ///< the group also joins all data-parallel replicas of the step
};

struct OpGraph {
  IdVector<OpId, std::vector<OpId>> depends_on;     ///< ops that must end first, ascending
  IdVector<GroupId, OpGroup> groups;                ///< of communication ops; a lone op is its own group
  IdVector<OpId, std::optional<GroupId>> group_of;  ///< nothing for compute and local ops
  IdVector<OpId, std::optional<OpId>>
      compute_of_receive;                        ///< the compute op a receive feeds; nothing elsewhere
  std::vector<std::vector<OpId>> compute_chain;  ///< compute ops of each stage in recorded order

  [[nodiscard]] std::size_t edge_count() const;
  /// Adds `before` to the dependencies of `op`; false if it was there already.
  bool add_dependency(OpId op, OpId before);
};

/// The dependency template of a job. Pure function of the job; doubts go to the report.
OpGraph build_op_graph(const RecordedJob& job, ImportReport& report);

}  // namespace prism
