// SPDX-License-Identifier: Apache-2.0
#include "prism/analysis/cross_step.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prism/model/step_graph.hpp"

namespace prism {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

struct Part {
  Category category = Category::Compute;
  std::vector<double> took_ns;  // [step]
};

/// A chain of nodes, one per part. Observed times are the sums.
StepModel chain(const std::vector<Part>& parts) {
  StepModel model;
  StepGraphBuilder builder;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    builder.add_node();
    if (i > 0) builder.add_edge(static_cast<std::uint32_t>(i - 1), static_cast<std::uint32_t>(i));
  }
  model.graph = builder.build("test", [](std::uint32_t) { return "node"; }).graph;
  model.nodes = IdVector<NodeId, Node>(parts.size());
  model.observed_ns.assign(parts[0].took_ns.size(), 0);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Node& node = model.nodes[NodeId(i)];
    node.id = node.draw_id = i + 1;
    node.duration_class = model.pools.add({.key = "part " + std::to_string(i), .category = parts[i].category},
                                          parts[i].took_ns, 1);
    for (std::size_t k = 0; k < model.observed_ns.size(); ++k) model.observed_ns[k] += parts[i].took_ns[k];
  }
  for (std::size_t k = 0; k < model.observed_ns.size(); ++k) model.steps.push_back(static_cast<int>(10 + k));
  return model;
}

TEST(CrossStep, EachErrorCarriesItsOwnPartsOver) {
  const StepModel model = chain({{Category::StepStart, {5, 7}},
                                 {Category::HostWork, {100, 200}},
                                 {Category::QueueLag, {10, 30}},
                                 {Category::Unexplained, {1, 2}},
                                 {Category::Compute, {1'000, 4'000}},
                                 {Category::Collective, {50, 80}},
                                 {Category::Waiting, {3, 4}}});
  const std::vector<CrossStep> pairs = replay_across_steps(model, {});
  ASSERT_THAT(pairs, SizeIs(2));
  EXPECT_EQ(pairs[0].from, 10);
  EXPECT_EQ(pairs[0].to, 11);
  const double to = 7 + 200 + 30 + 2 + 4'000 + 80 + 4;
  EXPECT_DOUBLE_EQ(pairs[0].error, (7 + 100 + 10 + 1 + 1'000 + 50 + 3) / to - 1);      // all but the start
  EXPECT_DOUBLE_EQ(pairs[0].gpu_error, (7 + 200 + 10 + 1 + 1'000 + 50 + 3) / to - 1);  // own host work
  EXPECT_DOUBLE_EQ(pairs[0].lags_error, (7 + 200 + 10 + 1 + 4'000 + 80 + 4) / to - 1);
  EXPECT_DOUBLE_EQ(pairs[0].observed_change, (5 + 100 + 10 + 1 + 1'000 + 50 + 3) / to - 1);
  EXPECT_EQ(pairs[0].kept_share, 0);
}

TEST(CrossStep, WhatOneOfTheStepsDidNotRunKeepsItsOwnTime) {
  const StepModel model = chain(
      {{Category::HostWork, {100, 100}}, {Category::Compute, {0, 400}}, {Category::Compute, {700, 800}}});
  const std::vector<CrossStep> pairs = replay_across_steps(model, {});
  ASSERT_THAT(pairs, SizeIs(2));
  EXPECT_DOUBLE_EQ(pairs[0].gpu_error, (100 + 400 + 700) / 1'300.0 - 1);
  EXPECT_DOUBLE_EQ(pairs[0].kept_share, 1.0 / 3);
  EXPECT_DOUBLE_EQ(pairs[1].gpu_error, (100 + 0 + 800) / 800.0 - 1);
  EXPECT_EQ(pairs[1].kept_share, 0);
}

TEST(CrossStep, OnlyStepsOfOneKindAreCompared) {
  StepModel model = chain({{Category::HostWork, {100, 100, 110}}, {Category::Compute, {700, 800, 900}}});
  model.step_kinds = {0, 1, 0};
  const std::vector<CrossStep> pairs = replay_across_steps(model, {});
  ASSERT_THAT(pairs, SizeIs(2));
  EXPECT_EQ(pairs[0].from, 10);
  EXPECT_EQ(pairs[0].to, 12);
}

TEST(CrossStep, OfManyStepsTheOneOfMedianTimeGivesToAllOthers) {
  Part compute;
  for (const double ns : {900, 100, 500, 700, 300, 800, 200, 600, 400}) compute.took_ns.push_back(ns);
  const StepModel model = chain({{Category::HostWork, std::vector<double>(9, 10)}, compute});
  const std::vector<CrossStep> pairs = replay_across_steps(model, {});
  ASSERT_THAT(pairs, SizeIs(8));
  for (const CrossStep& pair : pairs) EXPECT_EQ(pair.from, 12);  // 500 ns
}

TEST(CrossStep, ModelsWithoutHostWorkHaveNoLagsToCarryOver) {
  EXPECT_THAT(replay_across_steps(chain({{Category::Compute, {700, 800}}}), {}), IsEmpty());
  EXPECT_THAT(replay_across_steps(chain({{Category::HostWork, {700}}}), {}), IsEmpty());  // one step
}

}  // namespace
}  // namespace prism
