// SPDX-License-Identifier: Apache-2.0
#include "prism/analysis/inspect.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>

#include "prism/model/sampling.hpp"
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

/// Whether 0 is a time like any other in a kernel-level pool, rather than that the step did not run the op.
bool may_be_zero(Category category) {
  return category == Category::Waiting;
}

std::vector<Pool> pools_by_key(const StepModel& model) {
  const bool kernels = is_kernel_level(model);
  std::vector<Pool> pools;
  std::map<std::string, std::size_t> known;
  for (std::size_t c = 0; c < model.pools.classes.size(); ++c) {
    const DurationClass& description = model.pools.classes[ClassId(c)];
    if (description.own != OwnDraw::None) continue;  // laws of a plan: its values are relative
    for (std::size_t d = 0; d < (description.per_replica ? model.pool_replicas() : 1); ++d) {
      if (kernels && description.category == Category::StepStart) continue;  // points in time, not durations
      const bool own = !kernels && description.category == Category::Compute && description.per_replica;
      std::string key = description.key + (own ? rank_text(model, description, d) : "");
      const auto [place, is_new] = known.try_emplace(key, pools.size());
      if (is_new) pools.push_back({std::move(key), description.category, {}});
      const auto values = model.pools.pool(ClassId(c), d);
      auto& all = pools[place->second].values_ns;
      std::ranges::copy_if(values, std::back_inserter(all), [&](double v) {
        return !kernels || did_run(v) || (v == 0 && may_be_zero(description.category));
      });
    }
  }
  std::erase_if(pools, [](const Pool& pool) { return pool.values_ns.empty(); });
  std::ranges::stable_sort(pools, {}, &Pool::category);
  return pools;
}

PoolSummary summarise_pool(const Pool& pool, std::size_t steps) {
  const Moments m = moments(pool.values_ns);
  const RankedLaw best = fit_laws(pool.values_ns).front();
  return {
      .key = pool.key,
      .category = pool.category,
      .count = pool.values_ns.size(),
      .mean_ns = m.mean,
      .per_step_ns =
          steps > 0 ? m.mean * static_cast<double>(pool.values_ns.size()) / static_cast<double>(steps) : 0,
      .cv = m.cv,
      .p95_ns = quantile(pool.values_ns, 0.95),
      .best_law = std::string(best.law.name()),
      .law_ks = best.ks};
}

std::vector<RankCompute> compute_of_ranks(const StepModel& model) {
  std::vector<std::vector<double>> totals(model.template_ranks, std::vector<double>(model.step_count(), 0));
  for (std::size_t c = 0; c < model.pools.classes.size(); ++c) {
    const DurationClass& of = model.pools.classes[ClassId(c)];
    if (of.category != Category::Compute) continue;
    const auto pool = model.pools.pool(ClassId(c), 0);
    for (std::size_t i = 0; i < pool.size(); ++i)
      totals[static_cast<std::size_t>(of.rank)][i / of.members] += pool[i];
  }
  std::vector<RankCompute> result;
  for (std::size_t r = 0; r < totals.size(); ++r) {
    const Moments m = moments(totals[r]);
    const bool known = r < model.activity.size();
    result.push_back({known ? model.activity[r].rank : static_cast<std::int32_t>(r), m.mean,
                      totals[r].size() > 1 ? m.cv : std::numeric_limits<double>::quiet_NaN()});
  }
  return result;
}

std::vector<PhaseTime> times_of_phases(const StepModel& model) {
  std::map<Phase, double> total;
  for (const Node& node : model.nodes) {
    if (node.kind != NodeKind::Op) continue;
    const DurationClass& of = model.pools.classes[node.duration_class];
    if (of.category == Category::HostWork) continue;
    const auto pool = model.pools.pool(node.duration_class, 0);
    for (std::size_t k = 0; k < model.step_count(); ++k) {
      const double time = pool[k * of.members + node.member];
      if (did_run(time)) total[node.phase] += time;
    }
  }
  std::vector<PhaseTime> phases;
  for (const auto& [phase, time] : total) {
    phases.push_back({phase, time / static_cast<double>(model.step_count()) / model.template_ranks});
  }
  return phases;
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
  parallel_for(pools.size(), control, [&](std::size_t i, std::size_t) {
    result.pools[i] = summarise_pool(pools[i], model.step_count());
  });
  if (!is_kernel_level(model) || model.step_count() == 0) return result;
  std::ranges::stable_sort(result.pools, std::ranges::greater{}, &PoolSummary::per_step_ns);
  result.rank_compute = compute_of_ranks(model);
  result.phases = times_of_phases(model);
  return result;
}

}  // namespace prism
