// SPDX-License-Identifier: Apache-2.0
#include "prism/engine/draws.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "prism/stats/random.hpp"
#include "prism/trace/error.hpp"

namespace prism {

namespace {

/// Number of microbatches that a cell's order runs over; 1 if there are none. Classes of another size keep their place.
std::uint32_t reordered_microbatches(const DurationPools& pools) {
  std::uint32_t microbatches = 1;
  for (const DurationClass& c : pools.classes) {
    if (c.exchangeable) microbatches = std::max(microbatches, c.members);
  }
  return microbatches;
}

/// To 24 bits: exp and log differ in the last bit from processor to processor, results must not.
double rounded(double factor) {
  return static_cast<double>(static_cast<float>(factor));
}

}  // namespace

Draws::Draws(const StepModel& model, Sampling sampling, const StepEffects& effects)
    : model_(model), sampling_(sampling), effects_(effects), share_(model.replicas > 1 ? effects.share : 1) {
  const bool plain_pools = model.step_count() == 0;
  if (plain_pools && sampling != Sampling::Iid && sampling != Sampling::IidMixed) {
    throw InputError({model.source, {}, {}},
                     "sampling model '" + std::string(sampling_name(sampling)) + "' needs profiled steps",
                     "pools without steps can be sampled with --sampling iid");
  }
  microbatches_ = reordered_microbatches(model.pools);
  nodes_ = IdVector<NodeId, NodeDraw>(model.nodes.size());
  for (std::size_t i = 0; i < model.nodes.size(); ++i) nodes_[NodeId(i)] = draw_of(model.nodes[NodeId(i)]);
  for (const ClassId id : factor_classes_) {
    std::vector<double>& up = raise_.emplace_back();
    std::vector<double>& down = lower_.emplace_back();
    for (const double effect : effects.effect[id]) {
      up.push_back(rounded(std::exp(share_ * effect)));
      down.push_back(rounded(std::exp(-share_ * effect)));
    }
  }
}

bool Draws::reads_own_rows(NodeId node) const {
  const NodeDraw& draw = nodes_[node];
  return draw.draw == Draw::TableScaled ||
         (draw.draw == Draw::Table && rows_[draw.row].kind == RowKind::Cell);
}

std::uint32_t Draws::row(Row wanted) {
  const auto [place, is_new] = row_index_.try_emplace(wanted, static_cast<std::uint32_t>(rows_.size()));
  if (is_new) rows_.push_back(wanted);
  return place->second;
}

std::uint32_t Draws::factor_of(ClassId id) {
  const auto [place, is_new] =
      factor_index_.try_emplace(id, static_cast<std::uint32_t>(factor_classes_.size()));
  if (is_new) factor_classes_.push_back(id);
  return place->second;
}

NodeDraw Draws::draw_of(const Node& node) {
  NodeDraw draw;
  if (node.kind == NodeKind::Join) return draw;
  const DurationClass& c = model_.pools.classes[node.duration_class];
  draw.pool = c.offset;
  draw.pool_stride = c.per_replica ? c.size : 0;
  draw.pool_size = c.size;
  draw.share = node.draw_group;
  if (sampling_ == Sampling::Recorded) {
    draw.draw = Draw::Table;
    draw.row = row({RowKind::Common, c.members, node.member, false});
    return draw;
  }
  return c.category == Category::Compute ? compute_draw(node, draw) : other_draw(node, draw);
}

NodeDraw Draws::compute_draw(const Node& node, NodeDraw draw) {
  const DurationClass& c = model_.pools.classes[node.duration_class];
  switch (sampling_) {
    case Sampling::Hierarchical:
      draw.row = row({RowKind::Cell, c.members, node.member, c.exchangeable && c.members == microbatches_});
      draw.draw = Draw::Table;
      // With one replica the cell is of step k* itself: there is no effect to exchange.
      if (model_.replicas > 1 && share_ > 0 && !effects_.effect[node.duration_class].empty()) {
        draw.draw = Draw::TableScaled;
        draw.factor = factor_of(node.duration_class);
      }
      return draw;
    case Sampling::StepBlock:
      draw.draw = Draw::RandomInStep;
      draw.row = row({RowKind::Common, c.members, 0, false});
      draw.pool_size = c.members;
      return draw;
    case Sampling::IidMixed:
      draw.draw = Draw::Random;
      draw.pool_size = c.size * (c.per_replica ? model_.replicas : 1);
      draw.pool_stride = 0;
      return draw;
    case Sampling::Regime:
    case Sampling::Iid:
    case Sampling::Recorded:
      break;
  }
  draw.draw = Draw::Random;
  return draw;
}

NodeDraw Draws::other_draw(const Node& node, NodeDraw draw) {
  const DurationClass& c = model_.pools.classes[node.duration_class];
  if (sampling_ == Sampling::Iid || sampling_ == Sampling::IidMixed) {
    draw.draw = Draw::Random;
  } else {
    draw.draw = Draw::Table;
    draw.row = row({RowKind::Common, c.members, node.member, false});
  }
  return draw;
}

double Draws::factor(std::size_t f, std::uint32_t common, std::uint32_t own) const {
  return common == own ? 1.0 : raise_[f][common] * lower_[f][own];
}

std::uint32_t Draws::common_step(std::uint32_t word, std::uint32_t sample) const {
  const auto steps = static_cast<std::uint32_t>(model_.step_count());
  return sampling_ == Sampling::Recorded ? sample % steps : index_from_word(word, steps);
}

Draws::Cell Draws::cell(std::uint32_t seed, std::uint32_t sample, std::uint32_t replica) const {
  Cell cell{std::vector<std::int32_t>(rows_.size()), std::vector<double>(factor_classes_.size())};
  if (rows_.empty()) return cell;
  const auto steps = static_cast<std::uint32_t>(model_.step_count());
  const std::uint32_t common = common_step(random_word(seed, Purpose::Step, 0, 0, sample), sample);
  const std::uint32_t own = model_.replicas > 1
                                ? index_from_word(random_word(seed, Purpose::Cell, 0, replica, sample), steps)
                                : common;
  const std::vector<std::uint32_t> order = microbatch_order(seed, sample, replica, microbatches_);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    const std::uint32_t step = row.kind == RowKind::Cell ? own : common;
    cell.rows[i] =
        static_cast<std::int32_t>(step * row.members + (row.reordered ? order[row.member] : row.member));
  }
  for (std::size_t f = 0; f < factor_classes_.size(); ++f) cell.factors[f] = factor(f, common, own);
  return cell;
}

void Draws::fill_common(std::uint32_t seed, std::uint32_t block, Block& out) const {
  out.rows.resize(rows_.size() * kLanes);
  if (rows_.empty()) return;
  const auto words = random_block(seed, Purpose::Step, 0, 0, block);
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    const std::uint32_t step = common_step(words[lane], block * kLanes + lane);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      out.rows[i * kLanes + lane] = static_cast<std::int32_t>(step * rows_[i].members + rows_[i].member);
    }
  }
}

void Draws::fill_own(std::uint32_t seed, std::uint32_t block, std::uint32_t replica, Block& out) const {
  out.factors.resize(factor_classes_.size() * kLanes);
  out.order.resize(std::size_t{microbatches_} * kLanes);
  const auto steps = static_cast<std::uint32_t>(model_.step_count());
  const auto step_words = random_block(seed, Purpose::Step, 0, 0, block);
  const auto cell_words = random_block(seed, Purpose::Cell, 0, replica, block);
  std::array<std::uint32_t, kLanes> common{};
  std::array<std::uint32_t, kLanes> own{};
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    common[lane] = common_step(step_words[lane], block * kLanes + lane);
    own[lane] = model_.replicas > 1 ? index_from_word(cell_words[lane], steps) : common[lane];
  }
  block_microbatch_orders(seed, block, replica, microbatches_, out.scratch, out.order);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    if (row.kind != RowKind::Cell) continue;
    const std::int32_t* order = out.order.data() + std::size_t{row.member} * kLanes;
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      const std::int32_t member = row.reordered ? order[lane] : static_cast<std::int32_t>(row.member);
      out.rows[i * kLanes + lane] = static_cast<std::int32_t>(own[lane] * row.members) + member;
    }
  }
  for (std::size_t f = 0; f < factor_classes_.size(); ++f) {
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      out.factors[f * kLanes + lane] = factor(f, common[lane], own[lane]);
    }
  }
}

}  // namespace prism
