// SPDX-License-Identifier: Apache-2.0
// What each sampling rule may draw (sampling.md, section 3). The pools are hand made: a value tells which
// class, replica, profiled step and member it was recorded for, so a duration shows what was drawn.
#include "prism/engine/draws.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include <boost/math/distributions/chi_squared.hpp>
#include <gtest/gtest.h>

#include "prism/engine/reference.hpp"
#include "prism/stats/random.hpp"
#include "tests/text_graph.hpp"

namespace prism {
namespace {

constexpr std::uint32_t kSteps = 5;
constexpr std::uint32_t kMicrobatches = 4;
constexpr std::uint32_t kSeed = 21;

/// What a duration was recorded for.
struct Source {
  std::uint32_t pool = 0;
  std::uint32_t replica = 0;
  std::uint32_t step = 0;
  std::uint32_t member = 0;
  friend auto operator<=>(const Source&, const Source&) = default;
};

std::ostream& operator<<(std::ostream& out, const Source& s) {
  return out << "class " << s.pool << ", replica " << s.replica << ", step " << s.step << ", member "
             << s.member;
}

double value_of(const Source& s) {
  return 1e6 + 1e5 * s.pool + 1e4 * s.replica + 100 * s.step + s.member;
}

Source source_of(double duration_ns) {
  const auto code = static_cast<std::uint32_t>(duration_ns - 1e6);
  const Source source{code / 100'000, code / 10'000 % 10, code / 100 % 100, code % 100};
  EXPECT_EQ(duration_ns, value_of(source)) << "not a value of any pool";
  return source;
}

ClassId add_class(Sketch& job, Category category, std::uint32_t members, bool exchangeable) {
  const auto pool = static_cast<std::uint32_t>(job.pools.classes.size());
  std::vector<double> values;
  for (std::uint32_t d = 0; d < job.replicas; ++d) {
    for (std::uint32_t k = 0; k < kSteps; ++k) {
      for (std::uint32_t m = 0; m < members; ++m) values.push_back(value_of({pool, d, k, m}));
    }
  }
  return job.pools.add({.key = "class " + std::to_string(pool),
                        .category = category,
                        .members = members,
                        .exchangeable = exchangeable},
                       values, job.replicas);
}

/// Two stages with forward and backward of 4 microbatches, a lone compute op, two that cannot be exchanged, a
/// reduction in which both stages and all replicas take part, and one op of each other kind.
StepModel coded_model(std::uint32_t replicas) {
  Sketch job{.replicas = replicas, .steps = kSteps};
  for (const std::string name : {"forward 0", "backward 0", "forward 1", "backward 1"}) {
    const ClassId id = add_class(job, Category::Compute, kMicrobatches, true);
    for (std::uint32_t m = 0; m < kMicrobatches; ++m) {
      job.add({.name = name + " of microbatch " + std::to_string(m), .duration_class = id, .member = m});
    }
  }
  job.add({.name = "lone", .duration_class = add_class(job, Category::Compute, 1, true)});
  const ClassId fixed = add_class(job, Category::Compute, 2, false);
  for (std::uint32_t m = 0; m < 2; ++m) {
    job.add({.name = "fixed " + std::to_string(m), .duration_class = fixed, .member = m});
  }
  const std::uint32_t reduce0 = job.add({.name = "reduce 0",
                                         .draw_group = {replicas, 1},
                                         .duration_class = add_class(job, Category::Collective, 1, false)});
  const std::uint32_t reduce1 = job.add({.name = "reduce 1",
                                         .draw_group = {replicas, 1},
                                         .duration_class = add_class(job, Category::Collective, 1, false)});
  job.ops[reduce1].draw_id = job.ops[reduce0].draw_id;
  job.add({.name = "send", .duration_class = add_class(job, Category::PointToPoint, 1, false)});
  job.add({.name = "optimizer", .duration_class = add_class(job, Category::Local, 1, false)});
  job.add({.kind = NodeKind::Delay,
           .name = "launch",
           .duration_class = add_class(job, Category::LaunchDelay, 1, false)});
  return job.model();
}

bool is_compute_node(const StepModel& model, NodeId node) {
  return model.pools.classes[model.nodes[node].duration_class].category == Category::Compute;
}

/// No effects: no class has a factor.
StepEffects no_effects(const StepModel& model, double share) {
  StepEffects effects{.share = share};
  effects.effect = IdVector<ClassId, std::vector<double>>(model.pools.classes.size());
  return effects;
}

/// Durations of one sample, by node and replica.
class Drawn {
 public:
  Drawn(const StepModel& model, Sampling sampling, const StepEffects& effects, std::uint32_t sample)
      : model_(model), times_(reference_times(model, Draws(model, sampling, effects), kSeed, sample)) {}

  double duration(NodeId node, std::uint32_t d) const {
    return times_.duration_ns[node.value * model_.replicas + d];
  }
  double duration(std::string_view name, std::uint32_t d) const { return duration(node_of(model_, name), d); }
  Source source(NodeId node, std::uint32_t d) const { return source_of(duration(node, d)); }
  Source source(std::string_view name, std::uint32_t d) const { return source_of(duration(name, d)); }

 private:
  const StepModel& model_;
  NodeTimes times_;
};

/// Chi-square of counts against equal ones must stay below its 1 - 1e-6 quantile.
void expect_uniform(const std::map<std::vector<std::uint32_t>, int>& count, std::size_t cells, int total,
                    const std::string& what) {
  ASSERT_EQ(count.size(), cells) << what;
  const double expected = total / static_cast<double>(cells);
  double statistic = 0;
  for (const auto& [cell, n] : count) statistic += (n - expected) * (n - expected) / expected;
  const boost::math::chi_squared law(static_cast<double>(cells - 1));
  const double limit = boost::math::quantile(boost::math::complement(law, 1e-6));
  EXPECT_LT(statistic, limit) << what << ": chi-square over " << cells << " cells, " << total << " samples";
}

// --- hierarchical
// ----------------------------------------------------------------------------------------------------

TEST(Hierarchical, ComputeOfAReplicaComesFromOneCellOfItsOwn) {
  const StepModel model = coded_model(3);
  const StepEffects effects = no_effects(model, 0);
  for (std::uint32_t sample = 0; sample < 200; ++sample) {
    const Drawn drawn(model, Sampling::Hierarchical, effects, sample);
    for (std::uint32_t d = 0; d < 3; ++d) {
      const std::uint32_t cell = index_from_word(random_word(kSeed, Purpose::Cell, 0, d, sample), kSteps);
      for (std::size_t i = 0; i < model.nodes.size(); ++i) {
        if (!is_compute_node(model, NodeId(i))) continue;
        const Source source = drawn.source(NodeId(i), d);
        EXPECT_EQ(source.pool, model.nodes[NodeId(i)].duration_class.value);
        EXPECT_EQ(source.replica, d) << "sample " << sample;
        EXPECT_EQ(source.step, cell) << model.nodes[NodeId(i)].name << ", sample " << sample;
      }
    }
  }
}

TEST(Hierarchical, OneOrderOfMicrobatchesServesForwardAndBackwardOnAllStages) {
  const StepModel model = coded_model(3);
  const StepEffects effects = no_effects(model, 0);
  std::set<std::vector<std::uint32_t>> orders;
  for (std::uint32_t sample = 0; sample < 300; ++sample) {
    const Drawn drawn(model, Sampling::Hierarchical, effects, sample);
    for (std::uint32_t d = 0; d < 3; ++d) {
      const auto order_of = [&](const std::string& name) {
        std::vector<std::uint32_t> order;
        for (std::uint32_t m = 0; m < kMicrobatches; ++m) {
          order.push_back(drawn.source(name + " of microbatch " + std::to_string(m), d).member);
        }
        return order;
      };
      const auto order = order_of("forward 0");
      EXPECT_EQ(order, microbatch_order(kSeed, sample, d, kMicrobatches));
      auto sorted = order;
      std::ranges::sort(sorted);
      EXPECT_EQ(sorted, (std::vector<std::uint32_t>{0, 1, 2, 3})) << "each microbatch once";
      for (const std::string name : {"backward 0", "forward 1", "backward 1"}) {
        EXPECT_EQ(order_of(name), order) << name << ", sample " << sample << ", replica " << d;
      }
      // Ops that are not the microbatches of the step keep their place.
      EXPECT_EQ(drawn.source("lone", d).member, 0U);
      EXPECT_EQ(drawn.source("fixed 0", d).member, 0U);
      EXPECT_EQ(drawn.source("fixed 1", d).member, 1U);
      orders.insert(order);
    }
  }
  EXPECT_EQ(orders.size(), 24U) << "900 draws";
}

TEST(Hierarchical, EverythingElseComesFromOneStepOfTheWholeJob) {
  const StepModel model = coded_model(3);
  const StepEffects effects = no_effects(model, 0);
  for (std::uint32_t sample = 0; sample < 200; ++sample) {
    const std::uint32_t step = index_from_word(random_word(kSeed, Purpose::Step, 0, 0, sample), kSteps);
    const Drawn drawn(model, Sampling::Hierarchical, effects, sample);
    for (std::uint32_t d = 0; d < 3; ++d) {
      for (const char* name : {"reduce 0", "reduce 1", "send", "optimizer", "launch"}) {
        EXPECT_EQ(drawn.source(name, d),
                  (Source{model.nodes[node_of(model, name)].duration_class.value, d, step, 0}))
            << name << ", sample " << sample;
      }
    }
  }
}

// 20,000 samples: 800 expected in each of 25 cells; a cell that is 25 % off is found.
TEST(Hierarchical, StepAndCellsAreUniformAndIndependent) {
  const StepModel model = coded_model(3);
  const StepEffects effects = no_effects(model, 0);
  const Draws draws(model, Sampling::Hierarchical, effects);
  const NodeDraw lone = draws.of(node_of(model, "lone"));
  const NodeDraw send = draws.of(node_of(model, "send"));
  constexpr int kSamples = 20'000;
  std::map<std::vector<std::uint32_t>, int> step_and_cell;
  std::map<std::vector<std::uint32_t>, int> two_cells;
  for (std::uint32_t sample = 0; sample < kSamples; ++sample) {
    const Draws::Cell first = draws.cell(kSeed, sample, 0);
    const Draws::Cell second = draws.cell(kSeed, sample, 1);
    const auto row = [](const Draws::Cell& cell, const NodeDraw& draw) {
      return static_cast<std::uint32_t>(cell.rows[draw.row]);
    };
    EXPECT_EQ(row(first, send), row(second, send));
    ++step_and_cell[{row(first, send), row(first, lone)}];
    ++two_cells[{row(first, lone), row(second, lone)}];
  }
  expect_uniform(step_and_cell, 25, kSamples, "k* and the cell of replica 0");
  expect_uniform(two_cells, 25, kSamples, "the cells of replicas 0 and 1");
}

// The factor is exp(a (S[k*] - S[k_d])), to the last few bits.
TEST(Hierarchical, StepEffectIsExchangedForThatOfTheCommonStep) {
  const StepModel model = coded_model(3);
  for (const double share : {0.0, 0.37, 1.0}) {
    StepEffects effects = no_effects(model, share);
    for (std::size_t c = 0; c < 3; ++c) {  // the others have no factor
      for (std::uint32_t k = 0; k < kSteps; ++k) {
        effects.effect[ClassId(c)].push_back(0.1 * static_cast<double>(c + 1) * std::sin(1.0 + k));
      }
    }
    for (std::uint32_t sample = 0; sample < 100; ++sample) {
      // The share changes no draw, so the plain values are those of the same sample without effects.
      const Drawn plain(model, Sampling::Hierarchical, no_effects(model, 0), sample);
      const Drawn drawn(model, Sampling::Hierarchical, effects, sample);
      for (std::size_t i = 0; i < model.nodes.size(); ++i) {
        const auto& effect = effects.effect[model.nodes[NodeId(i)].duration_class];
        for (std::uint32_t d = 0; d < 3; ++d) {
          double expected = plain.duration(NodeId(i), d);
          if (!effect.empty()) {
            const std::uint32_t step = plain.source("send", d).step;
            const std::uint32_t cell = plain.source(NodeId(i), d).step;
            expected *= std::exp(share * (effect[step] - effect[cell]));
          }
          // Factors are rounded to 24 bits.
          EXPECT_NEAR(drawn.duration(NodeId(i), d), expected, 2 * 0x1p-23 * expected)
              << model.nodes[NodeId(i)].name << ", sample " << sample << ", share " << share;
        }
      }
    }
  }
}

// With one replica a cell and a step cannot be told apart: k_d = k*, and there is nothing to exchange,
// whatever share is given.
TEST(Hierarchical, OneReplicaTakesItsCellFromTheCommonStep) {
  const StepModel model = coded_model(1);
  StepEffects effects = no_effects(model, 0.3);
  for (auto& effect : effects.effect) effect = {0.1, -0.2, 0.3, -0.4, 0.2};
  for (std::uint32_t sample = 0; sample < 200; ++sample) {
    const std::uint32_t step = index_from_word(random_word(kSeed, Purpose::Step, 0, 0, sample), kSteps);
    const Drawn plain(model, Sampling::Hierarchical, no_effects(model, 1), sample);
    const Drawn drawn(model, Sampling::Hierarchical, effects, sample);
    for (std::size_t i = 0; i < model.nodes.size(); ++i) {
      EXPECT_EQ(plain.source(NodeId(i), 0).step, step) << model.nodes[NodeId(i)].name;
      EXPECT_EQ(drawn.duration(NodeId(i), 0), plain.duration(NodeId(i), 0)) << model.nodes[NodeId(i)].name;
    }
  }
}

// --- the other rules
// -------------------------------------------------------------------------------------------------

/// What an op of replica d may draw in a sample whose common step is k.
using Allowed = std::function<bool(const Source&, std::uint32_t d, std::uint32_t k)>;

bool own_step(const Source& s, std::uint32_t d, std::uint32_t k) {
  return s.replica == d && s.step == k;
}
bool own_replica(const Source& s, std::uint32_t d, std::uint32_t) {
  return s.replica == d;
}
bool anything(const Source&, std::uint32_t, std::uint32_t) {
  return true;
}

struct Rule {
  Sampling sampling;
  Allowed compute;
  Allowed other;
  std::size_t compute_values;  ///< of "forward 0 of microbatch 2" in replica 1, over all samples
  std::size_t other_values;    ///< of "send"
};

/// With 1,500 samples, a value that should come up in one of 60 draws is missed with probability 1e-11.
void expect_rule(const Rule& rule) {
  const StepModel model = coded_model(3);
  const StepEffects effects = no_effects(model, 0.5);
  std::set<Source> compute_seen;
  std::set<Source> other_seen;
  for (std::uint32_t sample = 0; sample < 1500; ++sample) {
    const std::uint32_t step = index_from_word(random_word(kSeed, Purpose::Step, 0, 0, sample), kSteps);
    const Drawn drawn(model, rule.sampling, effects, sample);
    for (std::size_t i = 0; i < model.nodes.size(); ++i) {
      const bool compute = is_compute_node(model, NodeId(i));
      for (std::uint32_t d = 0; d < 3; ++d) {
        const Source source = drawn.source(NodeId(i), d);
        ASSERT_EQ(source.pool, model.nodes[NodeId(i)].duration_class.value);
        ASSERT_TRUE((compute ? rule.compute : rule.other)(source, d, step))
            << model.nodes[NodeId(i)].name << " of replica " << d << " drew " << source << ", k* " << step;
      }
    }
    compute_seen.insert(drawn.source("forward 0 of microbatch 2", 1));
    other_seen.insert(drawn.source("send", 1));
  }
  EXPECT_EQ(compute_seen.size(), rule.compute_values);
  EXPECT_EQ(other_seen.size(), rule.other_values);
}

TEST(StepBlock, TakesTheCommonStepAndAnyMicrobatch) {
  expect_rule({Sampling::StepBlock, own_step, own_step, kSteps * kMicrobatches, kSteps});
}

TEST(Regime, TakesAnyComputeOfTheRankAndTheCommonStep) {
  expect_rule({Sampling::Regime, own_replica, own_step, kSteps * kMicrobatches, kSteps});
}

TEST(Iid, TakesAnyValueOfTheRank) {
  expect_rule({Sampling::Iid, own_replica, own_replica, kSteps * kMicrobatches, kSteps});
}

TEST(IidMixed, TakesAnyComputeOfTheClassAndAnyStep) {
  expect_rule({Sampling::IidMixed, anything, own_replica, 3 * kSteps * kMicrobatches, kSteps});
}

TEST(Recorded, TakesWhatWasRecorded) {
  const StepModel model = coded_model(3);
  const StepEffects effects = no_effects(model, 0.5);
  const Draws draws(model, Sampling::Recorded, effects);
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    const Drawn drawn(model, Sampling::Recorded, effects, step);
    for (std::size_t i = 0; i < model.nodes.size(); ++i) {
      const Node& node = model.nodes[NodeId(i)];
      for (std::uint32_t d = 0; d < 3; ++d) {
        EXPECT_EQ(drawn.source(NodeId(i), d), (Source{node.duration_class.value, d, step, node.member}));
      }
    }
  }
}

// Per instance, not per member: all ranks and replicas of a reduction take part in the same recorded one.
TEST(Instances, MembersOfOneCollectiveDrawOneStep) {
  const StepModel model = coded_model(3);
  const StepEffects effects = no_effects(model, 0.5);
  for (const Sampling sampling : {Sampling::Iid, Sampling::IidMixed}) {
    std::set<std::uint32_t> steps;
    int others_agree = 0;
    for (std::uint32_t sample = 0; sample < 300; ++sample) {
      const Drawn drawn(model, sampling, effects, sample);
      const std::uint32_t step = drawn.source("reduce 0", 0).step;
      for (std::uint32_t d = 0; d < 3; ++d) {
        EXPECT_EQ(drawn.source("reduce 0", d).step, step) << sampling_name(sampling);
        EXPECT_EQ(drawn.source("reduce 1", d).step, step) << sampling_name(sampling);
      }
      steps.insert(step);
      others_agree += drawn.source("send", 0).step == step;
    }
    EXPECT_EQ(steps.size(), kSteps);
    // Independent draws agree in a fifth of the samples: 60 of 300, standard deviation 7.
    EXPECT_NEAR(others_agree, 60, 35) << sampling_name(sampling);
  }
}

// Ops of their own draw independently of each other, in every rule that draws per op: 15,000 pairs, each of
// the 25 pairs of steps expected 600 times.
TEST(Instances, OpsOfTheirOwnDrawIndependently) {
  const StepModel model = coded_model(3);
  const StepEffects effects = no_effects(model, 0.5);
  for (const Sampling sampling : {Sampling::Regime, Sampling::Iid, Sampling::IidMixed}) {
    std::map<std::vector<std::uint32_t>, int> two_ops;
    std::map<std::vector<std::uint32_t>, int> two_replicas;
    std::map<std::vector<std::uint32_t>, int> op_and_common;
    const int samples = 5000;
    for (std::uint32_t sample = 0; sample < samples; ++sample) {
      const Drawn drawn(model, sampling, effects, sample);
      const std::uint32_t step = drawn.source("forward 0 of microbatch 1", 0).step;
      ++two_ops[{step, drawn.source("backward 0 of microbatch 1", 0).step}];
      ++two_replicas[{step, drawn.source("forward 0 of microbatch 1", 1).step}];
      ++op_and_common[{step, drawn.source("optimizer", 0).step}];
    }
    const std::string rule(sampling_name(sampling));
    expect_uniform(two_ops, 25, samples, rule + ", two ops");
    expect_uniform(two_replicas, 25, samples, rule + ", one op in two replicas");
    expect_uniform(op_and_common, 25, samples, rule + ", compute and a local op");
  }
}

}  // namespace
}  // namespace prism
