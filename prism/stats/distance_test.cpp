// SPDX-License-Identifier: Apache-2.0
#include "prism/stats/distance.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "prism/stats/quantiles.hpp"

namespace prism {
namespace {

/// Few distinct values, so that ties within and between samples are common.
std::vector<double> sorted_with_ties() {
  auto values = *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 12)));
  std::sort(values.begin(), values.end());
  return {values.begin(), values.end()};
}

double fraction_up_to(const std::vector<double>& values, double x) {
  const auto count = std::count_if(values.begin(), values.end(), [&](double value) { return value <= x; });
  return static_cast<double>(count) / static_cast<double>(values.size());
}

TEST(Distance, TwoSampleKnown) {
  using Values = std::vector<double>;
  EXPECT_EQ(ks_two_sample(Values{1, 2, 3}, Values{1, 2, 3}), 0);
  EXPECT_EQ(ks_two_sample(Values{1, 2}, Values{3}), 1);
  EXPECT_DOUBLE_EQ(ks_two_sample(Values{1, 2, 3, 4}, Values{3, 4, 5, 6}), 0.5);
  EXPECT_DOUBLE_EQ(ks_two_sample(Values{1, 1, 1, 2}, Values{1, 2, 2, 2}), 0.5);
}

RC_GTEST_PROP(Distance, TwoSampleByDefinition, ()) {
  const auto a = sorted_with_ties();
  const auto b = sorted_with_ties();
  double expected = 0;
  for (int x = 0; x < 12; ++x)
    expected = std::max(expected, std::abs(fraction_up_to(a, x) - fraction_up_to(b, x)));
  RC_ASSERT(std::abs(ks_two_sample(a, b) - expected) < 1e-12);
  RC_ASSERT(ks_two_sample(a, b) == ks_two_sample(b, a));
  RC_ASSERT(ks_two_sample(a, a) == 0);
}

TEST(Distance, UniformKnown) {
  EXPECT_DOUBLE_EQ(ks_uniform({0.5}), 0.5);
  EXPECT_DOUBLE_EQ(ks_uniform({0.75, 0.25}), 0.25);
  EXPECT_DOUBLE_EQ(ks_uniform({1, 1, 1}), 1);
  EXPECT_DOUBLE_EQ(ks_uniform({0, 0, 0}), 1);
  EXPECT_DOUBLE_EQ(ks_uniform({0.1, 0.2, 0.3}), 0.7);  // the upper side of the last jump
  EXPECT_DOUBLE_EQ(ks_uniform({0.7, 0.8, 0.9}), 0.7);  // the lower side of the first
}

// Simulated mean and 95 % limit of sampling.md, section 7.1; 4,000 repetitions give +-0.004 on the limit.
TEST(Distance, NoiseLimits) {
  struct Row {
    std::size_t n;
    double mean, limit;
  };
  for (const Row row : {Row{32, 0.150, 0.238}, Row{43, 0.129, 0.205}, Row{44, 0.128, 0.204}}) {
    std::mt19937_64 engine(71);
    std::uniform_real_distribution<double> unit;
    std::vector<double> distances;
    for (int repetition = 0; repetition < 4000; ++repetition) {
      std::vector<double> values(row.n);
      for (double& value : values) value = unit(engine);
      distances.push_back(ks_uniform(values));
    }
    EXPECT_NEAR(moments(distances).mean, row.mean, 0.003) << "seed 71, n = " << row.n;
    EXPECT_NEAR(quantile(distances, 0.95), row.limit, 0.006) << "seed 71, n = " << row.n;
    EXPECT_NEAR(ks_noise_mean(row.n), row.mean, 0.003) << "n = " << row.n;
    EXPECT_NEAR(ks_noise_95(row.n), row.limit, 0.003) << "n = " << row.n;
  }
}

}  // namespace
}  // namespace prism
