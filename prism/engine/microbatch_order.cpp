// SPDX-License-Identifier: Apache-2.0
#include "prism/engine/microbatch_order.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "prism/stats/random.hpp"

namespace prism {

namespace {

constexpr std::size_t kLanesPerBlock = kRandomBlock;

/// Adds to each lane's two ranks which of the two keys is the larger; equal keys count for the later one.
void compare(const std::uint32_t* __restrict earlier_key, const std::uint32_t* __restrict later_key,
             std::uint32_t* __restrict earlier_rank, std::uint32_t* __restrict later_rank) {
  for (std::size_t lane = 0; lane < kLanesPerBlock; ++lane) {
    const std::uint32_t later_is_larger = earlier_key[lane] <= later_key[lane] ? 1U : 0U;
    later_rank[lane] += later_is_larger;
    earlier_rank[lane] += 1U - later_is_larger;
  }
}

/// Beyond this, 32 sorts beat counting M^2 pairs over all lanes.
constexpr std::uint32_t kMostCounted = 256;

void sort_lanes(std::uint32_t microbatches, OrderScratch& scratch, std::span<std::int32_t> order) {
  scratch.tagged.resize(microbatches);
  for (std::size_t lane = 0; lane < kLanesPerBlock; ++lane) {
    for (std::uint32_t m = 0; m < microbatches; ++m) {
      scratch.tagged[m] = static_cast<std::uint64_t>(scratch.keys[m * kLanesPerBlock + lane]) << 32 | m;
    }
    std::ranges::sort(scratch.tagged);
    for (std::size_t j = 0; j < microbatches; ++j) {
      order[j * kLanesPerBlock + lane] = static_cast<std::int32_t>(scratch.tagged[j] & 0xFFFFFFFFU);
    }
  }
}

void count_lanes(std::uint32_t microbatches, OrderScratch& scratch, std::span<std::int32_t> order) {
  scratch.ranks.assign(microbatches * kLanesPerBlock, 0);
  for (std::size_t later = 1; later < microbatches; ++later) {
    for (std::size_t earlier = 0; earlier < later; ++earlier) {
      compare(&scratch.keys[earlier * kLanesPerBlock], &scratch.keys[later * kLanesPerBlock],
              &scratch.ranks[earlier * kLanesPerBlock], &scratch.ranks[later * kLanesPerBlock]);
    }
  }
  for (std::size_t m = 0; m < microbatches; ++m) {
    for (std::size_t lane = 0; lane < kLanesPerBlock; ++lane) {
      order[scratch.ranks[m * kLanesPerBlock + lane] * kLanesPerBlock + lane] = static_cast<std::int32_t>(m);
    }
  }
}

}  // namespace

std::vector<std::uint32_t> microbatch_order(std::uint32_t seed, std::uint32_t sample, std::uint32_t replica,
                                            std::uint32_t microbatches) {
  std::vector<std::uint32_t> order(microbatches);
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(
      order, {}, [&](std::uint32_t m) { return random_word(seed, Purpose::Order, m, replica, sample); });
  return order;
}

void block_microbatch_orders(std::uint32_t seed, std::uint32_t block, std::uint32_t replica,
                             std::uint32_t microbatches, OrderScratch& scratch,
                             std::span<std::int32_t> order) {
  assert(order.size() >= microbatches * kLanesPerBlock);
  scratch.keys.resize(microbatches * kLanesPerBlock);
  for (std::uint32_t m = 0; m < microbatches; ++m) {
    std::ranges::copy(random_block(seed, Purpose::Order, m, replica, block),
                      scratch.keys.begin() + static_cast<std::ptrdiff_t>(m * kLanesPerBlock));
  }
  if (microbatches <= kMostCounted) {
    count_lanes(microbatches, scratch, order);
  } else {
    sort_lanes(microbatches, scratch, order);
  }
}

}  // namespace prism
