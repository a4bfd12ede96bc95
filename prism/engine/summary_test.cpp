// SPDX-License-Identifier: Apache-2.0
#include "prism/engine/summary.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "prism/stats/random.hpp"

namespace prism {
namespace {

TEST(Summary, OfTheNumbersFrom1To101) {
  std::vector<double> samples(101);
  std::iota(samples.begin(), samples.end(), 1.0);
  std::ranges::reverse(samples);
  const StepSummary summary = summarise(samples);
  EXPECT_DOUBLE_EQ(summary.moments_ns.mean, 51);
  ASSERT_EQ(summary.quantiles.size(), kReportedQuantiles.size());
  for (const QuantileEstimate& q : summary.quantiles) {
    EXPECT_NEAR(q.value_ns, 1 + 100 * q.p, 1e-9) << "p " << q.p;
    EXPECT_LE(q.low_ns.value_or(q.value_ns), q.value_ns) << "p " << q.p;
    EXPECT_GE(q.high_ns.value_or(q.value_ns), q.value_ns) << "p " << q.p;
  }
  EXPECT_FALSE(summary.quantiles.back().high_ns) << "101 samples cannot bound p99 from above";
}

// 1,000 samples of the uniform law, 400 times: the interval of each quantile must cover the truth in about 95
// % of them. Level: 5 standard errors of a share of 400, that is 0.054.
TEST(Summary, IntervalsCoverTheTruth) {
  constexpr std::uint32_t kTries = 400;
  constexpr std::uint32_t kSamples = 1000;
  std::vector<int> covered(kReportedQuantiles.size());
  for (std::uint32_t i = 0; i < kTries; ++i) {
    std::vector<double> samples(kSamples);
    for (std::uint32_t s = 0; s < kSamples; ++s) {
      samples[s] = unit_from_word(random_word(4, Purpose::Generator, i, 0, s));
    }
    const StepSummary summary = summarise(std::move(samples));
    for (std::size_t q = 0; q < covered.size(); ++q) {
      const QuantileEstimate& estimate = summary.quantiles[q];
      ASSERT_TRUE(estimate.low_ns && estimate.high_ns);
      covered[q] += *estimate.low_ns <= estimate.p && estimate.p <= *estimate.high_ns;
    }
  }
  for (std::size_t q = 0; q < covered.size(); ++q) {
    EXPECT_GT(covered[q] / double{kTries}, kConfidence - 0.054) << "p " << kReportedQuantiles[q];
  }
}

}  // namespace
}  // namespace prism
