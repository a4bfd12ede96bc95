// SPDX-License-Identifier: Apache-2.0
// Makes a graph acyclic by leaving out its most doubtful edges.
//
// Each profiled step by itself is in order of time. The union of steps that order the same ops differently need not be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace prism {

struct DoubtfulEdge {
  std::uint32_t before = 0;
  std::uint32_t after = 0;
  std::uint8_t doubt = 0;  ///< 0: certain, never left out
  friend bool operator==(const DoubtfulEdge&, const DoubtfulEdge&) = default;
};

/// Takes out, of each set of nodes that wait for each other, the inner edges of the largest doubt, until there is no such
/// set or only certain edges are left in it. Returns how many; the others keep their order. Linear in nodes and edges for
/// each kind of doubt.
std::size_t break_cycles(std::size_t nodes, std::vector<DoubtfulEdge>& edges);

}  // namespace prism
