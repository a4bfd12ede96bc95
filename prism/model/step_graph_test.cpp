// SPDX-License-Identifier: Apache-2.0
#include "prism/model/step_graph.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "prism/io/test_dir.hpp"
#include "prism/trace/error.hpp"

namespace prism {
namespace {

// RapidCheck takes its seed from the environment; a fixed one unless the caller set another.
[[maybe_unused]] const int kSeedIsFixed = ::setenv("RC_PARAMS", "seed=20251001", 0);

std::string number(std::uint32_t node) {
  return "n" + std::to_string(node);
}

std::vector<std::size_t> before(const StepGraph& graph, std::size_t node) {
  std::vector<std::size_t> ids;
  for (const NodeId id : graph.predecessors(NodeId(node))) ids.push_back(id.value);
  return ids;
}

StepGraphBuilder builder_of(std::size_t nodes,
                            const std::vector<std::pair<std::uint32_t, std::uint32_t>>& edges) {
  StepGraphBuilder builder;
  for (std::size_t i = 0; i < nodes; ++i) builder.add_node();
  for (const auto& [from, to] : edges) builder.add_edge(from, to);
  return builder;
}

std::string cycle_of(std::size_t nodes, const std::vector<std::pair<std::uint32_t, std::uint32_t>>& edges) {
  return thrown<InputError>([&] { (void)builder_of(nodes, edges).build("job.csv", number); });
}

//   n3 -> n1 -> n0        added as 0, 1, 2, 3; 2 waits for nothing
//         n2 ----^
TEST(StepGraphBuilder, SortsAndAmongReadyNodesTheOneAddedFirstComesFirst) {
  const auto [graph, node_of] = builder_of(4, {{1, 0}, {3, 1}, {2, 0}}).build("", number);
  EXPECT_EQ(node_of, (std::vector{NodeId(3), NodeId(2), NodeId(0), NodeId(1)}));
  ASSERT_EQ(graph.size(), 4U);
  EXPECT_EQ(graph.edge_count(), 3U);
  EXPECT_TRUE(before(graph, 0).empty());                          // n2
  EXPECT_TRUE(before(graph, 1).empty());                          // n3
  EXPECT_EQ(before(graph, 2), (std::vector<std::size_t>{1}));     // n1
  EXPECT_EQ(before(graph, 3), (std::vector<std::size_t>{0, 2}));  // n0
}

TEST(StepGraphBuilder, DoubledEdgesCountOnce) {
  const auto graph = builder_of(2, {{0, 1}, {0, 1}, {0, 1}}).build("", number).graph;
  EXPECT_EQ(graph.edge_count(), 1U);
  EXPECT_EQ(graph, builder_of(2, {{0, 1}}).build("", number).graph);
}

TEST(StepGraphBuilder, EmptyGraphIsAGraph) {
  const auto [graph, node_of] = StepGraphBuilder().build("", number);
  EXPECT_EQ(graph.size(), 0U);
  EXPECT_EQ(graph.edge_count(), 0U);
  EXPECT_TRUE(node_of.empty());
}

TEST(StepGraphBuilder, GroupsFollowTheirNodes) {
  StepGraphBuilder builder;
  builder.add_node({8, 1});
  builder.add_node({2, 4});
  builder.add_edge(1, 0);
  const auto [graph, node_of] = builder.build("", number);
  EXPECT_EQ(graph.replica_group(node_of[0]), (ReplicaGroup{8, 1}));
  EXPECT_EQ(graph.replica_group(node_of[1]), (ReplicaGroup{2, 4}));
}

TEST(StepGraphBuilder, CycleIsNamedInItsDirection) {
  //   n0 -> n1 -> n2 -> n3 -> n1 ...; n4 hangs behind the cycle and is not part of it
  const std::string message = cycle_of(5, {{0, 1}, {1, 2}, {2, 3}, {3, 1}, {3, 4}});
  EXPECT_NE(message.find("job.csv"), std::string::npos) << message;
  const bool named = message.find("n1 -> n2 -> n3 -> n1") != std::string::npos ||
                     message.find("n2 -> n3 -> n1 -> n2") != std::string::npos ||
                     message.find("n3 -> n1 -> n2 -> n3") != std::string::npos;
  EXPECT_TRUE(named) << message;
  EXPECT_EQ(message.find("n0"), std::string::npos) << message;
  EXPECT_EQ(message.find("n4"), std::string::npos) << message;
}

TEST(StepGraphBuilder, NodeThatWaitsForItselfIsACycle) {
  EXPECT_NE(cycle_of(2, {{0, 1}, {1, 1}}).find("n1 -> n1"), std::string::npos);
}

TEST(StepGraphBuilder, LongCycleIsCutShort) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  for (std::uint32_t i = 0; i < 100'000; ++i) edges.emplace_back(i, (i + 1) % 100'000);
  const std::string message = cycle_of(100'000, edges);
  EXPECT_NE(message.find(" -> ... -> n"), std::string::npos);
  EXPECT_LT(message.size(), 300U);
}

// Real graphs are deep: nothing may recurse.
TEST(StepGraphBuilder, DeepChain) {
  constexpr std::uint32_t kNodes = 500'000;
  StepGraphBuilder builder;
  for (std::uint32_t i = 0; i < kNodes; ++i) builder.add_node();
  for (std::uint32_t i = 1; i < kNodes; ++i) builder.add_edge(i, i - 1);  // added from the end
  const auto [graph, node_of] = builder.build("", number);
  EXPECT_EQ(node_of.front(), NodeId(kNodes - 1));
  EXPECT_EQ(node_of.back(), NodeId(0));
}

RC_GTEST_PROP(StepGraphProperty, IsATopologicalOrderOfTheGivenEdges, ()) {
  const auto nodes = *rc::gen::inRange<std::uint32_t>(1, 40);
  std::vector<std::uint32_t> order(nodes);  // edges go forward in a hidden order, so there is no cycle
  std::iota(order.begin(), order.end(), 0U);
  std::shuffle(order.begin(), order.end(), std::mt19937(*rc::gen::arbitrary<std::uint32_t>()));
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  const auto ends = *rc::gen::container<std::vector<std::pair<std::uint32_t, std::uint32_t>>>(
      rc::gen::pair(rc::gen::inRange<std::uint32_t>(0, nodes), rc::gen::inRange<std::uint32_t>(0, nodes)));
  for (const auto& [a, b] : ends) {
    if (a != b) edges.emplace_back(order[std::min(a, b)], order[std::max(a, b)]);
  }
  const auto [graph, node_of] = builder_of(nodes, edges).build("", number);
  std::vector<std::pair<std::size_t, std::size_t>> expected;
  for (const auto& [from, to] : edges) expected.emplace_back(node_of[to].value, node_of[from].value);
  std::ranges::sort(expected);
  expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
  std::vector<std::pair<std::size_t, std::size_t>> found;
  for (std::size_t node = 0; node < graph.size(); ++node) {
    for (const std::size_t id : before(graph, node)) {
      RC_ASSERT(id < node);
      found.emplace_back(node, id);
    }
  }
  RC_ASSERT(found == expected);
}

// The words at ReplicaGroup, replica by replica.
TEST(ReplicaGroup, JoinsReplicasOfOneRunThatDifferByTheStride) {
  for (const ReplicaGroup group : {ReplicaGroup{}, {24, 1}, {2, 1}, {4, 1}, {2, 2}, {4, 2}, {3, 4}, {8, 3}}) {
    constexpr std::uint32_t kReplicas = 24;
    ASSERT_EQ(group.count(kReplicas), kReplicas / group.size);
    const std::uint32_t run = group.size * group.stride;
    for (std::uint32_t a = 0; a < kReplicas; ++a) {
      EXPECT_LT(group.index_of(a), group.count(kReplicas));
      for (std::uint32_t b = 0; b < kReplicas; ++b) {
        const bool together = a / run == b / run && (a > b ? a - b : b - a) % group.stride == 0;
        EXPECT_EQ(group.index_of(a) == group.index_of(b), together)
            << group.size << "/" << group.stride << ": " << a << " and " << b;
      }
    }
    EXPECT_EQ(group.spans(), group.size > 1);
  }
}

}  // namespace
}  // namespace prism
