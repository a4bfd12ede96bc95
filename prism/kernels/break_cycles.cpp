// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/break_cycles.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace prism {

namespace {

constexpr std::uint32_t kNotSeen = std::numeric_limits<std::uint32_t>::max();

/// [node] number of its strongly connected component (Tarjan 1972, without recursion).
class Components {
 public:
  Components(std::size_t nodes, const std::vector<DoubtfulEdge>& edges)
      : first_(nodes + 1, 0),
        after_(edges.size()),
        next_(nodes),
        order_(nodes, kNotSeen),
        low_(nodes),
        of_(nodes, kNotSeen) {
    for (const DoubtfulEdge& edge : edges) ++first_[edge.before + 1];
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    std::copy(first_.begin(), first_.end() - 1, next_.begin());
    for (const DoubtfulEdge& edge : edges) after_[next_[edge.before]++] = edge.after;
    std::copy(first_.begin(), first_.end() - 1, next_.begin());
    for (std::uint32_t node = 0; node < nodes; ++node) {
      if (order_[node] == kNotSeen) visit(node);
    }
  }
  [[nodiscard]] std::uint32_t of(std::uint32_t node) const { return of_[node]; }
  [[nodiscard]] std::uint32_t count() const { return count_; }

 private:
  void enter(std::uint32_t node) {
    order_[node] = low_[node] = seen_++;
    path_.push_back(node);
    open_.push_back(node);
  }

  void visit(std::uint32_t root) {
    enter(root);
    while (!path_.empty()) {
      const std::uint32_t node = path_.back();
      if (next_[node] < first_[node + 1]) {
        const std::uint32_t other = after_[next_[node]++];
        if (order_[other] == kNotSeen) {
          enter(other);
        } else if (of_[other] == kNotSeen) {
          low_[node] = std::min(low_[node], order_[other]);
        }
        continue;
      }
      path_.pop_back();
      if (!path_.empty()) low_[path_.back()] = std::min(low_[path_.back()], low_[node]);
      if (low_[node] == order_[node]) close(node);
    }
  }

  void close(std::uint32_t first) {
    std::uint32_t node = kNotSeen;
    while (node != first) {
      node = open_.back();
      open_.pop_back();
      of_[node] = count_;
    }
    ++count_;
  }

  std::vector<std::uint32_t> first_;  // [node] into after_
  std::vector<std::uint32_t> after_;
  std::vector<std::uint32_t> next_;   // [node] edge to follow next
  std::vector<std::uint32_t> order_;  // [node] in which they were seen
  std::vector<std::uint32_t> low_;
  std::vector<std::uint32_t> of_;
  std::vector<std::uint32_t> path_;
  std::vector<std::uint32_t> open_;  // seen, component not known yet
  std::uint32_t seen_ = 0;
  std::uint32_t count_ = 0;
};

}  // namespace

std::size_t break_cycles(std::size_t nodes, std::vector<DoubtfulEdge>& edges) {
  const std::size_t before = edges.size();
  for (;;) {
    const Components components(nodes, edges);
    const auto is_inner = [&](const DoubtfulEdge& e) {
      return components.of(e.before) == components.of(e.after);
    };
    std::vector<std::uint8_t> most(components.count(), 0);  // doubt
    for (const DoubtfulEdge& edge : edges) {
      if (is_inner(edge))
        most[components.of(edge.before)] = std::max(most[components.of(edge.before)], edge.doubt);
    }
    const std::size_t removed = std::erase_if(edges, [&](const DoubtfulEdge& edge) {
      return is_inner(edge) && edge.doubt > 0 && edge.doubt == most[components.of(edge.before)];
    });
    if (removed == 0) return before - edges.size();
  }
}

}  // namespace prism
