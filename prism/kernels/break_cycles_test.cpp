// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/break_cycles.hpp"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace prism {
namespace {

using ::testing::ElementsAre;

TEST(BreakCycles, TheMostDoubtfulEdgeOfACycleGoes) {
  std::vector<DoubtfulEdge> edges = {{0, 1, 0}, {1, 2, 1}, {2, 0, 2}, {2, 3, 2}};
  EXPECT_EQ(break_cycles(4, edges), 1U);
  EXPECT_THAT(edges, ElementsAre(DoubtfulEdge{0, 1, 0}, DoubtfulEdge{1, 2, 1}, DoubtfulEdge{2, 3, 2}));
}

TEST(BreakCycles, LessDoubtfulEdgesGoOnlyIfTheCycleIsStillThere) {
  // Two cycles through 0 and 1: one has an edge of doubt 2, the other is of doubt 1 at most.
  std::vector<DoubtfulEdge> edges = {{0, 1, 0}, {1, 0, 1}, {1, 2, 0}, {2, 0, 2}};
  EXPECT_EQ(break_cycles(3, edges), 2U);
  EXPECT_THAT(edges, ElementsAre(DoubtfulEdge{0, 1, 0}, DoubtfulEdge{1, 2, 0}));
}

TEST(BreakCycles, CertainCyclesStayForTheBuilderToName) {
  std::vector<DoubtfulEdge> edges = {{0, 1, 0}, {1, 0, 0}, {2, 2, 1}};
  EXPECT_EQ(break_cycles(3, edges), 1U);
  EXPECT_THAT(edges, ElementsAre(DoubtfulEdge{0, 1, 0}, DoubtfulEdge{1, 0, 0}));
}

TEST(BreakCycles, ALongCycleDoesNotExhaustTheStack) {
  constexpr std::uint32_t kNodes = 1'000'000;
  std::vector<DoubtfulEdge> edges;
  for (std::uint32_t n = 0; n + 1 < kNodes; ++n) edges.push_back({n, n + 1, 0});
  edges.push_back({kNodes - 1, 0, 1});
  EXPECT_EQ(break_cycles(kNodes, edges), 1U);
}

/// By taking out nodes without predecessors until none is left.
bool is_acyclic(std::size_t nodes, std::vector<DoubtfulEdge> edges) {
  std::vector<bool> gone(nodes, false);
  for (std::size_t round = 0; round < nodes; ++round) {
    for (std::uint32_t n = 0; n < nodes; ++n) {
      const auto waits = [&](const DoubtfulEdge& e) { return e.after == n && !gone[e.before]; };
      if (std::ranges::none_of(edges, waits)) gone[n] = true;
    }
  }
  return std::ranges::all_of(gone, [](bool is) { return is; });
}

RC_GTEST_PROP(BreakCycles, LeavesAnAcyclicGraphAndEveryEdgeOfNoCycle, ()) {
  const auto nodes = *rc::gen::inRange<std::uint32_t>(1, 9);
  std::vector<DoubtfulEdge> edges;
  for (auto count = *rc::gen::inRange(0, 20); count > 0; --count) {
    const auto before = *rc::gen::inRange<std::uint32_t>(0, nodes);
    const auto after = *rc::gen::inRange<std::uint32_t>(0, nodes);
    // Certain edges lead upward, so they form no cycle.
    const auto doubt = *rc::gen::inRange<std::uint32_t>(before < after ? 0 : 1, 4);
    edges.push_back({before, after, static_cast<std::uint8_t>(doubt)});
  }
  std::vector<DoubtfulEdge> kept = edges;
  const std::size_t removed = break_cycles(nodes, kept);
  RC_ASSERT(removed + kept.size() == edges.size());
  RC_ASSERT(is_acyclic(nodes, kept));
  if (is_acyclic(nodes, edges)) RC_ASSERT(removed == 0U);
  for (const DoubtfulEdge& edge : edges) {
    if (edge.doubt == 0) RC_ASSERT(std::ranges::count(kept, edge) == std::ranges::count(edges, edge));
  }
}

}  // namespace
}  // namespace prism
