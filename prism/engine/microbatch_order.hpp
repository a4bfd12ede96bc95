// SPDX-License-Identifier: Apache-2.0
// Random orders of a replica's microbatches: one permutation per sample, drawn as sort keys keyed by
// microbatch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace prism {

/// The permutation of one sample: order[j] is the microbatch with the j-th smallest key (ties: the lower
/// microbatch).
std::vector<std::uint32_t> microbatch_order(std::uint32_t seed, std::uint32_t sample, std::uint32_t replica,
                                            std::uint32_t microbatches);

/// Scratch memory of block_microbatch_orders, reused from call to call.
struct OrderScratch {
  std::vector<std::uint32_t> keys;
  std::vector<std::uint32_t> ranks;
  std::vector<std::uint64_t> tagged;
};

/// The permutations of a block's 32 samples, order[j * 32 + lane]: the same as microbatch_order of each.
/// Up to a few hundred microbatches it counts smaller keys over all lanes at once, which beats 32 sorts.
void block_microbatch_orders(std::uint32_t seed, std::uint32_t block, std::uint32_t replica,
                             std::uint32_t microbatches, OrderScratch& scratch,
                             std::span<std::int32_t> order);

}  // namespace prism
