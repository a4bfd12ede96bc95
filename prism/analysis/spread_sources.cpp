// SPDX-License-Identifier: Apache-2.0
#include "prism/analysis/spread_sources.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "prism/engine/reference.hpp"
#include "prism/run/parallel.hpp"

namespace prism {

namespace {

constexpr std::size_t kNodeBudget = 8'000'000;
constexpr std::size_t kFewestSamples = 32;
constexpr std::size_t kMostSamples = 256;

/// Time of each pool key on the critical path of one sample.
class PathWalk {
 public:
  PathWalk(const StepModel& model, const std::vector<std::size_t>& key_of_class)
      : model_(model), key_of_class_(key_of_class), followed_(model.graph.size(), false) {
    for (std::size_t i = 0; i < model.graph.size(); ++i) {
      for (const NodeId before : model.graph.predecessors(NodeId(i))) followed_[before.value] = true;
    }
  }

  void walk(const NodeTimes& times, std::vector<double>& per_key, std::vector<double>& per_rank) const {
    const std::size_t replicas = model_.replicas;
    std::size_t at = last(times);
    for (;;) {
      const NodeId node(at / replicas);
      if (model_.nodes[node].kind != NodeKind::Join) {
        per_key[key_of_class_[model_.nodes[node].duration_class.value]] += times.duration_ns[at];
        per_rank[static_cast<std::size_t>(model_.nodes[node].rank)] += times.duration_ns[at];
      }
      const std::size_t before = latest_before(times, node, at % replicas);
      if (before == kNone) return;
      at = before;
    }
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  [[nodiscard]] std::size_t last(const NodeTimes& times) const {
    std::size_t best = kNone;
    for (std::size_t i = 0; i < followed_.size(); ++i) {
      if (followed_[i]) continue;
      for (std::size_t at = i * model_.replicas; at < (i + 1) * model_.replicas; ++at) {
        if (best == kNone || times.finish(at) > times.finish(best)) best = at;
      }
    }
    return best;
  }

  /// The predecessor that a node waited for longest, in any replica that it meets.
  [[nodiscard]] std::size_t latest_before(const NodeTimes& times, NodeId node, std::size_t replica) const {
    const ReplicaGroup group = model_.graph.replica_group(node);
    const auto own = group.index_of(static_cast<std::uint32_t>(replica));
    std::size_t best = kNone;
    for (std::uint32_t d = 0; d < model_.replicas; ++d) {
      if (group.spans() ? group.index_of(d) != own : d != replica) continue;
      for (const NodeId before : model_.graph.predecessors(node)) {
        const std::size_t at = std::size_t{before.value} * model_.replicas + d;
        if (best == kNone || times.finish(at) > times.finish(best)) best = at;
      }
    }
    return best;
  }

  const StepModel& model_;
  const std::vector<std::size_t>& key_of_class_;
  std::vector<bool> followed_;
};

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Shares of the whole path, from the time of each rank on it: [sample][rank].
std::vector<RankOnPath> shares_of_ranks(const std::vector<std::vector<double>>& on_rank,
                                        std::size_t template_ranks) {
  double total = 0;
  for (const auto& sample : on_rank) total += std::accumulate(sample.begin(), sample.end(), 0.0);
  std::vector<RankOnPath> ranks;
  for (std::size_t rank = 0; rank < template_ranks; ++rank) {
    double time = 0;
    for (const auto& sample : on_rank) time += sample[rank];
    if (time > 0 && total > 0) ranks.push_back({static_cast<std::int32_t>(rank), time / total});
  }
  std::ranges::stable_sort(ranks, std::ranges::greater{}, &RankOnPath::share);
  return ranks;
}

}  // namespace

SpreadSources find_spread_sources(const StepModel& model, Sampling sampling, const StepEffects& effects,
                                  std::uint32_t seed, const RunControl& control) {
  SpreadSources result;
  const std::size_t nodes = std::max<std::size_t>(1, model.graph.size() * model.replicas);
  result.samples = std::clamp(kNodeBudget / nodes, kFewestSamples, kMostSamples);
  std::map<std::string, std::size_t> key_index;
  std::vector<SpreadSource> sources;
  std::vector<std::size_t> key_of_class;
  for (const DurationClass& c : model.pools.classes) {
    const auto [place, is_new] = key_index.try_emplace(c.key, sources.size());
    if (is_new) sources.push_back({.key = c.key, .category = c.category});
    key_of_class.push_back(place->second);
  }
  const Draws draws(model, sampling, effects);
  const PathWalk path(model, key_of_class);
  std::vector<std::vector<double>> on_path(result.samples, std::vector<double>(sources.size(), 0));
  std::vector<std::vector<double>> on_rank(result.samples, std::vector<double>(model.template_ranks, 0));
  std::vector<double> steps(result.samples);
  RunControl quiet = control;
  quiet.progress = {};
  parallel_for(result.samples, quiet, [&](std::size_t sample, std::size_t) {
    const NodeTimes times = reference_times(model, draws, seed, static_cast<std::uint32_t>(sample));
    steps[sample] = times.step_ns;
    path.walk(times, on_path[sample], on_rank[sample]);
  });
  result.ranks = shares_of_ranks(on_rank, model.template_ranks);
  const double mean = mean_of(steps);
  double variance = 0;
  for (const double step : steps) variance += (step - mean) * (step - mean);
  if (variance == 0) return result;
  for (std::size_t key = 0; key < sources.size(); ++key) {
    std::vector<double> values;
    for (const auto& sample : on_path) values.push_back(sample[key]);
    sources[key].mean_ns = mean_of(values);
    for (std::size_t s = 0; s < steps.size(); ++s) {
      sources[key].share += (values[s] - sources[key].mean_ns) * (steps[s] - mean) / variance;
    }
  }
  std::erase_if(sources, [](const SpreadSource& s) { return s.share == 0 && s.mean_ns == 0; });
  std::ranges::stable_sort(sources, std::ranges::greater{}, &SpreadSource::share);
  result.sources = std::move(sources);
  return result;
}

}  // namespace prism
