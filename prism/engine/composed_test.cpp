// SPDX-License-Identifier: Apache-2.0
// Composed durations: bits against the reference and on all levels, laws against their closed forms.
#include <algorithm>
#include <cmath>
#include <vector>

#include <boost/math/distributions/lognormal.hpp>
#include <boost/math/distributions/normal.hpp>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "prism/engine/reference.hpp"
#include "prism/engine/simulate.hpp"
#include "prism/model/every_rank.hpp"
#include "prism/stats/distance.hpp"
#include "prism/stats/law_pool.hpp"

namespace prism {
namespace {

/// Builds small composed models node by node.
class Builder {
 public:
  explicit Builder(std::uint32_t replicas, std::uint32_t ranks = 4) {
    model.source = "made";
    model.replicas = replicas;
    model.template_ranks = ranks;
    for (std::uint32_t i = 0; i < replicas * ranks; ++i) {
      model.rank_ids.push_back(i * 7 % (replicas * ranks * 8));
      model.host_ids.push_back(i / 3);
    }
  }

  ClassId add_class(OwnDraw own, double sigma, std::vector<FactorId> factors,
                    Category category = Category::Compute) {
    DurationClass c{.key = "made",
                    .category = category,
                    .per_replica = false,
                    .own = own,
                    .sigma = sigma,
                    .factors = std::move(factors)};
    if (own == OwnDraw::Pool) return model.pools.add(c, law_pool({NormalLaw{1, 0.2}}, 100), 1);
    return model.pools.add(c, {}, 1);
  }
  FactorId add_factor(FactorScope scope, Law law, double probability = 1) {
    return model.factors.push_back({.name = "made",
                                    .scope = scope,
                                    .draw_id = model.factors.size() / 2,
                                    .law = law,
                                    .probability = probability});
  }
  std::uint32_t add(ClassId c, double base, std::int32_t rank, ReplicaGroup group = {}) {
    Node node{.rank = rank,
              .microbatch = static_cast<std::int32_t>(nodes.size() % 3),
              .id = nodes.size() + 1,
              .draw_id = nodes.size() + 1,
              .draw_group = group,
              .duration_class = c,
              .base_ns = base,
              .link = static_cast<std::int32_t>(nodes.size() % 5)};
    nodes.push_back(node);
    return graph.add_node(group);
  }
  StepModel take() {
    auto built = graph.build("made", [](std::uint32_t i) { return std::to_string(i); });
    model.graph = std::move(built.graph);
    model.nodes = IdVector<NodeId, Node>(nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) model.nodes[built.node_of[i]] = nodes[i];
    return std::move(model);
  }

  StepModel model;
  StepGraphBuilder graph;
  std::vector<Node> nodes;
};

std::vector<double> sample(const StepModel& model, std::uint32_t n, std::optional<SimdLevel> level = {}) {
  const Simulation simulation(model, Sampling::Iid, {});
  RunControl control;
  control.threads = 1;
  return level ? simulation.step_times_ns(3, 0, n, control, *level)
               : simulation.step_times_ns(3, 0, n, control);
}

StepModel random_model() {
  const auto replicas = *rc::gen::element<std::uint32_t>(1, 2, 4, 6);
  Builder b(replicas);
  const Law narrow{LognormalLaw{.mu = -0.005, .sigma = 0.1}};
  const std::vector<FactorId> factors = {
      b.add_factor(FactorScope::Rank, narrow),
      b.add_factor(FactorScope::Rank, {NormalLaw{1, 0.05}}),
      b.add_factor(FactorScope::Host, narrow),
      b.add_factor(FactorScope::Step, {ConstantLaw{2}}, 0.3),
      b.add_factor(FactorScope::Link, {GammaLaw{.shape = 4, .scale = 0.25}}),
      b.add_factor(FactorScope::Microbatch, narrow)};
  if (*rc::gen::arbitrary<bool>()) b.model.factors[factors[0]].once = true;
  if (*rc::gen::arbitrary<bool>()) b.model.factors[factors[1]].values = {0.5, 1, 1.5};
  if (*rc::gen::arbitrary<bool>()) b.model.rank_factors.assign(replicas * 4UL, 1.25);
  std::vector<ClassId> classes;
  for (const OwnDraw own : {OwnDraw::Constant, OwnDraw::Pool, OwnDraw::Lognormal}) {
    for (const double sigma : {0.03, 0.6}) {
      std::vector<FactorId> some;
      for (const FactorId f : factors) {
        if (*rc::gen::arbitrary<bool>()) some.push_back(f);
      }
      classes.push_back(
          b.add_class(own, sigma, some, *rc::gen::element(Category::Compute, Category::Collective)));
    }
  }
  const auto count = *rc::gen::inRange<std::uint32_t>(1, 25);
  for (std::uint32_t i = 0; i < count; ++i) {
    ReplicaGroup group;
    if (*rc::gen::inRange(0, 4) == 0) {
      group = replicas % 2 == 0 && *rc::gen::arbitrary<bool>() ? ReplicaGroup{2, replicas / 2}
                                                               : ReplicaGroup{replicas, 1};
    }
    const ClassId c = classes[*rc::gen::inRange<std::size_t>(0, classes.size())];
    b.add(c, 1000.0 + i, *rc::gen::inRange<std::int32_t>(0, 4), group);
    if (*rc::gen::inRange(0, 5) == 0 && !group.spans()) {
      b.nodes.back().base_row = static_cast<std::int32_t>(b.model.replica_bases_ns.size() / replicas);
      for (std::uint32_t d = 0; d < replicas; ++d) b.model.replica_bases_ns.push_back(500.0 * (d + 1));
    }
    for (std::uint32_t e = 0; i > 0 && e < 2; ++e)
      b.graph.add_edge(*rc::gen::inRange<std::uint32_t>(0, i), i);
  }
  return b.take();
}

RC_GTEST_PROP(ComposedProperty, AllLevelsTheReferenceAndEveryRankGiveEqualBits, ()) {
  const StepModel model = random_model();
  const std::vector<double> best = sample(model, 40);
  for (const SimdLevel level : {SimdLevel::Portable, SimdLevel::Sse4, SimdLevel::Avx2, SimdLevel::Avx512}) {
    if (sweep_kernel(level) != nullptr) RC_ASSERT(sample(model, 40, level) == best);
  }
  const StepEffects none;
  const Draws draws(model, Sampling::Iid, none);
  for (const std::uint32_t s : {0U, 7U, 33U})
    RC_ASSERT(reference_times(model, draws, 3, s).step_ns == best[s]);
  RC_ASSERT(sample(with_every_rank(model), 40) == best);
}

double ks(std::vector<double> values, const auto& cdf) {
  std::ranges::sort(values);
  double worst = 0;
  const auto n = static_cast<double>(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double p = cdf(values[i]);
    worst = std::max(
        {worst, std::abs(p - static_cast<double>(i) / n), std::abs(p - static_cast<double>(i + 1) / n)});
  }
  return worst;
}

constexpr std::uint32_t kMany = 20'000;
const double kLimit = 1.63 / std::sqrt(static_cast<double>(kMany));  // 1 % level

TEST(Composed, OwnLognormalDrawsHaveTheirLaw) {
  for (const double sigma : {0.02, 0.5}) {
    Builder b(1);
    b.add(b.add_class(OwnDraw::Lognormal, sigma, {}), 1000, 0);
    const boost::math::lognormal law(std::log(1000.0) - sigma * sigma / 2, sigma);
    EXPECT_LT(ks(sample(b.take(), kMany), [&](double x) { return cdf(law, x); }), kLimit);
  }
}

TEST(Composed, TheMaximumOfRanksHasThePowerOfTheirLaw) {
  Builder b(8);
  const ClassId c = b.add_class(OwnDraw::Lognormal, 0.1, {});
  for (std::int32_t rank = 0; rank < 4; ++rank) b.add(c, 1000, rank);
  const boost::math::lognormal law(std::log(1000.0) - 0.005, 0.1);
  EXPECT_LT(ks(sample(b.take(), kMany), [&](double x) { return std::pow(cdf(law, x), 32); }), kLimit);
}

TEST(Composed, ASharedFactorAddsToTheVarianceAsOne) {
  // 50 ops in a row, each 1 + normal noise of 0.1 by pool, all times one step factor of sd 0.03.
  Builder b(1);
  const FactorId step = b.add_factor(FactorScope::Step, {NormalLaw{1, 0.03}});
  const ClassId c = b.add_class(OwnDraw::Lognormal, 0.1, {step});
  for (std::uint32_t i = 0; i < 50; ++i) {
    b.add(c, 1000, 0);
    if (i > 0) b.graph.add_edge(i - 1, i);
  }
  const std::vector<double> times = sample(b.take(), kMany);
  double mean = 0;
  double squares = 0;
  for (const double t : times) mean += t / kMany;
  for (const double t : times) squares += (t - mean) * (t - mean) / kMany;
  const double own = std::expm1(0.01) / 50;
  EXPECT_NEAR(mean, 50'000, 50'000 * 4 * 0.033 / std::sqrt(static_cast<double>(kMany)));
  EXPECT_NEAR(std::sqrt(squares) / mean, std::sqrt(0.03 * 0.03 * (1 + own) + own), 0.03 * 0.033);
}

TEST(Composed, GpusKeepTheirSpeedOverASampleAndHostsJoinThem) {
  Builder b(1);
  const FactorId gpu = b.add_factor(FactorScope::Rank, {LognormalLaw{.mu = -0.02, .sigma = 0.2}});
  const ClassId c = b.add_class(OwnDraw::Constant, 0, {gpu});
  for (std::uint32_t i = 0; i < 10; ++i) {
    b.add(c, 100, 1);
    if (i > 0) b.graph.add_edge(i - 1, i);
  }
  const boost::math::lognormal law(std::log(1000.0) - 0.02, 0.2);
  EXPECT_LT(ks(sample(b.take(), kMany), [&](double x) { return cdf(law, x); }), kLimit);
}

TEST(Composed, RareFactorsComeAsOftenAsTheyShould) {
  Builder b(1);
  const FactorId rare = b.add_factor(FactorScope::Step, {ConstantLaw{3}}, 0.05);
  b.add(b.add_class(OwnDraw::Constant, 0, {rare}), 100, 0);
  const std::vector<double> times = sample(b.take(), kMany);
  const auto slow = std::ranges::count(times, 300.0);
  EXPECT_EQ(slow + std::ranges::count(times, 100.0), kMany);
  EXPECT_NEAR(static_cast<double>(slow) / kMany, 0.05, 4 * std::sqrt(0.05 * 0.95 / kMany));
}

}  // namespace
}  // namespace prism
