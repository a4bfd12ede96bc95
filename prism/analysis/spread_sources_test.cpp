// SPDX-License-Identifier: Apache-2.0
#include "prism/analysis/spread_sources.hpp"

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prism/model/step_graph.hpp"

namespace prism {
namespace {

using ::testing::IsEmpty;

/// Two branches that meet: "fast" beside "slow", then "end". Step k of the profile is sample k of a recorded replay.
StepModel diamond(const std::vector<double>& slow, const std::vector<double>& fast,
                  const std::vector<double>& end) {
  StepModel model;
  StepGraphBuilder builder;
  for (int i = 0; i < 3; ++i) builder.add_node();
  builder.add_edge(0, 2);
  builder.add_edge(1, 2);
  model.graph = builder.build("test", [](std::uint32_t) { return "node"; }).graph;
  model.nodes = IdVector<NodeId, Node>(3);
  const auto add = [&](std::size_t i, const char* key, const std::vector<double>& values) {
    model.nodes[NodeId(i)].id = model.nodes[NodeId(i)].draw_id = i + 1;
    model.nodes[NodeId(i)].duration_class = model.pools.add({.key = key}, values, 1);
  };
  add(0, "slow", slow);
  add(1, "fast", fast);
  add(2, "end", end);
  model.steps.resize(slow.size());
  std::iota(model.steps.begin(), model.steps.end(), 0);
  model.observed_ns.assign(slow.size(), 1);
  return model;
}

const SpreadSource* source(const SpreadSources& all, const char* key) {
  for (const SpreadSource& of : all.sources) {
    if (of.key == key) return &of;
  }
  return nullptr;
}

TEST(SpreadSources, OnlyWhatIsOnTheCriticalPathAndVariesHasAShare) {
  // Independent draws from 256 steps; the fast branch varies most but never matters, the end never varies.
  std::vector<double> slow(256);
  std::vector<double> fast(256);
  for (std::size_t k = 0; k < slow.size(); ++k) {
    slow[k] = 10'000 + static_cast<double>(k);
    fast[k] = 10 * static_cast<double>(k);
  }
  const StepModel model = diamond(slow, fast, std::vector<double>(256, 500));
  const SpreadSources spread = find_spread_sources(model, Sampling::Iid, {}, 1, {});
  ASSERT_NE(source(spread, "slow"), nullptr);
  EXPECT_NEAR(source(spread, "slow")->share, 1, 1e-9);
  EXPECT_EQ(source(spread, "fast"), nullptr);
  EXPECT_NEAR(source(spread, "end")->share, 0, 1e-9);
  EXPECT_DOUBLE_EQ(source(spread, "end")->mean_ns, 500);
  EXPECT_EQ(spread.sources.front().key, "slow");
}

TEST(SpreadSources, SharesAddUpToOneAlsoWhereBranchesTakeTurns) {
  std::vector<double> slow(256);
  std::vector<double> fast(256);
  std::vector<double> end(256);
  for (std::size_t k = 0; k < slow.size(); ++k) {
    slow[k] = 1'000 + 3 * static_cast<double>(k);
    fast[k] = 1'000 + 4 * static_cast<double>((k * 37) % 256);
    end[k] = 500 + static_cast<double>((k * 91) % 256);
  }
  const SpreadSources spread = find_spread_sources(diamond(slow, fast, end), Sampling::Iid, {}, 1, {});
  double sum = 0;
  for (const SpreadSource& of : spread.sources) sum += of.share;
  EXPECT_EQ(spread.sources.size(), 3U);
  EXPECT_NEAR(sum, 1, 1e-9);
}

TEST(SpreadSources, AStepThatNeverVariesHasNone) {
  const std::vector<double> same(8, 100);
  EXPECT_THAT(find_spread_sources(diamond(same, same, same), Sampling::Iid, {}, 1, {}).sources, IsEmpty());
}

}  // namespace
}  // namespace prism
