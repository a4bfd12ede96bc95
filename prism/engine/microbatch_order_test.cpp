// SPDX-License-Identifier: Apache-2.0
#include "prism/engine/microbatch_order.hpp"

#include <algorithm>
#include <map>

#include <boost/math/distributions/chi_squared.hpp>
#include <gtest/gtest.h>

#include "prism/stats/random.hpp"

namespace prism {
namespace {

std::vector<std::uint32_t> lane_of(const std::vector<std::int32_t>& order, std::uint32_t microbatches,
                                   std::uint32_t lane) {
  std::vector<std::uint32_t> one;
  for (std::uint32_t j = 0; j < microbatches; ++j) {
    one.push_back(static_cast<std::uint32_t>(order[j * kRandomBlock + lane]));
  }
  return one;
}

// The words of sampling.md, section 6: sort keys keyed by microbatch, ties by the lower microbatch.
TEST(MicrobatchOrder, SortsTheKeys) {
  constexpr std::uint32_t kMicrobatches = 9;
  for (std::uint32_t sample = 0; sample < 100; ++sample) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> keys;
    for (std::uint32_t m = 0; m < kMicrobatches; ++m) {
      keys.emplace_back(random_word(7, Purpose::Order, m, 3, sample), m);
    }
    std::ranges::sort(keys);
    const auto order = microbatch_order(7, sample, 3, kMicrobatches);
    for (std::uint32_t j = 0; j < kMicrobatches; ++j) EXPECT_EQ(order[j], keys[j].second) << sample;
  }
}

TEST(MicrobatchOrder, BlockEqualsOneByOneForUpTo70Microbatches) {
  OrderScratch scratch;  // reused from larger to smaller and back, as the engine does
  for (std::uint32_t i = 1; i <= 70; ++i) {
    const std::uint32_t microbatches = i % 2 == 0 ? i : 71 - i;
    const std::uint32_t block = i * 37;
    std::vector<std::int32_t> order(std::size_t{microbatches} * kRandomBlock, -1);
    block_microbatch_orders(11, block, i, microbatches, scratch, order);
    for (std::uint32_t lane = 0; lane < kRandomBlock; ++lane) {
      ASSERT_EQ(lane_of(order, microbatches, lane),
                microbatch_order(11, block * kRandomBlock + lane, i, microbatches))
          << "M " << microbatches << ", lane " << lane;
    }
  }
}

// Chi-square over the 24 orders of 4 microbatches, level 1e-6. With 2,000 expected per order, an order that
// is 10 % too frequent moves the statistic by 20, and 1.5 % in all of them by as much as its spread.
TEST(MicrobatchOrder, AllOrdersAreEquallyLikely) {
  constexpr std::uint32_t kMicrobatches = 4;
  constexpr std::uint32_t kBlocks = 1500;
  OrderScratch scratch;
  std::vector<std::int32_t> order(kMicrobatches * kRandomBlock);
  std::map<std::vector<std::uint32_t>, int> count;
  for (std::uint32_t block = 0; block < kBlocks; ++block) {
    block_microbatch_orders(3, block, 0, kMicrobatches, scratch, order);
    for (std::uint32_t lane = 0; lane < kRandomBlock; ++lane) ++count[lane_of(order, kMicrobatches, lane)];
  }
  ASSERT_EQ(count.size(), 24U);
  constexpr double kExpected = kBlocks * kRandomBlock / 24.0;
  double statistic = 0;
  for (const auto& [permutation, n] : count) statistic += (n - kExpected) * (n - kExpected) / kExpected;
  const double limit = boost::math::quantile(boost::math::complement(boost::math::chi_squared(23), 1e-6));
  EXPECT_LT(statistic, limit) << "chi-square of " << kBlocks * kRandomBlock << " orders, seed 3";
}

}  // namespace
}  // namespace prism
