// SPDX-License-Identifier: Apache-2.0
// Schedules with two flows per rank: the chunks of a V, or the two directions of DualPipe.
#include <algorithm>

#include "prism/plan/rank_order.hpp"
#include "prism/plan/schedule_orders.hpp"

namespace prism {

namespace {

TwoFlows chunks_of_v(std::int32_t rank, std::int32_t p, std::int32_t m) {
  return {{.stage = rank, .copy = 0, .first = 0, .count = m},
          {.stage = 2 * p - 1 - rank, .copy = 0, .first = 0, .count = m}};
}

/// DualPipe's eight phases for a rank at distance `near` from the end where its flow 0 enters, `depth` ranks deep, with
/// `steady` pairs of overlapped passes. The innermost rank runs its first pair one after the other.
std::vector<Pass> dualpipe_phases(TwoFlows flows, std::int32_t near, std::int32_t depth,
                                  std::int32_t steady) {
  const std::int32_t outside = depth - near - 1;
  for (std::int32_t i = 0; i < 2 * outside; ++i) flows.forward(0);
  for (std::int32_t i = 0; i <= near; ++i) {
    flows.forward(0);
    flows.forward(1);
  }
  for (std::int32_t i = 0; i < outside; ++i) {
    flows.input(1);
    flows.weight();
    flows.forward(1);
  }
  for (std::int32_t i = 0; i < steady; ++i) {
    if (i == 0 && outside == 0) {
      flows.forward(0);
      flows.backward(1);
    } else {
      flows.overlapped(0, 1);
    }
    flows.overlapped(1, 0);
  }
  for (std::int32_t i = 0; i < outside; ++i) {
    flows.backward(1);
    flows.overlapped(1, 0);
  }
  // From the middle on, weight gradients wait for the gaps that follow.
  const std::int32_t middle = 2 * ((near + 1) / 2) + (near % 2 == 0 ? 1 : 0);  // of the 2 * (near + 1) passes
  for (std::int32_t i = 0; i < 2 * (near + 1); ++i) {
    const int flow = i % 2 == 0 ? 1 : 0;
    if (i < middle) {
      flows.backward(flow);
    } else {
      flows.input(flow);
    }
  }
  for (std::int32_t i = 0; i < outside; ++i) {
    flows.weight();
    flows.input(0);
  }
  for (std::int32_t i = 0; i <= near; ++i) flows.weight();
  return flows.take();
}

}  // namespace

std::vector<Pass> zero_bubble_v_order(std::int32_t rank, std::int32_t p, std::int32_t m) {
  TwoFlows flows = chunks_of_v(rank, p, m);
  const std::int32_t n = std::max(m, 2 * p - 1);  // the rule's microbatches; those beyond m do not exist
  for (std::int32_t i = 0; i < 2 * (p - rank) - 1; ++i) flows.forward(0);
  for (std::int32_t i = 0; i < rank; ++i) {
    flows.forward(1);
    flows.forward(0);
  }
  const auto backward = [&](int flow) {
    flows.input(flow);
    flows.weight(flow);
  };
  for (std::int32_t i = 0; i < p - rank; ++i) {
    flows.forward(1);
    backward(1);
  }
  while (flows.forwards(1) < flows.forwards(0) || flows.forwards(0) < n) {
    if (flows.forwards(0) < n) flows.forward(0);
    backward(0);
    flows.forward(1);
    backward(1);
  }
  for (std::int32_t i = 0; i < rank; ++i) {
    flows.input(0);
    flows.input(1);
  }
  for (std::int32_t i = 0; i < p - rank; ++i) {
    flows.input(0);
    flows.weight(0);
  }
  for (std::int32_t i = 0; i < n; ++i) flows.weight(1);
  for (std::int32_t i = 0; i < n; ++i) flows.weight(0);
  return flows.take();
}

std::vector<Pass> dualpipe_order(std::int32_t rank, std::int32_t p, std::int32_t m) {
  const std::int32_t half = m / 2;
  const Flow down{.stage = rank, .copy = 0, .first = 0, .count = half};
  const Flow up{.stage = p - 1 - rank, .copy = 1, .first = half, .count = half};
  const std::int32_t near = std::min(rank, p - 1 - rank);
  const TwoFlows flows = rank < p / 2 ? TwoFlows(down, up) : TwoFlows(up, down);
  return dualpipe_phases(flows, near, p / 2, half - p + near + 1);
}

std::vector<Pass> dualpipe_v_order(std::int32_t rank, std::int32_t p, std::int32_t m) {
  return dualpipe_phases(chunks_of_v(rank, p, m), rank, p, m - 2 * p + rank + 1);
}

}  // namespace prism
