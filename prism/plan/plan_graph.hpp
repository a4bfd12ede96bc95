// SPDX-License-Identifier: Apache-2.0
// What runs where and after what: the passes of a schedule laid out over the ranks of one replica.
//
// Every rank has one stream for compute; communication of a process group has a channel per axis and kind. Streams and
// channels keep the order in which ops are listed. A pipeline transfer starts when the data is there; with blocking
// transfers also not before the receiver waits for it, and the sender goes on when it has ended.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "prism/plan/plan_programs.hpp"
#include "prism/plan/rank_layout.hpp"

namespace prism {

struct PlannedNode {
  enum class Kind : std::uint8_t {
    Compute,     ///< `op` on `rank`
    Collective,  ///< `op` of group `group`
    Transfer,    ///< of a pass's result from `rank` to `peer`
    Pause,       ///< of `rank` before a pass
    Join,        ///< takes no time
  };
  Kind kind = Kind::Join;
  const PassOp* op = nullptr;   ///< of Compute and Collective; lives in the programs
  std::int32_t rank = 0;        ///< template rank; of a collective its lowest member
  std::int32_t peer = -1;       ///< of Transfer: the receiver
  std::int32_t group = -1;      ///< of Collective: index into PlanGraph::groups
  Pass pass;                    ///< whose op it is; of a transfer whose result
  bool step_end = false;        ///< not of a pass but of the end of the step
  std::int32_t occurrence = 0;  ///< place of the op in its program
};

struct PlanGraph {
  std::vector<PlannedNode> nodes;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;  ///< before, after: indices of nodes
  std::vector<TemplateGroup> groups;
};

struct PlanGraphOptions {
  bool blocking_transfers = false;
  bool pauses = false;  ///< a Pause before each pass of each rank
};

/// `programs` must outlive the result.
PlanGraph plan_graph(const PlanPrograms& programs, const RankLayout& layout, const PlanGraphOptions& options);

}  // namespace prism
