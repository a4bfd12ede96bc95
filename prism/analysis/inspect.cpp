// SPDX-License-Identifier: Apache-2.0
#include "prism/analysis/inspect.hpp"

#include <algorithm>
#include <map>

#include "prism/run/parallel.hpp"
#include "prism/stats/laws.hpp"
#include "prism/stats/quantiles.hpp"

namespace prism {

namespace {

struct Pool {
  std::string key;
  Category category = Category::Compute;
  std::vector<double> values_ns;
};

/// Which rank a compute pool belongs to, for its key.
std::string rank_text(const StepModel& model, const DurationClass& c, std::size_t replica) {
  const std::size_t at = replica * model.template_ranks + static_cast<std::size_t>(c.rank);
  if (model.recording != nullptr && at < model.recording->ranks.size()) {
    return " rank " + std::to_string(model.recording->ranks[at]);
  }
  return " replica " + std::to_string(replica);
}

std::vector<Pool> pools_by_key(const StepModel& model) {
  std::vector<Pool> pools;
  std::map<std::string, std::size_t> known;
  for (std::size_t c = 0; c < model.pools.classes.size(); ++c) {
    const DurationClass& description = model.pools.classes[ClassId(c)];
    for (std::size_t d = 0; d < (description.per_replica ? model.pool_replicas() : 1); ++d) {
      const bool own = description.category == Category::Compute && description.per_replica;
      std::string key = description.key + (own ? rank_text(model, description, d) : "");
      const auto [place, is_new] = known.try_emplace(key, pools.size());
      if (is_new) pools.push_back({std::move(key), description.category, {}});
      const auto values = model.pools.pool(ClassId(c), d);
      auto& all = pools[place->second].values_ns;
      all.insert(all.end(), values.begin(), values.end());
    }
  }
  std::ranges::stable_sort(pools, {}, &Pool::category);
  return pools;
}

PoolSummary summarise_pool(const Pool& pool) {
  const Moments m = moments(pool.values_ns);
  const RankedLaw best = fit_laws(pool.values_ns).front();
  return {.key = pool.key,
          .category = pool.category,
          .count = pool.values_ns.size(),
          .mean_ns = m.mean,
          .cv = m.cv,
          .p95_ns = quantile(pool.values_ns, 0.95),
          .best_law = std::string(best.law.name()),
          .law_ks = best.ks};
}

}  // namespace

InspectResult inspect(const StepModel& model, const RunControl& control) {
  InspectResult result;
  result.ranks = std::size_t{model.template_ranks} * model.replicas;
  result.nodes = model.graph.size();
  result.edges = model.graph.edge_count();
  for (const Node& node : model.nodes) result.ops += node.kind == NodeKind::Op;
  result.ops *= model.replicas;
  const std::vector<Pool> pools = pools_by_key(model);
  result.pools.resize(pools.size());
  parallel_for(pools.size(), control,
               [&](std::size_t i, std::size_t) { result.pools[i] = summarise_pool(pools[i]); });
  return result;
}

}  // namespace prism
