// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/rank_dependencies.hpp"

#include <algorithm>

#include "prism/kernels/host_dependencies.hpp"
#include "prism/kernels/op_search.hpp"
#include "prism/kernels/stream_dependencies.hpp"

namespace prism {

std::string_view dependency_name(DependencyKind kind) {
  constexpr std::array<std::string_view, kDependencyKindCount> kNames = {"stream order",
                                                                         "launch",
                                                                         "host order",
                                                                         "thread handoff",
                                                                         "host wait",
                                                                         "full queue",
                                                                         "recorded stream wait",
                                                                         "issue of a communication",
                                                                         "wait for a communication",
                                                                         "late start"};
  return kNames[static_cast<std::size_t>(kind)];
}

RankDependencies find_dependencies(const RankTrace& trace, const Launches& launches,
                                   const StreamOrder& streams, const RankCommunication& communication,
                                   const UsualLags& lags) {
  RankDependencies result;
  result.gpu_ops = static_cast<std::uint32_t>(trace.gpu_ops.size());
  result.calls = static_cast<std::uint32_t>(trace.calls.size());
  result.blocks.assign(trace.calls.size(), false);
  const OpSearch search(trace, launches, streams);
  const HostDependencies host = add_host_dependencies(trace, launches, streams, search, result);
  for (std::uint32_t i = 0; i < result.gpu_ops; ++i) {
    if (streams.previous[i]) result.edges.push_back({*streams.previous[i], i, DependencyKind::Stream});
    if (const auto c = launches.call_of[i]) {
      const std::uint32_t from = host.enqueued_at_end[*c] ? result.call_end(*c) : result.call_begin(*c);
      result.edges.push_back({from, i, DependencyKind::Launch});
    }
  }
  add_stream_dependencies(trace, launches, streams, communication, lags, search, result);
  std::ranges::stable_sort(result.edges, {}, &Dependency::after);
  return result;
}

}  // namespace prism
