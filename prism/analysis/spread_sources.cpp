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

constexpr std::size_t kNodeBudget = 16'000'000;  // durations held at once, as float
constexpr std::size_t kFewestSamples = 32;
constexpr std::size_t kMostSamples = 256;

/// Finds the critical path of a sample.
class PathWalk {
 public:
  explicit PathWalk(const StepModel& model) : model_(model), followed_(model.graph.size(), false) {
    for (std::size_t i = 0; i < model.graph.size(); ++i) {
      for (const NodeId before : model.graph.predecessors(NodeId(i))) followed_[before.value] = true;
    }
  }

  /// Nodes on the path, [node * D + replica], last first.
  [[nodiscard]] std::vector<std::size_t> path(const NodeTimes& times) const {
    std::vector<std::size_t> nodes;
    for (std::size_t at = last(times); at != kNone;) {
      nodes.push_back(at);
      at = latest_before(times, NodeId(at / model_.replicas), at % model_.replicas);
    }
    return nodes;
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
    const auto first = static_cast<std::uint32_t>(group.spans() ? 0 : replica);
    const auto last = group.spans() ? model_.replicas : first + 1;
    for (std::uint32_t d = first; d < last; ++d) {
      if (group.spans() && group.index_of(d) != own) continue;
      for (const NodeId before : model_.graph.predecessors(node)) {
        const std::size_t at = std::size_t{before.value} * model_.replicas + d;
        if (best == kNone || times.finish(at) > times.finish(best)) best = at;
      }
    }
    return best;
  }

  const StepModel& model_;
  std::vector<bool> followed_;
};

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Criticality: the share of samples in which a node lies on the critical path, [node * D + replica].
std::vector<double> criticality(const std::vector<std::vector<std::size_t>>& paths, std::size_t nodes) {
  std::vector<double> share(nodes, 0);
  for (const auto& path : paths) {
    for (const std::size_t at : path) share[at] += 1 / static_cast<double>(paths.size());
  }
  return share;
}

}  // namespace

SpreadSources find_spread_sources(const StepModel& model, Sampling sampling, const StepEffects& effects,
                                  std::uint32_t seed, const RunControl& control) {
  SpreadSources result;
  const std::size_t nodes = std::max<std::size_t>(1, model.graph.size() * model.replicas);
  result.samples = std::min(kNodeBudget / nodes, kMostSamples);
  if (result.samples < kFewestSamples) {
    result.samples = 0;  // too large to hold; a forecast of it has no such table
    return result;
  }
  const Draws draws(model, sampling, effects);
  const PathWalk walk(model);
  std::vector<std::vector<std::size_t>> paths(result.samples);
  std::vector<std::vector<float>> durations(result.samples);
  std::vector<double> steps(result.samples);
  RunControl quiet = control;
  quiet.progress = {};
  parallel_for(result.samples, quiet, [&](std::size_t sample, std::size_t) {
    const NodeTimes times = reference_times(model, draws, seed, static_cast<std::uint32_t>(sample));
    steps[sample] = times.step_ns;
    paths[sample] = walk.path(times);
    durations[sample].reserve(times.duration_ns.size());
    for (const double time : times.duration_ns)
      durations[sample].push_back(did_run(time) ? static_cast<float>(time) : 0);
  });
  const double mean = mean_of(steps);
  double variance = 0;
  for (const double step : steps) variance += (step - mean) * (step - mean);
  if (variance == 0) return result;

  const bool of_plan = is_composed(model);  // its template holds several ranks of a stage
  std::map<std::string, SpreadSource> by_key;
  std::map<std::int32_t, double> by_rank;
  double on_path = 0;
  const std::vector<double> critical = criticality(paths, nodes);
  for (std::size_t at = 0; at < nodes; ++at) {
    const Node& node = model.nodes[NodeId(at / model.replicas)];
    if (critical[at] == 0 || node.kind == NodeKind::Join) continue;
    double own_mean = 0;
    double covariance = 0;
    for (std::size_t s = 0; s < steps.size(); ++s) {
      own_mean += static_cast<double>(durations[s][at]) / static_cast<double>(steps.size());
      covariance += static_cast<double>(durations[s][at]) * (steps[s] - mean);
    }
    const DurationClass& pool = model.pools.classes[node.duration_class];
    SpreadSource& source = by_key[pool.key];
    source.key = pool.key;
    source.category = pool.category;
    // What the graph counts before the step begins is no time of the step.
    const double of_step =
        critical[at] * (own_mean - (pool.category == Category::StepStart ? model.lead_ns : 0));
    source.mean_ns += of_step;
    source.share += critical[at] * covariance / variance;
    by_rank[of_plan ? node.stage : node.rank] += of_step;
    on_path += of_step;
  }
  for (auto& [key, source] : by_key) result.sources.push_back(std::move(source));
  std::ranges::stable_sort(result.sources, std::ranges::greater{}, &SpreadSource::share);
  if (on_path <= 0) return result;
  for (const auto& [rank, time] : by_rank) result.ranks.push_back({rank, time / on_path});
  std::ranges::stable_sort(result.ranks, std::ranges::greater{}, &RankOnPath::share);
  return result;
}

}  // namespace prism
