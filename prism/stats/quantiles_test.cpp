// SPDX-License-Identifier: Apache-2.0
#include "prism/stats/quantiles.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <boost/math/distributions/binomial.hpp>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace prism {
namespace {

std::vector<double> finite_values() {
  auto values = *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(-1000, 1000)));
  return {values.begin(), values.end()};
}

// numpy.quantile([1, 2, 4, 8, 16], p).
TEST(Quantiles, NumpyDefault) {
  const std::vector<double> sorted{1, 2, 4, 8, 16};
  const double expected[][2] = {{0, 1}, {0.1, 1.4}, {0.25, 2}, {0.5, 4}, {0.9, 12.8}, {0.95, 14.4}, {1, 16}};
  for (const auto& [p, value] : expected) {
    EXPECT_NEAR(quantile_sorted(sorted, p), value, 1e-12) << "p = " << p;
    EXPECT_NEAR(quantile({8, 1, 16, 4, 2}, p), value, 1e-12) << "p = " << p;
  }
  EXPECT_EQ(quantile_sorted(std::vector<double>{3}, 0.95), 3);
}

RC_GTEST_PROP(Quantiles, BetweenMinimumAndMaximumAndMonotone, ()) {
  auto values = finite_values();
  const double p = *rc::gen::inRange(0, 1001) / 1000.0;
  const double q = *rc::gen::inRange(0, 1001) / 1000.0;
  const double unsorted = quantile(values, p);
  std::sort(values.begin(), values.end());
  const double at_p = quantile_sorted(values, p);
  RC_ASSERT(unsorted == at_p);
  RC_ASSERT(at_p >= values.front());
  RC_ASSERT(at_p <= values.back());
  RC_ASSERT(quantile_sorted(values, std::min(p, q)) <= quantile_sorted(values, std::max(p, q)) + 1e-12);
}

// The table of forecasting.md, section 6, item 1; 0 stands for "no finite end".
TEST(RankInterval, Table) {
  struct Row {
    std::size_t n;
    double p;
    std::size_t low, high;
  };
  const Row rows[] = {{1000, 0.5, 469, 532},     {1000, 0.95, 936, 964},    {1000, 0.99, 983, 997},
                      {1000, 0.999, 997, 0},     {4000, 0.5, 1938, 2063},   {4000, 0.95, 3773, 3828},
                      {4000, 0.99, 3947, 3973},  {4000, 0.999, 3992, 4000}, {10000, 0.5, 4902, 5099},
                      {10000, 0.95, 9457, 9543}, {10000, 0.99, 9880, 9920}, {10000, 0.999, 9983, 9997}};
  for (const Row& row : rows) {
    const RankInterval ranks = quantile_rank_interval(row.n, row.p, 0.95);
    EXPECT_EQ(ranks.low.value_or(0), row.low) << "low, n = " << row.n << ", p = " << row.p;
    EXPECT_EQ(ranks.high.value_or(0), row.high) << "high, n = " << row.n << ", p = " << row.p;
    EXPECT_GE(ranks.coverage, ranks.high ? 0.95 : 0.975) << "n = " << row.n << ", p = " << row.p;
  }
}

TEST(RankInterval, NoEnds) {
  EXPECT_FALSE(quantile_rank_interval(5, 0.5, 0.95).low);
  EXPECT_FALSE(quantile_rank_interval(5, 0.5, 0.95).high);
  EXPECT_EQ(quantile_rank_interval(5, 0.5, 0.95).coverage, 1);
  EXPECT_EQ(quantile_rank_interval(6, 0.5, 0.95).low, 1U);
  EXPECT_EQ(quantile_rank_interval(6, 0.5, 0.95).high, 6U);
  EXPECT_NEAR(quantile_rank_interval(6, 0.5, 0.95).coverage, 1 - 2.0 / 64, 1e-12);
  EXPECT_FALSE(quantile_rank_interval(0, 0.5, 0.95).low);
}

RC_GTEST_PROP(RankInterval, ExtremeByDefinition, ()) {
  const auto n = static_cast<std::size_t>(*rc::gen::inRange(1, 500));
  const double p = *rc::gen::inRange(1, 1000) / 1000.0;
  const RankInterval ranks = quantile_rank_interval(n, p, 0.9);
  const boost::math::binomial law(static_cast<double>(n), p);
  const auto below = [&](std::size_t rank) {
    return rank == 0 ? 0 : cdf(law, static_cast<double>(rank) - 1);
  };
  const std::size_t low = ranks.low.value_or(0);
  const std::size_t high = ranks.high.value_or(n + 1);
  RC_ASSERT(low == 0 || below(low) <= 0.05 + 1e-12);
  RC_ASSERT(low == n || below(low + 1) > 0.05 - 1e-12);
  RC_ASSERT(high == n + 1 || below(high) >= 0.95 - 1e-12);
  RC_ASSERT(high == 1 || below(high - 1) < 0.95 + 1e-12);
}

// 2,000 repetitions: standard error 0.5 points at 95 %, so 2 points are four of them.
TEST(RankInterval, CoverageBySimulation) {
  constexpr std::size_t kRepetitions = 2000;
  struct Case {
    std::size_t n;
    double p;
  };
  for (const Case c : {Case{101, 0.5}, Case{400, 0.95}, Case{1000, 0.99}, Case{200, 0.99}}) {
    const RankInterval ranks = quantile_rank_interval(c.n, c.p, 0.95);
    std::mt19937_64 engine(20240607);
    std::exponential_distribution<double> law;
    const double truth = -std::log1p(-c.p);
    std::vector<double> values(c.n);
    std::size_t covered = 0;
    for (std::size_t repetition = 0; repetition < kRepetitions; ++repetition) {
      for (double& value : values) value = law(engine);
      std::sort(values.begin(), values.end());
      const bool above_low = !ranks.low || values[*ranks.low - 1] <= truth;
      const bool below_high = !ranks.high || truth <= values[*ranks.high - 1];
      if (above_low && below_high) ++covered;
    }
    const double observed = static_cast<double>(covered) / kRepetitions;
    EXPECT_NEAR(observed, ranks.coverage, 0.02) << "seed 20240607, n = " << c.n << ", p = " << c.p;
  }
}

TEST(ToleranceLimit, Wilks) {
  EXPECT_EQ(tolerance_min_samples(0.95, 0.95), 59U);
  EXPECT_EQ(tolerance_min_samples(0.99, 0.95), 299U);
  EXPECT_EQ(tolerance_min_samples(0.999, 0.95), 2995U);
  EXPECT_EQ(tolerance_min_samples(0.5, 0.4), 1U);
  EXPECT_FALSE(tolerance_upper_rank(58, 0.95, 0.95));
  EXPECT_EQ(tolerance_upper_rank(59, 0.95, 0.95), 59U);
  EXPECT_EQ(tolerance_upper_rank(92, 0.95, 0.95), 92U);
  EXPECT_EQ(tolerance_upper_rank(93, 0.95, 0.95), 92U);  // Wilks' second order: 93 values
  EXPECT_FALSE(tolerance_upper_rank(2994, 0.999, 0.95));
  EXPECT_EQ(tolerance_upper_rank(2995, 0.999, 0.95), 2995U);
}

TEST(Moments, Known) {
  const Moments m = moments(std::vector<double>{2, 4, 4, 4, 5, 5, 7, 9});
  EXPECT_DOUBLE_EQ(m.mean, 5);
  EXPECT_DOUBLE_EQ(m.sd, std::sqrt(32.0 / 7));
  EXPECT_DOUBLE_EQ(m.cv, std::sqrt(32.0 / 7) / 5);
  EXPECT_EQ(m.min, 2);
  EXPECT_EQ(m.max, 9);
  const Moments one = moments(std::vector<double>{7});
  EXPECT_EQ(one.mean, 7);
  EXPECT_EQ(one.sd, 0);
  EXPECT_EQ(one.cv, 0);
  // 0.1 three times sums to more than 0.3.
  EXPECT_EQ(moments(std::vector<double>{0.1, 0.1, 0.1}).sd, 0);
  EXPECT_EQ(moments(std::vector<double>{-1, 1}).mean, 0);
}

// A one-pass formula loses all digits here.
TEST(Moments, SmallSpreadOnALargeMean) {
  const Moments m = moments(std::vector<double>{1e15 + 1, 1e15 + 2, 1e15 + 3});
  EXPECT_DOUBLE_EQ(m.sd, 1);
}

}  // namespace
}  // namespace prism
