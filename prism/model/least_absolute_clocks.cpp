// SPDX-License-Identifier: Apache-2.0
#include "prism/model/least_absolute_clocks.hpp"

#include <algorithm>
#include <cmath>

namespace prism {

namespace {

constexpr int kReweightings = 20;
constexpr int kMaxSweeps = 100;
constexpr double kConvergedNs = 10;

/// Sweeps that put each clock at the weighted mean its neighbours ask for.
void relax(const std::vector<ClockDifference>& edges, const std::vector<double>& weight,
           std::vector<double>& clock) {
  struct Neighbour {
    std::size_t other;
    double difference_ns;
    double weight;
  };
  std::vector<std::vector<Neighbour>> neighbours(clock.size());
  for (std::size_t e = 0; e < edges.size(); ++e) {
    neighbours[edges[e].a].push_back({edges[e].b, edges[e].difference_ns, weight[e]});
    neighbours[edges[e].b].push_back({edges[e].a, -edges[e].difference_ns, weight[e]});
  }
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    double largest_move = 0;
    for (std::size_t i = 0; i < clock.size(); ++i) {
      if (neighbours[i].empty()) continue;
      double sum = 0;
      double weights = 0;
      for (const Neighbour& n : neighbours[i]) {
        sum += n.weight * (clock[n.other] + n.difference_ns);
        weights += n.weight;
      }
      largest_move = std::max(largest_move, std::abs(sum / weights - clock[i]));
      clock[i] = sum / weights;
    }
    if (largest_move < kConvergedNs) break;
  }
}

}  // namespace

std::vector<double> least_absolute_clocks(std::size_t clocks, const std::vector<ClockDifference>& differences,
                                          double agreement_ns) {
  std::vector<double> clock(clocks, 0.0);
  std::vector<double> weight(differences.size(), 1.0);
  for (int round = 0; round < kReweightings; ++round) {
    relax(differences, weight, clock);
    for (std::size_t e = 0; e < differences.size(); ++e) {
      const ClockDifference& edge = differences[e];
      const double residual = clock[edge.a] - clock[edge.b] - edge.difference_ns;
      weight[e] = 1 / std::max(std::abs(residual), agreement_ns);
    }
  }
  return clock;
}

}  // namespace prism
