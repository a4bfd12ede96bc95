// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/stream_order.hpp"

#include <algorithm>

namespace prism {

StreamOrder find_stream_order(const RankTrace& trace) {
  StreamOrder order;
  for (const GpuOp& op : trace.gpu_ops) {
    const StreamKey key{op.device, op.stream};
    if (order.streams.empty() || order.streams.back() != key) order.streams.push_back(key);
  }
  std::ranges::sort(order.streams);
  order.streams.erase(std::unique(order.streams.begin(), order.streams.end()), order.streams.end());
  order.ops.resize(order.streams.size());
  order.stream_of.reserve(trace.gpu_ops.size());
  order.previous.reserve(trace.gpu_ops.size());
  for (std::size_t i = 0; i < trace.gpu_ops.size(); ++i) {
    const StreamKey key{trace.gpu_ops[i].device, trace.gpu_ops[i].stream};
    const auto stream =
        static_cast<std::uint32_t>(std::ranges::lower_bound(order.streams, key) - order.streams.begin());
    std::vector<std::uint32_t>& ops = order.ops[stream];
    order.stream_of.push_back(stream);
    order.previous.push_back(ops.empty() ? std::nullopt : std::optional(ops.back()));
    ops.push_back(static_cast<std::uint32_t>(i));
  }
  return order;
}

}  // namespace prism
