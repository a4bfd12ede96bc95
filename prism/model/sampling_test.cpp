// SPDX-License-Identifier: Apache-2.0
// The estimates of sampling.md, section 4, against its formulas written out as they stand there.
#include "prism/model/sampling.hpp"

#include <cmath>
#include <memory>

#include <gtest/gtest.h>

#include "prism/model/build_step_model.hpp"
#include "prism/stats/random.hpp"
#include "tests/made_job/made_job.hpp"

namespace prism {
namespace {

/// Uniform in (-1, 1), a pure function of its arguments.
double noise(std::uint64_t id, std::size_t d, std::size_t k) {
  const std::uint32_t word =
      random_word(8, Purpose::Generator, id, static_cast<std::uint32_t>(d), static_cast<std::uint32_t>(k));
  return 2 * unit_from_word(word) - 1;
}

struct Spread {
  double step = 0;
  double rank = 0;
  double cell = 0;
  double residual = 0;
};

StepModel empty_model(std::size_t replicas, std::size_t steps) {
  StepModel model;
  model.replicas = static_cast<std::uint32_t>(replicas);
  for (std::size_t k = 0; k < steps; ++k) model.steps.push_back(static_cast<int>(k));
  return model;
}

/// Adds a class of durations around 1 ms times a place's factor, with spreads of the four kinds.
ClassId add_class(StepModel& model, std::size_t members, Spread spread, Category category = Category::Compute,
                  double scale_ns = 1e6) {
  const std::size_t c = model.pools.classes.size();
  std::vector<double> values;
  for (std::size_t d = 0; d < model.replicas; ++d) {
    for (std::size_t k = 0; k < model.step_count(); ++k) {
      for (std::size_t m = 0; m < members; ++m) {
        const double log = spread.step * noise(1, 0, k) + spread.rank * noise(10 + c, d, 0) +
                           spread.cell * noise(100 + c, d, k) +
                           spread.residual * noise(1000 * c + m + 1000, d, k) + 0.1 * static_cast<double>(m);
        values.push_back(scale_ns * std::exp(log));
      }
    }
  }
  return model.pools.add({.key = "class " + std::to_string(c),
                          .category = category,
                          .members = static_cast<std::uint32_t>(members),
                          .exchangeable = true},
                         values, model.replicas);
}

/// Section 4, word for word: x[d][k][m], means taken by looping over what the formula averages over.
struct Direct {
  std::size_t D, K, M;
  std::vector<double> S, r;
  double v_S = 0, v_r = 0, v_q = 0, v_e = 0;

  Direct(const StepModel& model, ClassId id)
      : D(model.replicas), K(model.step_count()), M(model.pools.classes[id].members), S(K), r(D) {
    const auto x = [&](std::size_t d, std::size_t k, std::size_t m) {
      return std::log(model.pools.pool(id, d)[k * M + m]);
    };
    const auto mean = [&](auto value, std::size_t d0, std::size_t d1, std::size_t k0, std::size_t k1,
                          std::size_t m0, std::size_t m1) {
      double sum = 0;
      double n = 0;
      for (std::size_t d = d0; d < d1; ++d) {
        for (std::size_t k = k0; k < k1; ++k) {
          for (std::size_t m = m0; m < m1; ++m) sum += value(d, k, m), ++n;
        }
      }
      return sum / n;
    };
    const double mu = mean(x, 0, D, 0, K, 0, M);
    for (std::size_t d = 0; d < D; ++d) r[d] = mean(x, d, d + 1, 0, K, 0, M) - mu;
    for (std::size_t k = 0; k < K; ++k) S[k] = mean(x, 0, D, k, k + 1, 0, M) - mu;
    const auto q = [&](std::size_t d, std::size_t k) {
      return mean(x, d, d + 1, k, k + 1, 0, M) - mu - r[d] - S[k];
    };
    const auto pos = [&](std::size_t m) { return mean(x, 0, D, 0, K, m, m + 1) - mu; };
    const auto number = [](std::size_t n) { return static_cast<double>(n); };
    for (std::size_t k = 0; k < K; ++k) v_S += S[k] * S[k] / (number(K) - 1);
    for (std::size_t d = 0; d < D; ++d) v_r += D > 1 ? r[d] * r[d] / (number(D) - 1) : 0;
    for (std::size_t d = 0; d < D; ++d) {
      for (std::size_t k = 0; k < K; ++k) {
        if (D > 1) v_q += q(d, k) * q(d, k) / ((number(K) - 1) * (number(D) - 1));
        for (std::size_t m = 0; m < M; ++m) {
          const double e = x(d, k, m) - mu - r[d] - S[k] - q(d, k) - pos(m);
          if (M > 1) v_e += e * e / ((number(M) - 1) * (number(K) * number(D) - 1));
        }
      }
    }
  }
};

double sd(double variance) {
  return std::sqrt(std::max(0.0, variance));
}

TEST(StepEffects, EqualTheFormulasWrittenOut) {
  StepModel model = empty_model(3, 7);
  add_class(model, 4, {.step = 0.2, .rank = 0.1, .cell = 0.05, .residual = 0.1});
  add_class(model, 2, {.step = 0.1, .rank = 0.0, .cell = 0.2, .residual = 0.3});
  add_class(model, 1, {.step = 0.3, .rank = 0.5, .cell = 0.1});
  const StepEffects effects = estimate_step_effects(model);
  ASSERT_EQ(effects.components.size(), 3U);
  double noise_sum = 0;
  double step_sum = 0;
  for (std::size_t c = 0; c < 3; ++c) {
    const Direct direct(model, ClassId(c));
    ASSERT_EQ(effects.effect[ClassId(c)].size(), 7U);
    for (std::size_t k = 0; k < 7; ++k) {
      EXPECT_NEAR(effects.effect[ClassId(c)][k], direct.S[k], 1e-13) << "class " << c << ", step " << k;
    }
    const ClassComponents& parts = effects.components[c];
    EXPECT_EQ(parts.duration_class, ClassId(c));
    EXPECT_NEAR(parts.rank_sd, sd(direct.v_r - direct.v_q / 7), 1e-12);
    EXPECT_NEAR(parts.step_sd, sd(direct.v_S - direct.v_q / 3), 1e-12);
    EXPECT_NEAR(parts.cell_sd, sd(direct.v_q - direct.v_e / static_cast<double>(direct.M)), 1e-12);
    EXPECT_NEAR(parts.residual_sd, sd(direct.v_e), 1e-12);
    EXPECT_NEAR(parts.tests.step, direct.v_S / (direct.v_q / 3), 1e-9 * parts.tests.step);
    EXPECT_NEAR(parts.tests.rank, direct.v_r / (direct.v_q / 7), 1e-9 * parts.tests.rank);
    noise_sum += direct.v_q / 3;
    step_sum += direct.v_S;
  }
  EXPECT_NEAR(effects.share, std::sqrt(std::max(0.0, 1 - noise_sum / step_sum)), 1e-12);
  EXPECT_GT(effects.share, 0.5);
  EXPECT_LT(effects.share, 1);
}

TEST(StepEffects, ShareIsNearOneForACommonEffectAndSmallForNone) {
  StepModel common = empty_model(8, 40);
  for (int c = 0; c < 4; ++c) add_class(common, 4, {.step = 0.1, .residual = 0.01});
  EXPECT_GT(estimate_step_effects(common).share, 0.99);
  StepModel none = empty_model(8, 40);
  for (int c = 0; c < 4; ++c) add_class(none, 4, {.cell = 0.1, .residual = 0.01});
  // Sum of v_q/D over sum of v_S is 1 on average, its spread about sqrt(2/(39 * 4)) = 0.11; the square root
  // of a lucky 0.3 is 0.55.
  EXPECT_LT(estimate_step_effects(none).share, 0.55);
}

// With one replica a cell and a step cannot be told apart.
TEST(StepEffects, ShareOfOneReplicaIsOne) {
  StepModel model = empty_model(1, 6);
  const ClassId id = add_class(model, 3, {.step = 0.1, .residual = 0.2});
  const StepEffects effects = estimate_step_effects(model);
  EXPECT_EQ(effects.share, 1);
  const Direct direct(model, id);
  for (std::size_t k = 0; k < 6; ++k) EXPECT_NEAR(effects.effect[id][k], direct.S[k], 1e-13);
}

TEST(StepEffects, OnlyPositiveComputeOfAMicrosecondHasAFactor) {
  StepModel model = empty_model(2, 5);
  const ClassId compute = add_class(model, 2, {.step = 0.1, .cell = 0.1});
  const ClassId reduction = add_class(model, 1, {.step = 0.1, .cell = 0.1}, Category::Collective);
  const ClassId zero = add_class(model, 2, {.step = 0.1, .cell = 0.1});
  model.pools.values_ns[model.pools.classes[zero].offset + 3] = 0;
  const ClassId negative = add_class(model, 2, {.step = 0.1, .cell = 0.1});
  model.pools.values_ns[model.pools.classes[negative].offset] = -5;
  const ClassId tiny = add_class(model, 1, {.step = 0.001}, Category::Compute, 998);
  const ClassId small = add_class(model, 1, {.step = 0.001}, Category::Compute, 1002);
  const StepEffects effects = estimate_step_effects(model);
  EXPECT_EQ(effects.effect[compute].size(), 5U);
  EXPECT_EQ(effects.effect[small].size(), 5U);
  for (const ClassId id : {reduction, zero, negative, tiny}) {
    EXPECT_TRUE(effects.effect[id].empty()) << model.pools.classes[id].key;
  }
  ASSERT_EQ(effects.components.size(), 2U);
}

TEST(StepEffects, PlainPoolsHaveNone) {
  StepModel model;
  model.pools.add({.key = "plain", .per_replica = false}, std::array{1e6, 2e6}, 1);
  const StepEffects effects = estimate_step_effects(model);
  EXPECT_TRUE(effects.components.empty());
  EXPECT_TRUE(effects.effect[ClassId(0)].empty());
}

// One profiled step shows no step effect; nothing may become NaN, for a replay uses the model.
TEST(StepEffects, OneStepHasNone) {
  StepModel model = empty_model(3, 1);
  const ClassId id = add_class(model, 2, {.rank = 0.1, .residual = 0.1});
  const StepEffects effects = estimate_step_effects(model);
  EXPECT_TRUE(std::isfinite(effects.share));
  ASSERT_EQ(effects.effect[id].size(), 1U);
  EXPECT_NEAR(effects.effect[id][0], 0, 1e-14);
}

// --- kernel level
// ----------------------------------------------------------------------------------------------------

/// `cells` ranks with two compute classes of three kernels each and a class of host work. A kernel takes
/// around 1 ms, less by `log(rank, step)`.
template <class Log>
StepModel kernel_model(std::size_t cells, std::size_t steps, const Log& log) {
  StepModel model = empty_model(1, steps);
  model.cells = model.template_ranks = static_cast<std::uint32_t>(cells);
  StepGraphBuilder builder;
  for (std::size_t rank = 0; rank < cells; ++rank) {
    for (const Category category : {Category::Compute, Category::Compute, Category::HostWork}) {
      std::vector<double> values;
      for (std::size_t k = 0; k < steps; ++k) {
        for (std::size_t m = 0; m < 3; ++m) {
          values.push_back(1e6 * static_cast<double>(m + 1) * std::exp(log(rank, k)));
        }
      }
      const auto number = static_cast<std::int32_t>(rank);
      const ClassId id = model.pools.add({.category = category, .rank = number, .members = 3}, values, 1);
      for (std::uint32_t m = 0; m < 3; ++m) {
        model.nodes.push_back({.rank = number, .cell = number, .duration_class = id, .member = m});
        builder.add_node();
      }
    }
  }
  model.graph = builder.build("", [](std::uint32_t) { return ""; }).graph;
  return model;
}

// All kernels of a cell and step share one factor, so the log of their sum is that of a class of one member.
TEST(KernelLevelEffects, AreOfTheTotalComputeOfEachCellAndStep) {
  const auto log = [](std::size_t rank, std::size_t k) {
    return 0.1 * noise(1, 0, k) + 0.2 * noise(2, rank, 0) + 0.05 * noise(3, rank, k);
  };
  const StepEffects effects = estimate_step_effects(kernel_model(4, 9, log));
  StepModel totals = empty_model(4, 9);
  std::vector<double> values;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    for (std::size_t k = 0; k < 9; ++k) values.push_back(12e6 * std::exp(log(rank, k)));
  }
  const ClassId id = totals.pools.add({.key = "total"}, values, 4);
  const Direct direct(totals, id);
  ASSERT_EQ(effects.common.size(), 9U);
  for (std::size_t k = 0; k < 9; ++k) EXPECT_NEAR(effects.common[k], direct.S[k], 1e-12) << "step " << k;
  EXPECT_NEAR(effects.share, std::sqrt(std::max(0.0, 1 - direct.v_q / 4 / direct.v_S)), 1e-12);
  ASSERT_EQ(effects.components.size(), 1U);
  EXPECT_FALSE(effects.components[0].duration_class.has_value());
  EXPECT_NEAR(effects.components[0].rank_sd, sd(direct.v_r - direct.v_q / 9), 1e-12);
}

// Every third step does twice the work: that is the step's kind and no effect to exchange.
TEST(KernelLevelEffects, AreCentredByKindOfStep) {
  StepModel model = kernel_model(3, 9, [](std::size_t rank, std::size_t k) {
    return (k % 3 == 0 ? std::log(2.0) : 0.0) + 0.1 * noise(2, rank, 0) + 0.01 * noise(1, 0, k);
  });
  EXPECT_GT(estimate_step_effects(model).common[0], 0.3);
  for (std::size_t k = 0; k < 9; ++k) model.step_kinds.push_back(k % 3 == 0 ? 5 : -5);
  const StepEffects effects = estimate_step_effects(model);
  double long_steps = 0;
  for (std::size_t k = 0; k < 9; ++k) {
    EXPECT_LT(std::abs(effects.common[k]), 0.02) << "step " << k;
    if (k % 3 == 0) long_steps += effects.common[k];
  }
  EXPECT_NEAR(long_steps, 0, 1e-12);
}

TEST(KernelLevelEffects, OfOneTracedCellAreCommonUntilItIsExtended) {
  StepModel model = kernel_model(1, 6, [](std::size_t, std::size_t k) { return 0.1 * noise(1, 0, k); });
  EXPECT_EQ(estimate_step_effects(model).share, 1);
  model.traced_replicas = 1;
  model.replicas = 4;
  EXPECT_EQ(estimate_step_effects(model).share, 0) << "nothing says that copies are slow together";
}

// Host work and lags make a model one of kernels, also of one rank.
TEST(KernelLevel, IsToldFromCellsAndCategories) {
  StepModel model = empty_model(2, 5);
  add_class(model, 2, {});
  add_class(model, 1, {}, Category::LaunchDelay);
  EXPECT_FALSE(is_kernel_level(model));
  model.cells = 2;
  EXPECT_TRUE(is_kernel_level(model));
  model.cells = 1;
  add_class(model, 1, {}, Category::QueueLag);
  EXPECT_TRUE(is_kernel_level(model));
}

double coupling_of(MadeJobSpec spec) {
  spec.dp = 3;
  spec.pp = 2;
  spec.microbatches = 6;
  spec.steps = 20;
  ImportReport report;
  return microbatch_coupling(build_step_model(
      std::make_shared<RecordedJob>(align(make_job(spec).timeline, report)), LaunchDelays::Off, report));
}

// 3 replicas x 20 steps x 6 microbatches: a correlation of independent residuals is 0 +- 0.06, the mean of
// six of them within 0.1 with certainty.
TEST(MicrobatchCoupling, IsNearOneForContentAndNearZeroForIndependentOps) {
  EXPECT_GT(coupling_of({.content_sd = 0.2, .residual_sd = 0.01}), 0.99);
  EXPECT_NEAR(coupling_of({.residual_sd = 0.1}), 0, 0.1);
  // Half of the variance is content's: correlation 1/2, +- 0.05.
  EXPECT_NEAR(coupling_of({.content_sd = 0.1, .residual_sd = 0.1}), 0.5, 0.15);
  // What is common to a cell is not coupling of its microbatches.
  EXPECT_NEAR(coupling_of({.step_sd = 0.2, .rank_sd = 0.2, .residual_sd = 0.1}), 0, 0.1);
}

TEST(MicrobatchCoupling, NeedsTwoClasses) {
  StepModel model = empty_model(2, 5);
  add_class(model, 4, {.residual = 0.1});
  EXPECT_TRUE(std::isnan(microbatch_coupling(model)));
}

TEST(SamplingNames, ReadBack) {
  for (const Sampling sampling : kSamplingModels) {
    EXPECT_EQ(sampling_from_name(sampling_name(sampling)), sampling);
  }
  EXPECT_EQ(kSamplingModels.front(), Sampling::Hierarchical);
  EXPECT_FALSE(sampling_from_name("recorded")) << "not for users to name";
  EXPECT_FALSE(sampling_from_name(""));
  EXPECT_FALSE(sampling_from_name("IID"));
}

}  // namespace
}  // namespace prism
