// SPDX-License-Identifier: Apache-2.0
#include "prism/stats/scores.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace prism {
namespace {

std::vector<double> samples_with_ties() {
  auto values = *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(-20, 20)));
  return {values.begin(), values.end()};
}

double crps_by_all_pairs(const std::vector<double>& samples, double y) {
  const auto n = static_cast<double>(samples.size());
  double to_y = 0;
  double pairs = 0;
  for (const double a : samples) {
    to_y += std::abs(a - y);
    for (const double b : samples) pairs += std::abs(a - b);
  }
  return to_y / n - pairs / (n * n) / 2;
}

TEST(Scores, PitKnown) {
  const std::vector<double> sorted{1, 2, 2, 3};
  EXPECT_EQ(pit(sorted, 0), 0);
  EXPECT_EQ(pit(sorted, 1), 0.125);
  EXPECT_EQ(pit(sorted, 2), 0.5);
  EXPECT_EQ(pit(sorted, 2.5), 0.75);
  EXPECT_EQ(pit(sorted, 4), 1);
}

RC_GTEST_PROP(Scores, PitInUnitIntervalAndMonotone, ()) {
  auto sorted = samples_with_ties();
  std::sort(sorted.begin(), sorted.end());
  const int y = *rc::gen::inRange(-25, 25);
  RC_ASSERT(pit(sorted, y) >= 0);
  RC_ASSERT(pit(sorted, y) <= 1);
  RC_ASSERT(pit(sorted, y) <= pit(sorted, y + 0.5));
}

RC_GTEST_PROP(Scores, CrpsEqualsAllPairs, ()) {
  const auto samples = samples_with_ties();
  const double y = *rc::gen::inRange(-100, 100) / 4.0;
  const double expected = crps_by_all_pairs(samples, y);
  const CrpsEnsemble ensemble(samples);
  RC_ASSERT(std::abs(ensemble.score(y) - expected) < 1e-10);
  RC_ASSERT(std::abs(crps(ensemble.sorted(), y) - expected) < 1e-10);
  RC_ASSERT(expected >= -1e-10);
}

TEST(Scores, CrpsOfOneSampleIsTheAbsoluteError) {
  EXPECT_EQ(crps(std::vector<double>{3}, 5), 2);
  EXPECT_EQ(CrpsEnsemble({3}).score(5), 2);
  EXPECT_EQ(CrpsEnsemble({3}).half_mean_difference(), 0);
}

// Closed form for N(0,1) at y = 0: 2 phi(0) - 1/sqrt(pi) (Gneiting and Raftery 2007, eq. 20). 20,000 samples:
// 0.5 %.
TEST(Scores, CrpsOfTheNormalLaw) {
  std::mt19937_64 engine(7);
  std::normal_distribution<double> law;
  std::vector<double> samples(20000);
  for (double& sample : samples) sample = law(engine);
  const double expected = 2 / std::sqrt(2 * std::numbers::pi) - 1 / std::sqrt(std::numbers::pi);
  EXPECT_NEAR(CrpsEnsemble(samples).score(0), expected, 0.005) << "seed 7";
}

// Nanoseconds of a minute with a spread of 100 ns: prefix sums of the raw values would be off by more than
// that.
TEST(Scores, SmallSpreadOnALargeMean) {
  std::mt19937_64 engine(8);
  std::uniform_int_distribution<int> spread(0, 100);
  std::vector<double> near_zero(500);
  for (double& sample : near_zero) sample = spread(engine);
  std::vector<double> shifted = near_zero;
  for (double& sample : shifted) sample += 6e10;
  for (const double y : {-50.0, 0.0, 33.0, 150.0}) {
    EXPECT_NEAR(CrpsEnsemble(shifted).score(6e10 + y), CrpsEnsemble(near_zero).score(y), 1e-9) << "y = " << y;
  }
}

}  // namespace
}  // namespace prism
