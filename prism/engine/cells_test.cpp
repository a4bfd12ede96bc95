// SPDX-License-Identifier: Apache-2.0
// Models with several cells per replica, kinds of steps, a lead, factors of ranks, and replicas that share
// pools: what they may draw, and that the sweep equals the plain reference bit for bit.
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "prism/engine/reference.hpp"
#include "prism/engine/simulate.hpp"
#include "prism/stats/random.hpp"
#include "tests/text_graph.hpp"

namespace prism {
namespace {

constexpr std::uint32_t kSeed = 4;
constexpr std::uint32_t kSteps = 5;
constexpr std::uint32_t kRanks = 3;

constexpr std::array<Sampling, 6> kAllSampling = {Sampling::Hierarchical, Sampling::StepBlock,
                                                  Sampling::Regime,       Sampling::Iid,
                                                  Sampling::IidMixed,     Sampling::Recorded};

/// A value that tells class, replica, profiled step and member.
double coded(std::uint32_t pool, std::uint32_t d, std::uint32_t k, std::uint32_t m) {
  return 1e6 + 1e5 * pool + 1e4 * d + 100 * k + m;
}
std::uint32_t step_in(double duration_ns) {
  return static_cast<std::uint32_t>(duration_ns - 1e6) / 100 % 100;
}
std::uint32_t replica_in(double duration_ns) {
  return static_cast<std::uint32_t>(duration_ns - 1e6) / 10'000 % 10;
}
std::uint32_t member_in(double duration_ns) {
  return static_cast<std::uint32_t>(duration_ns - 1e6) % 100;
}

/// Three ranks, each a cell with a class of two nodes of every category; pools of `traced` replicas.
StepModel three_cells(std::uint32_t traced) {
  Sketch job{.replicas = traced, .steps = kSteps};
  for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(kRanks); ++rank) {
    for (std::size_t category = 0; category < kCategoryCount; ++category) {
      const auto pool = static_cast<std::uint32_t>(job.pools.classes.size());
      std::vector<double> values;
      for (std::uint32_t d = 0; d < traced; ++d) {
        for (std::uint32_t k = 0; k < kSteps; ++k) {
          for (std::uint32_t m = 0; m < 2; ++m) values.push_back(coded(pool, d, k, m));
        }
      }
      const ClassId id = job.pools.add({.key = "class " + std::to_string(pool),
                                        .category = static_cast<Category>(category),
                                        .rank = rank,
                                        .members = 2},
                                       values, traced);
      for (std::uint32_t m = 0; m < 2; ++m) {
        job.add({.name = std::string(category_name(static_cast<Category>(category))) + " " +
                         std::to_string(m) + " of " + std::to_string(rank),
                 .rank = rank,
                 .cell = rank,
                 .duration_class = id,
                 .member = m});
      }
    }
  }
  StepModel model = job.model();
  model.template_ranks = kRanks;
  model.cells = kRanks;
  return model;
}

Category category_of(const StepModel& model, NodeId node) {
  return model.pools.classes[model.nodes[node].duration_class].category;
}

const StepEffects kNoEffects{.effect = IdVector<ClassId, std::vector<double>>(kRanks * kCategoryCount)};

TEST(Cells, EachTakesAStepOfItsOwnAndTheRestIsOfTheCommonStep) {
  StepModel model = three_cells(2);
  const Draws draws(model, Sampling::Hierarchical, kNoEffects);
  std::set<std::vector<std::uint32_t>> seen;
  for (std::uint32_t sample = 0; sample < 300; ++sample) {
    const NodeTimes times = reference_times(model, draws, kSeed, sample);
    const std::uint32_t common = index_from_word(random_word(kSeed, Purpose::Step, 0, 0, sample), kSteps);
    for (std::size_t i = 0; i < model.nodes.size(); ++i) {
      const Node& node = model.nodes[NodeId(i)];
      for (std::uint32_t d = 0; d < 2; ++d) {
        const std::uint32_t cell = d * kRanks + static_cast<std::uint32_t>(node.cell);
        const std::uint32_t own = index_from_word(random_word(kSeed, Purpose::Cell, 0, cell, sample), kSteps);
        const double value = times.duration_ns[i * 2 + d];
        EXPECT_EQ(step_in(value), is_of_cell(category_of(model, NodeId(i))) ? own : common)
            << node.name << ", replica " << d << ", sample " << sample;
        EXPECT_EQ(replica_in(value), d);
        EXPECT_EQ(member_in(value), node.member);
      }
    }
    std::vector<std::uint32_t> steps;
    for (std::uint32_t c = 0; c < 3; ++c) {
      steps.push_back(index_from_word(random_word(kSeed, Purpose::Cell, 0, c, sample), kSteps));
    }
    seen.insert(steps);
  }
  EXPECT_GT(seen.size(), 80U) << "of 125 combinations of steps, in 300 samples";
}

TEST(Cells, OneCellOfOneReplicaIsTheCommonStep) {
  StepModel model = three_cells(1);
  model.cells = 1;
  for (Node& node : model.nodes) node.cell = 0;
  const Draws draws(model, Sampling::Hierarchical, kNoEffects);
  for (std::uint32_t sample = 0; sample < 50; ++sample) {
    const NodeTimes times = reference_times(model, draws, kSeed, sample);
    const std::uint32_t common = index_from_word(random_word(kSeed, Purpose::Step, 0, 0, sample), kSteps);
    for (const double value : times.duration_ns) EXPECT_EQ(step_in(value), common);
  }
}

// Kinds 3, 8, 3, 8, 8: a cell's step is of the kind of k*, each as likely (the lowest counts, of 1,500
// samples: 2/5 * 1/2 and 3/5 * 1/3 are both 300, standard deviation 15).
TEST(Cells, StepIsOfTheKindOfTheCommonStep) {
  StepModel model = three_cells(1);
  model.step_kinds = {3, 8, 3, 8, 8};
  const Draws draws(model, Sampling::Hierarchical, kNoEffects);
  const NodeId node = node_of(model, "compute 0 of 1");
  std::map<std::uint32_t, int> count;
  for (std::uint32_t sample = 0; sample < 1500; ++sample) {
    const std::uint32_t common = index_from_word(random_word(kSeed, Purpose::Step, 0, 0, sample), kSteps);
    const std::uint32_t own = step_in(reference_times(model, draws, kSeed, sample).duration_ns[node.value]);
    EXPECT_EQ(model.step_kinds[own], model.step_kinds[common]) << "sample " << sample;
    ++count[own];
  }
  for (std::uint32_t k = 0; k < kSteps; ++k) EXPECT_NEAR(count[k], 300, 75) << "step " << k;
}

// The factor is exp(a (S[k*] - S[k_cell])), for compute only and with one row per cell.
TEST(Cells, CommonEffectIsExchangedForComputeOfEachCell) {
  const StepModel model = three_cells(2);
  const StepEffects effects{.share = 0.7, .common = {0.1, -0.2, 0.05, 0.3, -0.25}};
  const Draws draws(model, Sampling::Hierarchical, effects);
  EXPECT_EQ(draws.factor_count(), 3U);
  const Draws plain(model, Sampling::Hierarchical, kNoEffects);
  for (std::uint32_t sample = 0; sample < 100; ++sample) {
    const NodeTimes times = reference_times(model, draws, kSeed, sample);
    const NodeTimes before = reference_times(model, plain, kSeed, sample);
    const std::uint32_t common = index_from_word(random_word(kSeed, Purpose::Step, 0, 0, sample), kSteps);
    for (std::size_t i = 0; i < times.duration_ns.size(); ++i) {
      double expected = before.duration_ns[i];
      if (category_of(model, NodeId(i / 2)) == Category::Compute) {
        expected *= std::exp(0.7 * (effects.common[common] - effects.common[step_in(expected)]));
      }
      EXPECT_NEAR(times.duration_ns[i], expected, 2 * 0x1p-23 * expected);
    }
  }
}

TEST(Cells, ThousandsOfNodesShareAFewRows) {
  const StepModel model = three_cells(2);
  EXPECT_EQ(Draws(model, Sampling::Hierarchical, kNoEffects).row_count(), 4U)
      << "three cells and the common step";
  EXPECT_EQ(Draws(model, Sampling::Recorded, kNoEffects).row_count(), 1U);
}

// --- factors of ranks
// ------------------------------------------------------------------------------------------------

/// Factors that tell replica and rank; those of the first two replicas are 1.
std::vector<double> coded_factors(std::uint32_t replicas) {
  std::vector<double> factors;
  for (std::uint32_t i = 0; i < replicas * kRanks; ++i)
    factors.push_back(i < 2 * kRanks ? 1.0 : 1 + 0.125 * i);
  return factors;
}

TEST(RankFactors, ScaleComputeInEveryRule) {
  StepModel plain = three_cells(2);
  plain.traced_replicas = 2;
  plain.replicas = 6;
  StepModel model = plain;
  model.rank_factors = coded_factors(6);
  for (const Sampling sampling : kAllSampling) {
    const Draws draws(model, sampling, kNoEffects);
    const Draws plain_draws(plain, sampling, kNoEffects);
    for (std::uint32_t sample = 0; sample < 20; ++sample) {
      const NodeTimes times = reference_times(model, draws, kSeed, sample);
      const NodeTimes before = reference_times(plain, plain_draws, kSeed, sample);
      for (std::size_t i = 0; i < model.nodes.size(); ++i) {
        const auto rank = static_cast<std::size_t>(model.nodes[NodeId(i)].rank);
        for (std::uint32_t d = 0; d < 6; ++d) {
          const bool compute = category_of(model, NodeId(i)) == Category::Compute;
          EXPECT_EQ(times.duration_ns[i * 6 + d],
                    before.duration_ns[i * 6 + d] * (compute ? model.rank_factors[d * kRanks + rank] : 1))
              << sampling_name(sampling) << ", " << model.nodes[NodeId(i)].name << ", replica " << d;
        }
      }
    }
  }
}

TEST(RankFactors, ReplayOfTheReplicasAsRecordedHasNone) {
  StepModel model = three_cells(2);
  model.rank_factors.assign(2 * kRanks, 1.5);
  const NodeTimes times = reference_times(model, Draws(model, Sampling::Recorded, kNoEffects), 1, 3);
  for (std::size_t i = 0; i < times.duration_ns.size(); ++i) {
    const Node& node = model.nodes[NodeId(i / 2)];
    EXPECT_EQ(times.duration_ns[i], coded(node.duration_class.value, i % 2, 3, node.member));
  }
}

TEST(SharedPools, ReplicaTakesThoseOfItsNumberModuloTheTraced) {
  StepModel model = three_cells(2);
  model.traced_replicas = 2;
  model.replicas = 7;
  for (const Sampling sampling : kAllSampling) {
    const NodeTimes times = reference_times(model, Draws(model, sampling, kNoEffects), 1, 3);
    for (std::size_t i = 0; i < times.duration_ns.size(); ++i) {
      const bool any =
          sampling == Sampling::IidMixed && category_of(model, NodeId(i / 7)) == Category::Compute;
      EXPECT_TRUE(any || replica_in(times.duration_ns[i]) == i % 7 % 2) << sampling_name(sampling);
      EXPECT_LT(replica_in(times.duration_ns[i]), 2U);
    }
  }
}

// --- equal bits
// ------------------------------------------------------------------------------------------------------

/// A random graph whose ops lie on three ranks, with all that a kernel-level model may have, extended to
/// three times its replicas.
StepModel random_cells(std::uint32_t seed, std::uint32_t traced) {
  Sketch job =
      random_sketch(seed, {.ops = 5 + 3 * seed, .replicas = traced, .steps = kSteps, .non_negative = false});
  for (std::size_t i = 0; i < job.ops.size(); ++i) {
    job.ops[i].rank = job.ops[i].cell =
        static_cast<std::int32_t>(random_word(seed, Purpose::Generator, i, 0, 0) % 3);
  }
  StepModel model = job.model();
  model.template_ranks = model.cells = kRanks;
  model.step_kinds = {1, 2, 1, 2, 1};
  model.lead_ns = 12'345.75;
  model.traced_replicas = traced;
  model.replicas = 3 * traced;
  for (std::uint32_t i = 0; i < model.replicas * kRanks; ++i) {
    model.rank_factors.push_back(i < traced * kRanks ? 1.0 : 0.9 + 0.01 * i);
  }
  return model;
}

std::vector<SimdLevel> available_levels() {
  std::vector<SimdLevel> levels;
  for (const SimdLevel level : {SimdLevel::Portable, SimdLevel::Sse4, SimdLevel::Avx2, SimdLevel::Avx512}) {
    if (sweep_kernel(level) != nullptr) levels.push_back(level);
  }
  return levels;
}

TEST(Cells, SweepEqualsTheReferenceInEveryRuleAndLevel) {
  for (const Sampling sampling : kAllSampling) {
    for (const std::uint32_t traced : {1U, 2U, 4U}) {
      for (std::uint32_t seed = 0; seed < 10; ++seed) {
        const StepModel model = random_cells(seed, traced);
        const StepEffects effects{.share = 0.6, .common = {0.1, -0.1, 0.2, 0.05, -0.25}};
        const Simulation simulation(model, sampling, effects);
        const Draws draws(model, sampling, effects);
        std::vector<double> expected;
        for (std::uint32_t s = 20; s < 56; ++s) {
          expected.push_back(reference_times(model, draws, seed, s).step_ns);
        }
        for (const SimdLevel level : available_levels()) {
          ASSERT_EQ(simulation.step_times_ns(seed, 20, 36, {.threads = 1}, level), expected)
              << sampling_name(sampling) << ", seed " << seed << ", " << traced << " traced, "
              << simd_level_name(level);
        }
      }
    }
  }
}

TEST(Lead, IsTakenOffTheStepTimeAlone) {
  StepModel model = sketch("a=100 -> b=25").model();
  model.lead_ns = 40;
  EXPECT_EQ(Simulation(model, Sampling::Iid, {}).step_times_ns(1, 0, 1, {}).front(), 85);
  const NodeTimes times = reference_times(model, Draws(model, Sampling::Iid, kNoEffects), 1, 0);
  EXPECT_EQ(times.step_ns, 85);
  EXPECT_EQ(times.finish(node_of(model, "b").value), 125);
}

}  // namespace
}  // namespace prism
