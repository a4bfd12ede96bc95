// SPDX-License-Identifier: Apache-2.0
#include "prism/model/step_graph.hpp"

#include <algorithm>
#include <queue>

#include "prism/trace/error.hpp"

namespace prism {

namespace {

using Edge = std::pair<std::uint32_t, std::uint32_t>;

/// Offsets of the rows of edges sorted by their first member.
std::vector<std::uint32_t> row_offsets(const std::vector<Edge>& sorted, std::size_t rows) {
  std::vector<std::uint32_t> first(rows + 1, 0);
  for (const Edge& edge : sorted) ++first[edge.first + 1];
  for (std::size_t i = 1; i <= rows; ++i) first[i] += first[i - 1];
  return first;
}

/// Names of the nodes of one cycle. `degree` holds the unplaced predecessors of each node; those above zero
/// lie on a cycle or behind one, so walking backwards through them must close a loop.
std::string cycle_text(const std::vector<Edge>& by_before, const std::vector<std::uint32_t>& degree,
                       const std::function<std::string(std::uint32_t)>& label) {
  std::vector<std::uint32_t> some_before(degree.size(), 0);
  for (const Edge& edge : by_before) {
    if (degree[edge.first] > 0 && degree[edge.second] > 0) some_before[edge.second] = edge.first;
  }
  auto node =
      static_cast<std::uint32_t>(std::ranges::find_if(degree, [](auto d) { return d > 0; }) - degree.begin());
  std::vector<bool> seen(degree.size(), false);
  while (!seen[node]) {
    seen[node] = true;
    node = some_before[node];
  }
  std::vector<std::uint32_t> cycle = {node};
  for (std::uint32_t at = some_before[node]; at != node; at = some_before[at]) cycle.push_back(at);
  std::ranges::reverse(cycle);
  constexpr std::size_t kMaxShown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(cycle.size(), kMaxShown); ++i) text += label(cycle[i]) + " -> ";
  return text + (cycle.size() > kMaxShown ? "... -> " : "") + label(cycle.front());
}

}  // namespace

std::uint32_t StepGraphBuilder::add_node(ReplicaGroup group) {
  groups_.push_back(group);
  return static_cast<std::uint32_t>(groups_.size() - 1);
}

void StepGraphBuilder::add_edge(std::uint32_t before, std::uint32_t after) {
  assert(before < groups_.size() && after < groups_.size());
  edges_.emplace_back(before, after);
}

StepGraphBuilder::Result StepGraphBuilder::build(
    const std::string& source, const std::function<std::string(std::uint32_t)>& label) const {
  std::vector<Edge> by_before = edges_;
  std::ranges::sort(by_before);
  by_before.erase(std::unique(by_before.begin(), by_before.end()), by_before.end());
  const std::vector<std::uint32_t> first = row_offsets(by_before, size());
  std::vector<std::uint32_t> degree(size(), 0);
  for (const Edge& edge : by_before) ++degree[edge.second];

  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ready;
  for (std::uint32_t node = 0; node < size(); ++node) {
    if (degree[node] == 0) ready.push(node);
  }
  Result result;
  result.node_of.resize(size());
  std::vector<std::uint32_t> order;
  order.reserve(size());
  while (!ready.empty()) {
    const std::uint32_t node = ready.top();
    ready.pop();
    result.node_of[node] = NodeId(order.size());
    order.push_back(node);
    for (std::uint32_t i = first[node]; i < first[node + 1]; ++i) {
      if (--degree[by_before[i].second] == 0) ready.push(by_before[i].second);
    }
  }
  if (order.size() != size()) {
    throw InputError({source, {}, {}},
                     "the dependencies form a cycle: " + cycle_text(by_before, degree, label),
                     "one of these edges must go; a step's graph has no cycle");
  }

  std::vector<Edge> by_after;
  by_after.reserve(by_before.size());
  for (const Edge& edge : by_before) {
    by_after.emplace_back(result.node_of[edge.second].value, result.node_of[edge.first].value);
  }
  std::ranges::sort(by_after);
  StepGraph& graph = result.graph;
  graph.first_ = row_offsets(by_after, size());
  for (const Edge& edge : by_after) graph.predecessors_.push_back(NodeId(edge.second));
  for (const std::uint32_t node : order) graph.groups_.push_back(groups_[node]);
  return result;
}

}  // namespace prism
