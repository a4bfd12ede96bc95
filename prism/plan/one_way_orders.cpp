// SPDX-License-Identifier: Apache-2.0
// Schedules in which every microbatch goes through the ranks one way.
#include <algorithm>
#include <utility>

#include "prism/plan/schedule_orders.hpp"

namespace prism {

std::vector<Pass> gpipe_order(std::int32_t rank, std::int32_t m) {
  std::vector<Pass> order;
  for (std::int32_t k = 0; k < m; ++k)
    order.push_back({.kind = PassKind::Forward, .stage = rank, .microbatch = k});
  for (std::int32_t k = 0; k < m; ++k)
    order.push_back({.kind = PassKind::Backward, .stage = rank, .microbatch = k});
  return order;
}

std::vector<Pass> one_f_one_b_order(std::int32_t rank, std::int32_t p, std::int32_t m) {
  const std::int32_t warm_up = std::min(p - 1 - rank, m);
  std::vector<Pass> order;
  for (std::int32_t k = 0; k < m + warm_up; ++k) {
    if (k < m) order.push_back({.kind = PassKind::Forward, .stage = rank, .microbatch = k});
    if (k >= warm_up) order.push_back({.kind = PassKind::Backward, .stage = rank, .microbatch = k - warm_up});
  }
  return order;
}

std::vector<Pass> interleaved_order(std::int32_t rank, std::int32_t p, std::int32_t m, std::int32_t chunks,
                                    std::int32_t group) {
  std::vector<std::pair<std::int32_t, std::int32_t>> turns;  // microbatch, chunk
  for (std::int32_t first = 0; first < m; first += group) {
    for (std::int32_t chunk = 0; chunk < chunks; ++chunk) {
      for (std::int32_t k = first; k < std::min(first + group, m); ++k) turns.emplace_back(k, chunk);
    }
  }
  const auto total = static_cast<std::int32_t>(turns.size());
  const std::int64_t full = 2 * (p - 1 - rank) + std::int64_t{chunks - 1} * group;
  const auto warm_up = static_cast<std::int32_t>(std::min<std::int64_t>(full, total));
  std::vector<Pass> order;
  for (std::int32_t k = 0; k < total + warm_up; ++k) {
    if (k < total) {
      const auto& [microbatch, chunk] = turns[static_cast<std::size_t>(k)];
      order.push_back({.kind = PassKind::Forward, .stage = chunk * p + rank, .microbatch = microbatch});
    }
    if (k >= warm_up) {
      const auto& [microbatch, chunk] = turns[static_cast<std::size_t>(k - warm_up)];
      order.push_back(
          {.kind = PassKind::Backward, .stage = (chunks - 1 - chunk) * p + rank, .microbatch = microbatch});
    }
  }
  return order;
}

std::vector<Pass> zero_bubble_h1_order(std::int32_t rank, std::int32_t p, std::int32_t m) {
  const std::int32_t warm_up = std::min(p - 1 - rank, m);
  std::vector<Pass> order;
  const auto add = [&](PassKind kind, std::int32_t k) {
    if (k < m) order.push_back({.kind = kind, .stage = rank, .microbatch = k});
  };
  for (std::int32_t k = 0; k < warm_up; ++k) add(PassKind::Forward, k);
  for (std::int32_t k = 0; k < m; ++k) {
    add(PassKind::Forward, warm_up + k);
    add(PassKind::BackwardInput, k);
    if (k >= rank) add(PassKind::BackwardWeight, k - rank);
  }
  for (std::int32_t k = std::max(m - rank, 0); k < m; ++k) add(PassKind::BackwardWeight, k);
  return order;
}

}  // namespace prism
