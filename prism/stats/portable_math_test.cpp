// SPDX-License-Identifier: Apache-2.0
#include "prism/stats/portable_math.hpp"

#include <algorithm>
#include <cmath>

#include <boost/math/distributions/normal.hpp>
#include <gtest/gtest.h>

#include "prism/stats/law_pool.hpp"
#include "prism/stats/normal_table.hpp"
#include "prism/stats/random.hpp"

namespace prism {
namespace {

TEST(PortableMath, ExpIsWithinItsBound) {
  for (double x = -690; x < 690; x += 0.137) EXPECT_NEAR(portable_exp(x) / std::exp(x), 1, 1e-8) << x;
  EXPECT_EQ(portable_exp(0), 1);
}

TEST(PortableMath, NormalIsWithinItsBoundFromTailToTail) {
  const boost::math::normal normal;
  double worst = 0;
  for (int i = 1; i < 100'000; ++i) {
    const double u = (i - 0.5) / 100'000;
    worst = std::max(worst, std::abs(portable_normal(u) - quantile(normal, u)));
  }
  EXPECT_LT(worst, 3e-7);
  for (const std::uint32_t word : {0U, 1U, 17U, 0xFFFFFFFFU, 0xFFFFFFF0U}) {
    const double u = unit_from_word(word);
    EXPECT_NEAR(portable_normal(u), quantile(normal, u), 3e-7) << word;
  }
}

TEST(PortableMath, NormalIsOddAroundTheMedian) {
  for (const double u : {0.1, 0.25, 0.4999, 0.0001})
    EXPECT_NEAR(portable_normal(u), -portable_normal(1 - u), 1e-9);
}

TEST(NormalTable, IsTheNormalQuantileFromTailToTail) {
  const boost::math::normal normal;
  const NormalTable& table = normal_table();
  double worst = 0;
  const auto check = [&](std::uint32_t word) {
    worst = std::max(worst, std::abs(normal_from_word(table, word) - quantile(normal, unit_from_word(word))));
  };
  for (std::uint32_t word = 0; word < 4000; ++word) check(word);
  for (std::uint32_t i = 0; i < 100'000; ++i) check(i * 42'949U);
  for (std::uint32_t octave = 0; octave < 32; ++octave) check(1U << octave);
  EXPECT_LT(worst, 1e-6);
  for (const std::uint32_t word : {0U, 5U, 123'456'789U, 0x7FFFFFFFU}) {
    EXPECT_EQ(normal_from_word(table, word), -normal_from_word(table, ~word));
  }
}

TEST(LawPool, HasTheLawsMeanAndSpread) {
  const Law lognormal{LognormalLaw{.mu = -0.5 * 0.2 * 0.2, .sigma = 0.2}};
  const std::vector<double> pool = law_pool(lognormal, 4096);
  double sum = 0;
  double squares = 0;
  for (const double v : pool) sum += v;
  for (const double v : pool) squares += (v - 1) * (v - 1);
  EXPECT_NEAR(sum / 4096, 1, 1e-8);
  EXPECT_NEAR(std::sqrt(squares / 4096), lognormal.sd(), 0.002 * lognormal.sd());
  EXPECT_TRUE(std::ranges::is_sorted(pool));
}

}  // namespace
}  // namespace prism
