// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline_graph.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "prism/model/step_graph.hpp"
#include "prism/stats/laws.hpp"
#include "prism/stats/random.hpp"

namespace prism::bench {

namespace {

using Ids = std::vector<std::uint32_t>;

struct OpLaw {
  const char* name;
  Category category;
  double mean_ns;
  double sd;          ///< of the log
  double tail_share;  ///< draws that take `tail_factor` times as long
  double tail_factor;
};

constexpr OpLaw kGather = {"all-gather", Category::Collective, 60e3, 0.15, 0.01, 5};
constexpr OpLaw kScatter = {"reduce-scatter", Category::Collective, 70e3, 0.15, 0.01, 5};
constexpr OpLaw kForward = {"forward", Category::Compute, 0.8e6, 0.03, 0, 1};
constexpr OpLaw kBackward = {"backward", Category::Compute, 1.6e6, 0.03, 0, 1};
constexpr OpLaw kTransfer = {"transfer", Category::PointToPoint, 120e3, 0.15, 0.01, 5};
constexpr OpLaw kReduceGradients = {"gradient reduce-scatter", Category::Collective, 40e6, 0.1, 0.01, 3};
constexpr OpLaw kGatherParameters = {"parameter all-gather", Category::Collective, 30e6, 0.1, 0.01, 3};
constexpr OpLaw kOptimizer = {"optimizer", Category::Local, 20e6, 0.03, 0, 1};

class Generator {
 public:
  explicit Generator(const PipelineGraphSpec& spec) : spec_(spec) {}

  StepModel make() {
    const std::uint32_t copies = spec_.explicit_replicas ? spec_.dp : 1;
    std::vector<std::vector<std::uint32_t>> last(copies);
    for (copy_ = 0; copy_ < copies; ++copy_) last[copy_] = add_pipeline();
    add_end(last);
    model_.source = "made pipeline";
    model_.mesh.size(Axis::Tp) = static_cast<int>(spec_.tp);
    model_.mesh.size(Axis::Pp) = static_cast<int>(spec_.pp);
    model_.mesh.size(Axis::Dp) = static_cast<int>(spec_.explicit_replicas ? 1 : spec_.dp);
    model_.replicas = spec_.explicit_replicas ? 1 : spec_.dp;
    model_.template_ranks = spec_.tp * spec_.pp * copies;
    if (spec_.durations == Durations::Profiled) {
      for (std::uint32_t k = 0; k < spec_.pool_values; ++k) {
        model_.steps.push_back(static_cast<int>(k));
        model_.observed_ns.push_back(1e9);
      }
    }
    StepGraphBuilder::Result built =
        builder_.build(model_.source, [this](std::uint32_t id) { return nodes_[id].name; });
    model_.graph = std::move(built.graph);
    model_.nodes = IdVector<NodeId, Node>(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) model_.nodes[built.node_of[i]] = std::move(nodes_[i]);
    return std::move(model_);
  }

 private:
  /// The class of an op on a stage; `part` tells apart ops of one kind that are not alike.
  ClassId class_of(const OpLaw& law, std::uint32_t stage, std::uint32_t part) {
    std::string key = law.name;
    key += ' ' + std::to_string(part) + " of stage " + std::to_string(stage);
    for (std::size_t i = 0; i < model_.pools.classes.size(); ++i) {
      if (model_.pools.classes[ClassId(i)].key == key) return ClassId(i);
    }
    std::vector<double> values(spec_.pool_values);
    const std::uint64_t id = model_.pools.classes.size();
    const Law core{LognormalLaw{.mu = std::log(law.mean_ns), .sigma = law.sd}};
    for (std::uint32_t i = 0; i < values.size(); ++i) {
      values[i] = core.quantile(unit_from_word(random_word(7, Purpose::Generator, id, 0, i)));
      const double tail = unit_from_word(random_word(7, Purpose::Generator, id, 1, i));
      values[i] = std::round(values[i] * (tail < law.tail_share ? law.tail_factor : 1));
    }
    return model_.pools.add({.key = key,
                             .category = law.category,
                             .rank = static_cast<std::int32_t>(stage * spec_.tp),
                             .per_replica = false},
                            values, 1);
  }

  std::uint32_t add(ClassId duration_class, std::uint32_t stage, std::uint32_t rank, std::int32_t microbatch,
                    const Ids& before, bool spans = false) {
    const bool join = spec_.durations == Durations::FirstOnly && !nodes_.empty();
    const std::uint64_t id = mix_id(20251130, nodes_.size());
    const ReplicaGroup group = spans && !spec_.explicit_replicas ? ReplicaGroup{spec_.dp, 1} : ReplicaGroup{};
    nodes_.push_back({.kind = join ? NodeKind::Join : NodeKind::Op,
                      .name = std::to_string(nodes_.size()),
                      .rank = static_cast<std::int32_t>((copy_ * spec_.pp + stage) * spec_.tp + rank),
                      .stage = static_cast<std::int32_t>(stage),
                      .microbatch = microbatch,
                      .id = id,
                      .draw_id = id,
                      .draw_group = group,
                      .duration_class = duration_class});
    const std::uint32_t node = builder_.add_node(group);
    for (const std::uint32_t b : before) builder_.add_edge(b, node);
    return node;
  }

  /// A stage's forward or backward of one microbatch. Returns its last node.
  std::uint32_t add_chunk(std::uint32_t stage, std::uint32_t microbatch, bool forward, Ids before) {
    const auto mb = static_cast<std::int32_t>(microbatch);
    const OpLaw& law = forward ? kForward : kBackward;
    const std::uint32_t direction = forward ? 0 : 2;
    for (std::uint32_t block = 0; block < 2 * spec_.layers; ++block) {
      const std::uint32_t part = direction + block % 2;  // attention and MLP halves of a layer
      const std::uint32_t gather = add(class_of_cached(kGather, stage, part, 0), stage, 0, mb, before);
      Ids members;
      for (std::uint32_t t = 0; t < spec_.tp; ++t) {
        const std::uint32_t own = spec_.pools_per_rank ? t + 1 : 0;
        members.push_back(add(class_of_cached(law, stage, part + 4 * own, 1), stage, t, mb, {gather}));
      }
      before = {add(class_of_cached(kScatter, stage, part, 2), stage, 0, mb, members)};
    }
    return before.front();
  }

  Ids add_transfers(std::uint32_t stage, std::uint32_t microbatch, bool forward, std::uint32_t after) {
    Ids sent;
    for (std::uint32_t t = 0; t < spec_.tp; ++t) {
      sent.push_back(add(class_of_cached(kTransfer, stage, forward ? 0 : 1, 3), stage, t,
                         static_cast<std::int32_t>(microbatch), {after}));
    }
    return sent;
  }

  /// One replica's forward and backward passes, node by node in an order in which a simulation could run
  /// them. Returns each stage's last node.
  Ids add_pipeline() {
    const std::uint32_t pp = spec_.pp;
    const std::uint32_t mbs = spec_.microbatches;
    std::vector<std::vector<Ids>> forward_in(pp, std::vector<Ids>(mbs));
    std::vector<std::vector<Ids>> backward_in(pp, std::vector<Ids>(mbs));
    std::vector<std::uint32_t> forwards(pp, 0);
    std::vector<std::uint32_t> backwards(pp, 0);
    Ids last(pp, 0);
    const auto runs_forward = [&](std::uint32_t stage) {
      const std::uint32_t ahead = std::min(pp - stage, mbs);  // 1F1B: forwards in flight
      return forwards[stage] < mbs && forwards[stage] - backwards[stage] < ahead;
    };
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::uint32_t s = 0; s < pp; ++s) {
        for (;;) {
          const bool forward = runs_forward(s);
          const std::uint32_t mb = forward ? forwards[s] : backwards[s];
          if (mb >= mbs) break;
          Ids before = forward ? forward_in[s][mb] : backward_in[s][mb];
          const bool needs_input = forward ? s > 0 : s + 1 < pp;
          if (needs_input && before.empty()) break;
          if (forwards[s] + backwards[s] > 0) before.push_back(last[s]);
          last[s] = add_chunk(s, mb, forward, std::move(before));
          if (forward && s + 1 < pp) forward_in[s + 1][mb] = add_transfers(s, mb, true, last[s]);
          if (!forward && s > 0) backward_in[s - 1][mb] = add_transfers(s, mb, false, last[s]);
          ++(forward ? forwards : backwards)[s];
          moved = true;
        }
      }
    }
    return last;
  }

  void add_end(const std::vector<Ids>& last) {
    Ids ends;
    copy_ = 0;
    if (spec_.dp == 1) ends = last.front();
    for (std::uint32_t s = 0; s < spec_.pp && spec_.dp > 1; ++s) {
      const std::uint32_t optimizer_part =
          s == 0 || s + 1 == spec_.pp ? 0 : 1;  // embeddings on the outer stages
      for (std::uint32_t t = 0; t < spec_.tp; ++t) {
        Ids before;
        for (const Ids& of_copy : last) before.push_back(of_copy[s]);
        const std::uint32_t reduce = add(class_of_cached(kReduceGradients, s, 0, 4), s, t, -1, before, true);
        Ids updated;
        for (copy_ = 0; copy_ < last.size(); ++copy_) {
          updated.push_back(add(class_of_cached(kOptimizer, 0, optimizer_part, 5), s, t, -1, {reduce}));
        }
        copy_ = 0;
        ends.push_back(add(class_of_cached(kGatherParameters, s, 0, 6), s, t, -1, updated, true));
      }
    }
    add({}, 0, 0, -1, ends);
    nodes_.back().kind = NodeKind::Join;
    nodes_.back().name = "end of step";
  }

  /// class_of without building its key again: `kind` numbers the laws.
  ClassId class_of_cached(const OpLaw& law, std::uint32_t stage, std::uint32_t part, std::uint32_t kind) {
    const std::size_t at = (std::size_t{stage} * 64 + part) * 8 + kind;
    if (at >= cache_.size()) cache_.resize(at + 1, {false, {}});
    if (!cache_[at].first) cache_[at] = {true, class_of(law, stage, part)};
    return cache_[at].second;
  }

  const PipelineGraphSpec& spec_;
  StepModel model_;
  StepGraphBuilder builder_;
  std::vector<Node> nodes_;
  std::vector<std::pair<bool, ClassId>> cache_;
  std::uint32_t copy_ = 0;
};

}  // namespace

StepModel pipeline_model(const PipelineGraphSpec& spec) {
  if (spec.tp == 0 || spec.tp > 15 || spec.pp == 0 || spec.dp == 0 || spec.microbatches == 0 ||
      spec.layers == 0) {
    throw std::invalid_argument("a pipeline graph needs sizes above 0 and tp of at most 15");
  }
  return Generator(spec).make();
}

StepEffects made_step_effects(const StepModel& model) {
  StepEffects effects{.share = 0.5,
                      .effect = IdVector<ClassId, std::vector<double>>(model.pools.classes.size())};
  const Law law{NormalLaw{.mean = 0, .sd = 0.02}};
  for (std::size_t c = 0; c < model.pools.classes.size(); ++c) {
    if (model.pools.classes[ClassId(c)].category != Category::Compute) continue;
    for (std::uint32_t k = 0; k < model.step_count(); ++k) {
      effects.effect[ClassId(c)].push_back(
          law.quantile(unit_from_word(random_word(7, Purpose::Generator, c, 2, k))));
    }
  }
  return effects;
}

GraphSize expected_size(const PipelineGraphSpec& spec) {
  const std::uint64_t chunks = std::uint64_t{2} * spec.pp * spec.microbatches;
  const std::uint64_t blocks = chunks * 2 * spec.layers;
  const std::uint64_t sends = std::uint64_t{2} * (spec.pp - 1) * spec.microbatches * spec.tp;
  const std::uint64_t nodes = blocks * (spec.tp + 2) + sends;
  const std::uint64_t edges =
      blocks * 2 * spec.tp + chunks * (2 * spec.layers - 1) + (chunks - spec.pp) + 2 * sends;
  if (spec.dp == 1) return {nodes + 1, edges + spec.pp};
  const std::uint64_t shards = std::uint64_t{spec.tp} * spec.pp;
  return {nodes * spec.dp + shards * (spec.dp + 2) + 1, edges * spec.dp + shards * (3 * spec.dp + 1)};
}

}  // namespace prism::bench
