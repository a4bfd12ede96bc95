// SPDX-License-Identifier: Apache-2.0
#include "prism/analysis/spread_sources.hpp"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/text_graph.hpp"

namespace prism {
namespace {

SpreadSources sources_of(const StepModel& model) {
  return find_spread_sources(model, Sampling::Iid, {}, 1, {});
}

double share(const SpreadSources& sources, const std::string& pool) {
  for (const SpreadSource& source : sources.sources) {
    if (source.key == pool) return source.share;
  }
  return 0;
}

TEST(SpreadSources, AChainSplitsByTheVarianceOfItsParts) {
  // Variances 1, 4 and 0 in units of (100 ns)^2: shares 1/5, 4/5 and 0.
  const StepModel model =
      sketch("calm -> wild -> fixed=5000", 1, {{"calm", {900, 1100}}, {"wild", {1800, 2200}}}).model();
  const SpreadSources sources = sources_of(model);
  EXPECT_EQ(sources.samples, 256U);
  const double error = 3 / std::sqrt(256.0);  // of a sample covariance, in units of the variance
  EXPECT_NEAR(share(sources, "wild"), 0.8, error);
  EXPECT_NEAR(share(sources, "calm"), 0.2, error);
  EXPECT_EQ(share(sources, "fixed"), 0);
  EXPECT_NEAR(share(sources, "wild") + share(sources, "calm"), 1, 1e-6);  // durations are kept as float
}

TEST(SpreadSources, WhatIsNeverCriticalCountsForNothing) {
  const StepModel model =
      sketch("long -> end=1; short -> end", 1, {{"long", {5000, 6000}}, {"short", {10, 3000}}}).model();
  const SpreadSources sources = sources_of(model);
  EXPECT_NEAR(share(sources, "long"), 1, 1e-6);
  EXPECT_EQ(share(sources, "short"), 0);
}

TEST(SpreadSources, ReplicasThatMeetShareThePath) {
  const StepModel model = sketch("work -> meet*4", 4, {{"work", {1000, 2000, 3000, 4000}}}).model();
  const SpreadSources sources = sources_of(model);
  ASSERT_FALSE(sources.sources.empty());
  EXPECT_EQ(sources.sources.front().key, "work");
  EXPECT_GT(sources.sources.front().share, 0.1);
  EXPECT_LT(sources.sources.front().share,
            1.0);  // the slowest of four varies less than their weighted sum explains
  ASSERT_EQ(sources.ranks.size(), 1U);
  EXPECT_NEAR(sources.ranks.front().share, 1, 1e-9);
}

TEST(SpreadSources, AStepThatNeverChangesHasNone) {
  EXPECT_THAT(sources_of(sketch("a=10 -> b=20").model()).sources, testing::IsEmpty());
}

}  // namespace
}  // namespace prism
