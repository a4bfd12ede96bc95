// SPDX-License-Identifier: Apache-2.0
// What the host threads of one rank wait for: order of calls, threads that hand over, blocking calls, full queues.
#pragma once

#include <vector>

#include "prism/kernels/op_search.hpp"
#include "prism/kernels/rank_dependencies.hpp"

namespace prism {

struct HostDependencies {
  /// [call] Its launch found the queue full and blocked: its ops were enqueued when it returned.
  std::vector<bool> enqueued_at_end;
};

/// Adds edges to calls and says in `dependencies.blocks` which calls have an end activity.
HostDependencies add_host_dependencies(const RankTrace& trace, const Launches& launches,
                                       const StreamOrder& streams, const OpSearch& search,
                                       RankDependencies& dependencies);

}  // namespace prism
