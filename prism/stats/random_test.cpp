// SPDX-License-Identifier: Apache-2.0
#include "prism/stats/random.hpp"

#include <array>
#include <set>
#include <vector>

#include <Random123/philox.h>
#include <boost/math/distributions/chi_squared.hpp>
#include <gtest/gtest.h>

namespace prism {
namespace {

// Known answers of Random123's kat_vectors for philox4x32-10.
TEST(Random, PhiloxKnownAnswers) {
  r123::Philox4x32 philox;
  const auto zeros = philox({{0, 0, 0, 0}}, {{0, 0}});
  EXPECT_EQ(zeros[0], 0x6627e8d5U);
  EXPECT_EQ(zeros[3], 0x9b00dbd8U);
  const auto pi =
      philox({{0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}}, {{0xa4093822U, 0x299f31d0U}});
  EXPECT_EQ(pi[0], 0xd16cfe09U);
  EXPECT_EQ(pi[3], 0x24126ea1U);
}

// The documented layout: sample s of id 0x1_00000002 is word (s/8)%4 of counter 8*(s/32)+s%8.
TEST(Random, CounterLayout) {
  for (const std::uint32_t sample : {0U, 1U, 7U, 8U, 31U, 32U, 63U, 1000U}) {
    const auto words = r123::Philox4x32()({{2, 1, 5, 8 * (sample / 32) + sample % 8}},
                                          {{9, static_cast<std::uint32_t>(Purpose::Cell)}});
    EXPECT_EQ(random_word(9, Purpose::Cell, (1ULL << 32) + 2, 5, sample), words[(sample / 8) % 4]) << sample;
  }
}

TEST(Random, BlockHoldsTheWordsOfItsSamples) {
  for (const std::uint32_t block : {0U, 1U, 77U}) {
    const auto words = random_block(3, Purpose::Order, 12, 4, block);
    for (std::uint32_t lane = 0; lane < kRandomBlock; ++lane) {
      EXPECT_EQ(words[lane], random_word(3, Purpose::Order, 12, 4, kRandomBlock * block + lane))
          << block << " " << lane;
    }
  }
}

TEST(Random, EveryPartOfTheKeyMatters) {
  std::set<std::uint32_t> words;
  for (const std::uint32_t seed : {1U, 2U})
    for (const Purpose purpose : {Purpose::Step, Purpose::Cell})
      for (const std::uint64_t id : {0ULL, 1ULL, 1ULL << 32})
        for (const std::uint32_t replica : {0U, 1U})
          for (std::uint32_t sample = 0; sample < 64; ++sample)
            words.insert(random_word(seed, purpose, id, replica, sample));
  EXPECT_GE(words.size(), 1536U - 2);  // 1,536 draws; a collision of 32-bit words is rare, two are suspicious
}

// Chi-square over 100 cells; level 1e-6, so a change of seed that fails needs thought.
TEST(Random, IndexIsUniform) {
  constexpr std::uint32_t kCells = 100;
  constexpr std::uint32_t kDraws = 200000;
  std::array<double, kCells> count{};
  for (std::uint32_t sample = 0; sample < kDraws; ++sample) {
    count[index_from_word(random_word(1, Purpose::Duration, 77, 3, sample), kCells)] += 1;
  }
  double chi = 0;
  for (const double c : count) chi += (c - kDraws / kCells) * (c - kDraws / kCells) / (kDraws / kCells);
  EXPECT_LT(chi, boost::math::quantile(boost::math::chi_squared(kCells - 1), 1 - 1e-6));
}

TEST(Random, EdgesOfIndexAndUnit) {
  EXPECT_EQ(index_from_word(0xffffffffU, 7), 6U);
  EXPECT_EQ(index_from_word(0, 7), 0U);
  EXPECT_GT(unit_from_word(0), 0.0);
  EXPECT_LT(unit_from_word(0xffffffffU), 1.0);
}

}  // namespace
}  // namespace prism
