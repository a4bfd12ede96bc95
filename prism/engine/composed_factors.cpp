// SPDX-License-Identifier: Apache-2.0
#include "prism/engine/composed_factors.hpp"

#include <algorithm>

#include "prism/stats/portable_factor.hpp"
#include "prism/stats/portable_math.hpp"
#include "prism/stats/random.hpp"

namespace prism {

ComposedFactors::Term ComposedFactors::term_of(FactorId factor, const Node& node) const {
  Term term{.factor = factor};
  switch (model_.factors[factor].scope) {
    case FactorScope::Step:
      break;
    case FactorScope::Rank:
    case FactorScope::Host:
      term.thing = static_cast<std::uint32_t>(node.rank);
      break;
    case FactorScope::Link:
    case FactorScope::Microbatch:
      term.thing = static_cast<std::uint32_t>(
          model_.factors[factor].scope == FactorScope::Link ? node.link : node.microbatch);
      term.group_size = node.draw_group.size;
      term.group_stride = node.draw_group.stride;
      term.replica_offset = node.replica_offset;
      break;
  }
  return term;
}

std::uint32_t ComposedFactors::row_of(const Node& node) {
  const DurationClass& c = model_.pools.classes[node.duration_class];
  Row row;
  for (const FactorId factor : c.factors) {
    const auto [place, is_new] =
        term_index_.try_emplace(term_of(factor, node), static_cast<std::uint32_t>(terms_.size()));
    if (is_new) terms_.push_back(place->first);
    row.terms.push_back(place->second);
  }
  if (c.category == Category::Compute && !model_.rank_factors.empty()) row.rank = node.rank;
  const auto [place, is_new] = row_index_.try_emplace(row, static_cast<std::uint32_t>(rows_.size()));
  if (is_new) rows_.push_back(std::move(row));
  return place->second;
}

ComposedFactors::Key ComposedFactors::key_of(const Term& term, std::uint32_t replica) const {
  const SharedFactor& factor = model_.factors[term.factor];
  const std::uint64_t id = mix_id(factor.draw_id, static_cast<std::uint64_t>(factor.scope));
  const std::size_t rank = std::size_t{replica} * model_.template_ranks + term.thing;
  switch (factor.scope) {
    case FactorScope::Step:
      return {id, 0};
    case FactorScope::Rank:
      return {id, model_.rank_ids.empty() ? static_cast<std::uint32_t>(rank) : model_.rank_ids[rank]};
    case FactorScope::Host:
      return {id, model_.host_ids.empty() ? static_cast<std::uint32_t>(rank) : model_.host_ids[rank]};
    case FactorScope::Link:
    case FactorScope::Microbatch:
      break;
  }
  return {mix_id(id, term.thing),
          ReplicaGroup{term.group_size, term.group_stride}.index_of(replica) + term.replica_offset};
}

double ComposedFactors::draw(const SharedFactor& factor, std::uint32_t word) const {
  double u = unit_from_word(word);
  if (factor.probability < 1) {
    if (u >= factor.probability) return 1;
    constexpr double kLeast = 0.25 / 4294967296.0;
    u = std::clamp(u / factor.probability, kLeast, 1 - kLeast);
  }
  if (!factor.values.empty()) {
    const auto n = static_cast<double>(factor.values.size());
    return factor.values[std::min(static_cast<std::size_t>(u * n), factor.values.size() - 1)];
  }
  if (const auto* law = std::get_if<LognormalLaw>(&factor.law.form)) {
    return law->shift + portable_exp(law->mu + law->sigma * portable_normal(u));
  }
  if (const auto* law = std::get_if<NormalLaw>(&factor.law.form))
    return law->mean + law->sd * portable_normal(u);
  return portable_factor(factor.law.quantile(u));
}

double ComposedFactors::rank_factor(const Row& row, std::uint32_t replica) const {
  return row.rank < 0 ? 1
                      : model_.rank_factors[std::size_t{replica} * model_.template_ranks +
                                            static_cast<std::size_t>(row.rank)];
}

double ComposedFactors::value(std::uint32_t seed, std::uint32_t sample, std::uint32_t replica,
                              std::uint32_t index) const {
  const Row& row = rows_[index];
  double product = rank_factor(row, replica);
  for (const std::uint32_t t : row.terms) {
    const SharedFactor& factor = model_.factors[terms_[t].factor];
    const Key key = key_of(terms_[t], replica);
    product *=
        draw(factor, random_word(seed, Purpose::SharedFactor, key.id, key.replica, factor.once ? 0 : sample));
  }
  return product;
}

void ComposedFactors::fill(std::uint32_t seed, std::uint32_t block, std::uint32_t replica,
                           std::span<const std::uint32_t> rows, Scratch& scratch, double* out) const {
  scratch.terms.resize(terms_.size());
  scratch.known.assign(terms_.size(), false);
  for (const std::uint32_t index : rows) {
    const Row& row = rows_[index];
    double* to = out + std::size_t{index} * kLanes;
    std::fill_n(to, kLanes, rank_factor(row, replica));
    for (const std::uint32_t t : row.terms) {
      std::array<double, kLanes>& term = scratch.terms[t];
      if (!scratch.known[t]) {
        scratch.known[t] = true;
        const SharedFactor& factor = model_.factors[terms_[t].factor];
        const Key key = key_of(terms_[t], replica);
        if (factor.once) {
          term.fill(draw(factor, random_word(seed, Purpose::SharedFactor, key.id, key.replica, 0)));
        } else {
          const auto words = random_block(seed, Purpose::SharedFactor, key.id, key.replica, block);
          for (std::uint32_t lane = 0; lane < kLanes; ++lane) term[lane] = draw(factor, words[lane]);
        }
      }
      for (std::uint32_t lane = 0; lane < kLanes; ++lane) to[lane] *= term[lane];
    }
  }
}

}  // namespace prism
