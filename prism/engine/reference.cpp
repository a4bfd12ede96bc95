// SPDX-License-Identifier: Apache-2.0
#include "prism/engine/reference.hpp"

#include <algorithm>
#include <limits>

#include "prism/stats/normal_table.hpp"
#include "prism/stats/portable_math.hpp"
#include "prism/stats/random.hpp"

namespace prism {

namespace {

/// The word that keys a node's own draw.
std::uint32_t own_word(const Node& node, const NodeDraw& draw, std::uint32_t seed, std::uint32_t sample,
                       std::uint32_t replica) {
  return random_word(seed, Purpose::Duration, node.draw_id,
                     draw.share.index_of(replica) + node.replica_offset, sample);
}

double composed_duration(const StepModel& model, const Node& node, const NodeDraw& draw, double factor,
                         std::uint32_t word, std::uint32_t replica) {
  const double base =
      node.base_row < 0
          ? node.base_ns
          : model.replica_bases_ns[static_cast<std::size_t>(node.base_row) * model.replicas + replica];
  if (draw.draw == Draw::Base) return base * factor;
  const double own =
      draw.draw == Draw::BasePool
          ? model.pools.values_ns[draw.pool + index_from_word(word, draw.pool_size)]
          : portable_exp(draw.sigma * normal_from_word(normal_table(), word) - draw.sigma * draw.sigma * 0.5);
  return own * (base * factor);
}

double draw_duration(const StepModel& model, const Node& node, const NodeDraw& draw, std::uint32_t seed,
                     std::uint32_t sample, std::uint32_t replica, const Draws::Cell& cell) {
  const double* pool = model.pools.values_ns.data() + draw.pool +
                       std::size_t{replica % model.pool_replicas()} * draw.pool_stride;
  const auto own_index = [&] {
    return index_from_word(own_word(node, draw, seed, sample, replica), draw.pool_size);
  };
  const double factor = is_scaled(draw.draw) ? cell.factors[draw.factor] : 1;
  switch (draw.draw) {
    case Draw::None:
      return 0;
    case Draw::Table:
    case Draw::TableScaled:
      return pool[cell.rows[draw.row]] * factor;
    case Draw::Random:
    case Draw::RandomScaled:
      return pool[own_index()] * factor;
    case Draw::RandomInStep:
    case Draw::RandomInStepScaled:
      return pool[static_cast<std::uint32_t>(cell.rows[draw.row]) + own_index()] * factor;
    case Draw::Base:
    case Draw::BasePool:
    case Draw::BaseLognormal:
      return composed_duration(model, node, draw, factor, own_word(node, draw, seed, sample, replica),
                               replica);
  }
  return 0;
}

}  // namespace

NodeTimes reference_times(const StepModel& model, const Draws& draws, std::uint32_t seed,
                          std::uint32_t sample) {
  const std::uint32_t replicas = model.replicas;
  const std::size_t nodes = model.graph.size();
  NodeTimes times{std::vector<double>(nodes * replicas), std::vector<double>(nodes * replicas),
                  -std::numeric_limits<double>::infinity()};
  std::vector<Draws::Cell> cells;
  for (std::uint32_t d = 0; d < replicas; ++d) cells.push_back(draws.cell(seed, sample, d));

  std::vector<bool> followed(nodes, false);
  for (std::size_t i = 0; i < nodes; ++i) {
    const NodeId node(i);
    const ReplicaGroup group = model.graph.replica_group(node);
    std::vector<double> arrival(replicas, 0.0);
    for (std::uint32_t d = 0; d < replicas; ++d) {
      bool first = true;
      for (const NodeId before : model.graph.predecessors(node)) {
        const double finish = times.finish(before.value * replicas + d);
        arrival[d] = first ? finish : std::max(arrival[d], finish);
        first = false;
        followed[before.value] = true;
      }
    }
    std::vector<double> met(group.count(replicas), -std::numeric_limits<double>::infinity());
    for (std::uint32_t d = 0; d < replicas; ++d) {
      double& latest = met[group.index_of(d)];
      latest = std::max(latest, arrival[d]);
    }
    for (std::uint32_t d = 0; d < replicas; ++d) {
      times.start_ns[i * replicas + d] = met[group.index_of(d)];
      times.duration_ns[i * replicas + d] =
          draw_duration(model, model.nodes[node], draws.of(node), seed, sample, d, cells[d]);
    }
  }
  for (std::size_t i = 0; i < nodes; ++i) {
    for (std::uint32_t d = 0; d < replicas && !followed[i]; ++d) {
      times.step_ns = std::max(times.step_ns, times.finish(i * replicas + d));
    }
  }
  times.step_ns -= model.lead_ns;
  return times;
}

}  // namespace prism
