// SPDX-License-Identifier: Apache-2.0
#include "prism/engine/draws.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "prism/stats/portable_factor.hpp"
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

}  // namespace

Draws::Draws(const StepModel& model, Sampling sampling, const StepEffects& effects)
    : model_(model),
      sampling_(sampling),
      effects_(effects),
      composed_(model),
      many_cells_(std::uint64_t{model.replicas} * model.cells > 1),
      share_(many_cells_ ? effects.share : 1) {
  const bool plain_pools = model.step_count() == 0;
  if (plain_pools && sampling != Sampling::Iid && sampling != Sampling::IidMixed) {
    throw InputError({model.source, {}, {}},
                     "sampling model '" + std::string(sampling_name(sampling)) + "' needs profiled steps",
                     "pools without steps can be sampled with --sampling iid");
  }
  constexpr std::uint64_t kMostCells = 1 << 24;  // 2 GiB of their steps for each worker
  if (std::uint64_t{model.replicas} * model.cells > kMostCells) {
    throw InputError({model.source, {}, {}}, "too many ranks that draw a step of their own for this machine",
                     "fewer replicas");
  }
  microbatches_ = reordered_microbatches(model.pools);
  std::map<int, std::uint32_t> kinds;
  for (std::size_t k = 0; k < model.step_kinds.size(); ++k) {
    const auto next = static_cast<std::uint32_t>(kinds.size());
    kind_of_.push_back(kinds.try_emplace(model.step_kinds[k], next).first->second);
    alike_.resize(kinds.size());
    alike_[kind_of_[k]].push_back(static_cast<std::uint32_t>(k));
  }
  nodes_ = IdVector<NodeId, NodeDraw>(model.nodes.size());
  for (std::size_t i = 0; i < model.nodes.size(); ++i) nodes_[NodeId(i)] = draw_of(model.nodes[NodeId(i)]);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    NodeDraw& draw = nodes_[NodeId(i)];
    if (is_composed(draw.draw)) draw.factor += static_cast<std::uint32_t>(factors_.size());
  }
}

Draws::OwnUse Draws::own_use(std::span<const NodeId> nodes) const {
  OwnUse use;
  for (const NodeId node : nodes) {
    const NodeDraw& draw = nodes_[node];
    const bool table = draw.draw == Draw::Table || draw.draw == Draw::TableScaled;
    if (table && rows_[draw.row].kind == RowKind::Cell) use.rows.push_back(draw.row);
    if (is_composed(draw.draw)) {
      use.composed.push_back(draw.factor - static_cast<std::uint32_t>(factors_.size()));
    } else if (is_scaled(draw.draw)) {
      use.factors.push_back(draw.factor);
    }
  }
  for (auto* list : {&use.rows, &use.factors, &use.composed}) {
    std::ranges::sort(*list);
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
  return use;
}

std::uint32_t Draws::row(Row wanted) {
  const auto [place, is_new] = row_index_.try_emplace(wanted, static_cast<std::uint32_t>(rows_.size()));
  if (is_new) rows_.push_back(wanted);
  return place->second;
}

std::uint32_t Draws::effect_of(ClassId id) {
  const bool common = !effects_.common.empty();
  const std::vector<double>& effect = common ? effects_.common : effects_.effect[id];
  if (effect.empty()) return kNone;
  const auto [place, is_new] =
      effect_index_.try_emplace(common ? kNone : id.value, static_cast<std::uint32_t>(raise_.size()));
  if (is_new) {
    std::vector<double>& up = raise_.emplace_back();
    std::vector<double>& down = lower_.emplace_back();
    for (const double s : effect) {
      up.push_back(portable_factor(std::exp(share_ * s)));
      down.push_back(portable_factor(std::exp(-share_ * s)));
    }
  }
  return place->second;
}

std::uint32_t Draws::factor_rank(std::int32_t rank) const {
  // A replay of the replicas as they were recorded shows what was recorded.
  const bool as_recorded = sampling_ == Sampling::Recorded && model_.replicas == model_.pool_replicas();
  if (model_.rank_factors.empty() || as_recorded) return kNone;
  const auto at = static_cast<std::uint32_t>(rank);
  for (std::size_t i = at; i < model_.rank_factors.size(); i += model_.template_ranks) {
    if (model_.rank_factors[i] != 1) return at;
  }
  return kNone;
}

NodeDraw Draws::scaled(const Node& node, NodeDraw draw) {
  Factor wanted{.rank = factor_rank(node.rank)};
  // With one cell its step is k* itself: there is no effect to exchange.
  if (sampling_ == Sampling::Hierarchical && many_cells_ && share_ > 0) {
    wanted.effect = effect_of(node.duration_class);
    if (wanted.effect != kNone) wanted.cell = static_cast<std::uint32_t>(node.cell);
  }
  if (wanted.effect == kNone && wanted.rank == kNone) return draw;
  const auto [place, is_new] = factor_index_.try_emplace(wanted, static_cast<std::uint32_t>(factors_.size()));
  if (is_new) factors_.push_back(wanted);
  draw.factor = place->second;
  draw.draw = draw.draw == Draw::Table    ? Draw::TableScaled
              : draw.draw == Draw::Random ? Draw::RandomScaled
                                          : Draw::RandomInStepScaled;
  return draw;
}

NodeDraw Draws::table(const Node& node, NodeDraw draw, RowKind kind, bool reordered) {
  const DurationClass& c = model_.pools.classes[node.duration_class];
  draw.draw = Draw::Table;
  const std::uint32_t cell = kind == RowKind::Cell ? static_cast<std::uint32_t>(node.cell) : 0;
  if (!reordered) draw.pool += node.member;
  draw.row = row({kind, c.members, reordered ? node.member : 0, reordered, cell});
  return draw;
}

NodeDraw Draws::draw_of(const Node& node) {
  NodeDraw draw;
  if (node.kind == NodeKind::Join) return draw;
  const DurationClass& c = model_.pools.classes[node.duration_class];
  draw.pool = c.offset;
  draw.pool_stride = c.per_replica ? c.size : 0;
  draw.pool_size = c.size;
  draw.share = node.draw_group;
  if (c.own != OwnDraw::None) return composed_draw(node, draw);
  if (c.category == Category::Compute) return scaled(node, compute_draw(node, draw));
  return other_draw(node, draw);
}

NodeDraw Draws::composed_draw(const Node& node, NodeDraw draw) {
  const DurationClass& c = model_.pools.classes[node.duration_class];
  draw.draw = c.own == OwnDraw::Pool        ? Draw::BasePool
              : c.own == OwnDraw::Lognormal ? Draw::BaseLognormal
                                            : Draw::Base;
  draw.pool_stride = 0;
  draw.sigma = c.sigma;
  draw.factor = composed_.row_of(node);
  return draw;
}

NodeDraw Draws::compute_draw(const Node& node, NodeDraw draw) {
  const DurationClass& c = model_.pools.classes[node.duration_class];
  switch (sampling_) {
    case Sampling::Recorded:
      return table(node, draw, RowKind::Common, false);
    case Sampling::Hierarchical:
      return table(node, draw, RowKind::Cell, c.exchangeable && c.members == microbatches_);
    case Sampling::StepBlock:
      draw.draw = Draw::RandomInStep;
      draw.row = row({.kind = RowKind::Common, .members = c.members});
      draw.pool_size = c.members;
      return draw;
    case Sampling::IidMixed:
      draw.draw = Draw::Random;
      draw.pool_size = c.size * (c.per_replica ? model_.pool_replicas() : 1);
      draw.pool_stride = 0;
      return draw;
    case Sampling::Regime:
    case Sampling::Iid:
      break;
  }
  draw.draw = Draw::Random;
  return draw;
}

NodeDraw Draws::other_draw(const Node& node, NodeDraw draw) {
  if (sampling_ == Sampling::Iid || sampling_ == Sampling::IidMixed) {
    draw.draw = Draw::Random;
    return draw;
  }
  const Category category = model_.pools.classes[node.duration_class].category;
  const bool of_cell = sampling_ == Sampling::Hierarchical && is_of_cell(category);
  return table(node, draw, of_cell ? RowKind::Cell : RowKind::Common, false);
}

double Draws::factor(const Factor& f, std::uint32_t replica, std::uint32_t common, std::uint32_t own) const {
  const double exchanged =
      f.effect == kNone || common == own ? 1.0 : raise_[f.effect][common] * lower_[f.effect][own];
  if (f.rank == kNone) return exchanged;
  return exchanged * model_.rank_factors[std::size_t{replica} * model_.template_ranks + f.rank];
}

std::uint32_t Draws::common_step(std::uint32_t word, std::uint32_t sample) const {
  const auto steps = static_cast<std::uint32_t>(model_.step_count());
  if (steps == 0) return 0;
  return sampling_ == Sampling::Recorded ? sample % steps : index_from_word(word, steps);
}

std::uint32_t Draws::own_step(std::uint32_t word, std::uint32_t common) const {
  if (!many_cells_) return common;
  if (alike_.empty()) return index_from_word(word, static_cast<std::uint32_t>(model_.step_count()));
  const std::vector<std::uint32_t>& alike = alike_[kind_of_[common]];
  return alike[index_from_word(word, static_cast<std::uint32_t>(alike.size()))];
}

Draws::Cell Draws::cell(std::uint32_t seed, std::uint32_t sample, std::uint32_t replica) const {
  Cell result{std::vector<std::int32_t>(rows_.size()), std::vector<double>(factor_count())};
  for (std::size_t row = 0; row < composed_.row_count(); ++row) {
    result.factors[factors_.size() + row] =
        composed_.value(seed, sample, replica, static_cast<std::uint32_t>(row));
  }
  if (rows_.empty() && factors_.empty()) return result;
  const std::uint32_t common = common_step(random_word(seed, Purpose::Step, 0, 0, sample), sample);
  std::vector<std::uint32_t> own;
  for (std::uint32_t c = 0; c < model_.cells; ++c) {
    own.push_back(own_step(random_word(seed, Purpose::Cell, 0, cell_key(replica, c), sample), common));
  }
  const std::vector<std::uint32_t> order = microbatch_order(seed, sample, replica, microbatches_);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const Row& r = rows_[i];
    const std::uint32_t step = r.kind == RowKind::Cell ? own[r.cell] : common;
    result.rows[i] = static_cast<std::int32_t>(step * r.members + (r.reordered ? order[r.member] : 0));
  }
  for (std::size_t f = 0; f < factors_.size(); ++f) {
    result.factors[f] = factor(factors_[f], replica, common, own[factors_[f].cell]);
  }
  return result;
}

void Draws::fill_common(std::uint32_t seed, std::uint32_t block, Block& out) const {
  out.rows.resize(rows_.size() * kLanes);
  out.factors.resize(factor_count() * kLanes);
  if (rows_.empty() && factors_.empty()) return;
  out.common.resize(kLanes);
  const auto words = random_block(seed, Purpose::Step, 0, 0, block);
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    out.common[lane] = common_step(words[lane], block * kLanes + lane);
  }
  bool own = !factors_.empty();
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    own = own || rows_[i].kind == RowKind::Cell;
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      out.rows[i * kLanes + lane] = static_cast<std::int32_t>(out.common[lane] * rows_[i].members);
    }
  }
  if (!own) return;
  const std::uint32_t cells = cell_key(model_.replicas, 0);
  out.own_steps.resize(std::size_t{cells} * kLanes);
  for (std::uint32_t c = 0; c < cells; ++c) {
    const auto cell_words = random_block(seed, Purpose::Cell, 0, c, block);
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      out.own_steps[std::size_t{c} * kLanes + lane] = own_step(cell_words[lane], out.common[lane]);
    }
  }
}

void Draws::fill_replica(std::uint32_t seed, std::uint32_t block, std::uint32_t replica,
                         ComposedFactors::Scratch& scratch, double* out) const {
  std::vector<std::uint32_t> all(composed_.row_count());
  std::iota(all.begin(), all.end(), 0U);
  composed_.fill(seed, block, replica, all, scratch, out);
}

void Draws::fill_own(std::uint32_t seed, std::uint32_t block, std::uint32_t replica, const OwnUse& use,
                     Block& out) const {
  if (!use.composed.empty()) {
    composed_.fill(seed, block, replica, use.composed, out.composed,
                   out.factors.data() + factors_.size() * kLanes);
  }
  const auto own_steps = [&](std::uint32_t cell) {
    return out.own_steps.data() + std::size_t{cell_key(replica, cell)} * kLanes;
  };
  const bool reorders = std::ranges::any_of(use.rows, [&](std::uint32_t i) { return rows_[i].reordered; });
  if (reorders) {
    out.order.resize(std::size_t{microbatches_} * kLanes);
    block_microbatch_orders(seed, block, replica, microbatches_, out.scratch, out.order);
  }
  for (const std::uint32_t i : use.rows) {
    const Row& r = rows_[i];
    const std::uint32_t* own = own_steps(r.cell);
    std::int32_t* to = out.rows.data() + std::size_t{i} * kLanes;
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      to[lane] = static_cast<std::int32_t>(own[lane] * r.members);
    }
    if (!r.reordered) continue;
    const std::int32_t* order = out.order.data() + std::size_t{r.member} * kLanes;
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) to[lane] += order[lane];
  }
  for (const std::uint32_t i : use.factors) {
    const std::uint32_t* own = own_steps(factors_[i].cell);
    double* to = out.factors.data() + std::size_t{i} * kLanes;
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      to[lane] = factor(factors_[i], replica, out.common[lane], own[lane]);
    }
  }
}

}  // namespace prism
