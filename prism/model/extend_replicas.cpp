// SPDX-License-Identifier: Apache-2.0
#include "prism/model/extend_replicas.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <map>
#include <utility>

#include "prism/model/total_compute.hpp"
#include "prism/stats/laws.hpp"
#include "prism/stats/portable_factor.hpp"
#include "prism/stats/random.hpp"
#include "prism/stats/variance.hpp"
#include "prism/trace/error.hpp"

namespace prism {

namespace {

constexpr std::size_t kMinEquals = 4;       // traced ranks, for their spread to be measured
constexpr std::uint32_t kCheckedRatio = 2;  // of replicas to traced ones (docs/model.md)
constexpr std::uint32_t kFarRatio = 8;

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g %%", 100 * share);
  return text;
}

bool is_extended(const StepModel& model) {
  return model.replicas > model.pool_replicas();
}

bool is_waiting(const StepModel& model, const Node& node) {
  return node.kind != NodeKind::Join && node.over_replicas &&
         model.pools.classes[node.duration_class].category == Category::Waiting;
}

// --- the graph
// -------------------------------------------------------------------------------------------------------

/// Decides where the replicas of the extended model meet.
class Meetings {
 public:
  Meetings(const StepModel& model, std::uint32_t replicas)
      : model_(model), everyone_{replicas, 1}, in_step_(model.nodes.size(), false) {}

  /// The group of a node; called in the order of the nodes.
  ReplicaGroup of(NodeId id) {
    const Node& node = model_.nodes[id];
    const ReplicaGroup before = model_.graph.replica_group(id);
    if (!node.over_replicas) return checked(before, node);
    const auto predecessors = model_.graph.predecessors(id);
    // Where several replicas were traced, the node that makes them meet is known. From one traced replica,
    // what follows the meeting of its communication would meet again at the same instant.
    const bool met = !predecessors.empty() &&
                     std::ranges::all_of(predecessors, [&](NodeId p) { return in_step_[p.value]; });
    const bool meets = model_.replicas > 1 ? before.spans() : node.kind == NodeKind::Join || !met;
    in_step_[id.value] = (meets || met) && equal_in_all_replicas(node);
    return meets ? everyone_ : before;
  }

  /// The replicas that share a draw of the node.
  [[nodiscard]] ReplicaGroup of_draw(const Node& node) const {
    const bool all = model_.replicas > 1 && node.draw_group == ReplicaGroup{model_.replicas, 1};
    return node.over_replicas || all ? everyone_ : checked(node.draw_group, node);
  }

 private:
  [[nodiscard]] bool equal_in_all_replicas(const Node& node) const {
    return node.kind == NodeKind::Join || !is_of_cell(model_.pools.classes[node.duration_class].category);
  }

  [[nodiscard]] ReplicaGroup checked(ReplicaGroup group, const Node& node) const {
    if (everyone_.size % (std::uint64_t{group.size} * group.stride) == 0) return group;
    throw InputError({model_.source, {}, {}},
                     std::to_string(everyone_.size) + " replicas cannot be made: in '" + node.name + "' " +
                         std::to_string(group.size) + " of them, " + std::to_string(group.stride) +
                         " apart, wait for each other",
                     "give a multiple of " + std::to_string(std::uint64_t{group.size} * group.stride));
  }

  const StepModel& model_;
  ReplicaGroup everyone_;
  std::vector<bool> in_step_;  // finishes at the same instant in all replicas
};

/// The graph with the groups of D replicas. Nodes keep their numbers.
StepGraph regrouped(const StepModel& model, Meetings& meetings) {
  StepGraphBuilder builder;
  for (std::size_t i = 0; i < model.nodes.size(); ++i) builder.add_node(meetings.of(NodeId(i)));
  for (std::size_t i = 0; i < model.nodes.size(); ++i) {
    for (const NodeId before : model.graph.predecessors(NodeId(i))) {
      builder.add_edge(before.value, static_cast<std::uint32_t>(i));
    }
  }
  StepGraphBuilder::Result built =
      builder.build(model.source, [&](std::uint32_t node) { return model.nodes[NodeId(node)].name; });
  assert(std::ranges::is_sorted(built.node_of));
  return std::move(built.graph);
}

// --- speeds of ranks
// -------------------------------------------------------------------------------------------------

/// What the traced ranks say about lasting differences between equals.
struct MeasuredSpeeds {
  std::vector<double> slowness;  ///< of each traced rank against its equals, mean 1; 1 without equals
  std::optional<double> cv;      ///< of ranks, noise of the steps taken out; nothing: too few equals
};

/// Traced ranks [replica * template_ranks + rank] that do the same work, as lists.
std::vector<std::vector<std::size_t>> equal_ranks(const StepModel& model) {
  std::vector<std::pair<std::int32_t, std::size_t>> work(model.template_ranks);  // stage, compute ops
  for (const Node& node : model.nodes) {
    auto& [stage, ops] = work[static_cast<std::size_t>(node.rank)];
    stage = std::max(stage, node.stage);
    ops +=
        node.kind != NodeKind::Join && model.pools.classes[node.duration_class].category == Category::Compute;
  }
  std::map<std::pair<std::int32_t, std::size_t>, std::vector<std::size_t>> equals;
  for (std::size_t i = 0; i < model.traced_ranks(); ++i) {
    const auto& rank = work[i % model.template_ranks];
    if (rank.second > 0) equals[rank].push_back(i);
  }
  std::vector<std::vector<std::size_t>> lists;
  for (auto& [rank, list] : equals) lists.push_back(std::move(list));
  return lists;
}

MeasuredSpeeds measured_speeds(const StepModel& model) {
  MeasuredSpeeds measured{std::vector<double>(model.traced_ranks(), 1), {}};
  const std::size_t steps = model.step_count();
  if (steps == 0) return measured;
  const std::vector<double> total = total_compute(
      model, model.template_ranks, [](const Node& node) { return static_cast<std::size_t>(node.rank); });
  double variance = 0;
  double freedom = 0;
  for (const std::vector<std::size_t>& equals : equal_ranks(model)) {
    std::vector<double> logs;
    for (const std::size_t rank : equals) {
      for (std::size_t k = 0; k < steps; ++k) logs.push_back(std::log(total[rank * steps + k]));
      centre_by_kind(std::span(logs).last(steps), model.step_kinds);
    }
    if (equals.size() < 2 || !std::ranges::all_of(logs, [](double v) { return std::isfinite(v); })) continue;
    const VarianceComponents parts = variance_components(logs, {.replicas = equals.size(), .steps = steps});
    double mean = 0;
    for (const double effect : parts.rank_effect) {
      mean += std::exp(effect) / static_cast<double>(equals.size());
    }
    for (std::size_t i = 0; i < equals.size(); ++i) {
      measured.slowness[equals[i]] = std::exp(parts.rank_effect[i]) / mean;
    }
    const auto own_freedom = static_cast<double>(equals.size() - 1);
    variance += own_freedom * std::max(0.0, parts.v_rank - parts.v_cell / static_cast<double>(steps));
    freedom += own_freedom;
  }
  if (freedom + 1 >= kMinEquals) measured.cv = std::sqrt(std::exp(variance / freedom) - 1);
  return measured;
}

/// Multiplies the factors of copied ranks by speeds of their own.
void vary_copies(std::vector<double>& factors, const StepModel& traced, const MeasuredSpeeds& measured,
                 double cv, std::uint32_t seed) {
  if (cv == 0) return;
  const double sigma = std::sqrt(std::log1p(cv * cv));
  const Law law{LognormalLaw{.mu = -sigma * sigma / 2, .sigma = sigma}};  // mean 1
  for (std::size_t i = traced.traced_ranks(); i < factors.size(); ++i) {
    const auto replica = static_cast<std::uint32_t>(i / traced.template_ranks);
    const std::uint32_t word = random_word(seed, Purpose::RankSpeed, i % traced.template_ranks, replica, 0);
    factors[i] *=
        portable_factor(law.quantile(unit_from_word(word)) / measured.slowness[i % traced.traced_ranks()]);
  }
}

/// The factors of D replicas, copies taking those of the rank they copy.
void add_rank_factors(const StepModel& traced, const ExtendOptions& options, StepModel& model) {
  const std::size_t ranks = std::size_t{options.replicas} * traced.template_ranks;
  for (std::size_t i = traced.rank_factors.size(); i < ranks && !traced.rank_factors.empty(); ++i) {
    model.rank_factors.push_back(traced.rank_factors[i % traced.rank_factors.size()]);
  }
  const MeasuredSpeeds measured = measured_speeds(traced);
  const std::optional<double> cv = options.spatial_cv ? options.spatial_cv : measured.cv;
  if (!cv) return;
  if (model.rank_factors.empty()) model.rank_factors.assign(ranks, 1);
  vary_copies(model.rank_factors, traced, measured, *cv, options.seed);
  model.report.add(Severity::Info,
                   "compute of copied ranks differs by " + percent(*cv) +
                       (options.spatial_cv ? ", as given" : ", as measured between traced ranks"));
}

std::string what_was_done(const StepModel& traced, std::uint32_t replicas) {
  if (traced.step_count() == 0) {
    return std::to_string(replicas) + " replicas of the graph instead of " + std::to_string(traced.replicas);
  }
  if (replicas < traced.replicas) {
    return "the first " + std::to_string(replicas) + " of " + std::to_string(traced.replicas) +
           " replicas are used";
  }
  const std::uint64_t ranks = std::uint64_t{replicas} * traced.template_ranks;
  return std::to_string(traced.traced_ranks()) + " of " + std::to_string(ranks) +
         " ranks traced: the other " + std::to_string(ranks - traced.traced_ranks()) +
         " are copies that draw their own profiled steps";
}

}  // namespace

StepModel extend_replicas(const StepModel& model, const ExtendOptions& options) {
  if (options.replicas != model.replicas) refuse_composed(model, "change dp in the plan");
  assert(options.replicas >= 1 && model.replicas == model.pool_replicas());
  if (options.replicas == model.replicas) return model;
  StepModel result = model;
  result.replicas = options.replicas;
  result.traced_replicas = model.replicas;
  Meetings meetings(model, options.replicas);
  result.graph = regrouped(model, meetings);
  std::size_t waits = 0;
  for (Node& node : result.nodes) {
    node.draw_group = meetings.of_draw(node);
    if (options.replicas < model.replicas || !is_waiting(model, node)) continue;
    node.kind = NodeKind::Join;  // takes no time: the simulation waits
    ++waits;
  }
  // Ranks of a part of a job say nothing about its mesh.
  int& dp = result.mesh.size(Axis::Dp);
  if (std::cmp_equal(dp, model.replicas) && model.world_ranks <= model.traced_ranks()) {
    dp = static_cast<int>(options.replicas);
  }
  result.report.add(Severity::Info, what_was_done(model, options.replicas));
  if (options.replicas < model.replicas) {
    result.rank_factors.resize(std::min<std::size_t>(model.rank_factors.size(),
                                                     std::size_t{options.replicas} * model.template_ranks));
    return result;
  }
  if (waits > 0) {
    result.report.add(
        {Severity::Info, "wait for ranks that were not traced: now comes out of the simulation", waits, {}});
  }
  add_rank_factors(model, options, result);
  return result;
}

std::optional<std::uint32_t> replicas_of_whole_job(const StepModel& model) {
  const bool waited =
      std::ranges::any_of(model.nodes, [&](const Node& node) { return is_waiting(model, node); });
  if (!waited || model.world_ranks <= model.traced_ranks() || model.world_ranks % model.template_ranks != 0) {
    return std::nullopt;
  }
  if (model.mesh.world_size() != model.world_ranks) return model.world_ranks / model.template_ranks;
  // The layout is known: only the data-parallel axis is made of copies.
  const auto along = static_cast<std::uint32_t>(model.mesh.size(Axis::Dp));
  return along > model.cells && along % model.cells == 0 ? std::optional(along / model.cells) : std::nullopt;
}

std::vector<std::string> extension_warnings(const StepModel& model) {
  std::vector<std::string> warnings;
  // Replicas of a graph of the user's own are not copies of something traced.
  if (!is_extended(model) || model.step_count() == 0) return warnings;
  const std::uint32_t ratio = (model.replicas + model.pool_replicas() - 1) / model.pool_replicas();
  const std::string stands_for = "each traced replica stands for " + std::to_string(ratio) + " of them: ";
  if (ratio >= kFarRatio) {
    warnings.push_back(stands_for +
                       "far more than was traced. Forecasts of a recorded job from an eighth of its replicas "
                       "missed p50 by up to 4 % and p95 by up to 5 %, and a slow rank that was not traced is "
                       "missed altogether; trace more ranks");
  } else if (ratio > kCheckedRatio) {
    warnings.push_back(stands_for + "forecasts of a recorded job were checked for twice the traced replicas");
  }
  if (model.rank_factors.empty()) {
    const std::uint64_t ranks = model.traced_ranks();
    warnings.push_back(
        "spread between ranks unknown: " + (ranks == 1 ? "one rank" : std::to_string(ranks) + " ranks") +
        " traced; give --spatial-cv");
  }
  if (std::uint64_t{model.pool_replicas()} * model.cells == 1) {
    warnings.emplace_back(
        "one traced rank does not say how much ranks are slow and fast together; its copies draw "
        "independently");
  }
  const std::uint64_t ranks = std::uint64_t{model.replicas} * model.template_ranks;
  if (model.world_ranks > ranks) {
    warnings.push_back("the job has " + std::to_string(model.world_ranks) + " ranks, this model " +
                       std::to_string(ranks) + ": waiting for the others is left out");
  }
  return warnings;
}

}  // namespace prism
