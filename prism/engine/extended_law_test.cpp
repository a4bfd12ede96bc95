// SPDX-License-Identifier: Apache-2.0
// Step times of extended models against laws known in closed form.
#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "prism/engine/simulate.hpp"
#include "prism/model/extend_replicas.hpp"
#include "tests/text_graph.hpp"

namespace prism {
namespace {

/// A traced rank: compute of its own, then a reduction over all replicas.
StepModel traced_rank(std::vector<double> compute_ns) {
  Sketch job{.steps = static_cast<std::uint32_t>(compute_ns.size())};
  const ClassId id = job.pools.add({.key = "compute"}, compute_ns, 1);
  job.add({.name = "compute", .duration_class = id});
  job.add({.kind = NodeKind::Join, .name = "meet", .over_replicas = true});
  job.edges = {{0, 1}};
  return job.model();
}

std::vector<double> samples(const StepModel& model, std::uint32_t count, std::uint32_t seed) {
  return Simulation(model, Sampling::Hierarchical, estimate_step_effects(model))
      .step_times_ns(seed, 0, count, {.threads = 1});
}

// The step is the maximum of D independent draws: P(step <= x) = F(x)^D. 20,000 samples: Kolmogorov's
// distance exceeds sqrt(log(2e6) / 2 / n) = 0.019 with probability 1e-6; D and D + 1 differ by more.
TEST(ExtendedLaw, StepIsTheLatestOfDCopies) {
  std::vector<double> pool;
  for (int k = 1; k <= 40; ++k) pool.push_back(1e6 + 1000.0 * k * k);
  for (const std::uint32_t replicas : {2U, 4U, 16U}) {
    const StepModel model = extend_replicas(traced_rank(pool), {.replicas = replicas});
    constexpr std::uint32_t kSamples = 20'000;
    std::vector<double> times = samples(model, kSamples, 3);
    std::ranges::sort(times);
    double distance = 0;
    for (std::size_t k = 0; k < pool.size(); ++k) {
      const double law = std::pow(static_cast<double>(k + 1) / 40, replicas);
      const auto below = std::ranges::upper_bound(times, pool[k]) - times.begin();
      distance = std::max(distance, std::abs(static_cast<double>(below) / kSamples - law));
    }
    EXPECT_LT(distance, 0.019) << replicas << " replicas";
  }
}

// With factors f_d, P(step <= x) = product over d of F(x / f_d).
TEST(ExtendedLaw, SlowCopiesDecideTheStep) {
  std::vector<double> pool;
  for (int k = 1; k <= 50; ++k) pool.push_back(1e6 + 2e4 * k);
  const StepModel model = extend_replicas(traced_rank(pool), {.replicas = 8, .spatial_cv = 0.2, .seed = 3});
  constexpr std::uint32_t kSamples = 20'000;
  std::vector<double> times = samples(model, kSamples, 4);
  std::ranges::sort(times);
  for (double x = 1.2e6; x < 4e6; x += 5e4) {
    double law = 1;
    for (const double factor : model.rank_factors) {
      law *= static_cast<double>(std::ranges::count_if(pool, [&](double v) { return v * factor <= x; })) / 50;
    }
    const auto below = std::ranges::upper_bound(times, x) - times.begin();
    EXPECT_NEAR(static_cast<double>(below) / kSamples, law, 0.019) << x;
  }
}

TEST(ExtendedLaw, AsManyReplicasAsTracedGiveTheSameSamples) {
  const StepModel model = random_sketch(7, {.ops = 40, .replicas = 4, .steps = 6}).model();
  EXPECT_EQ(samples(extend_replicas(model, {.replicas = 4}), 100, 1), samples(model, 100, 1));
}

TEST(ExtendedLaw, MemoryOfThePoolsDoesNotGrow) {
  const StepModel model = traced_rank({1e6, 2e6, 3e6, 4e6});
  const StepModel large = extend_replicas(model, {.replicas = 4096});
  EXPECT_EQ(large.pools.values_ns.size(), 4U);
  EXPECT_EQ(large.nodes.size(), 2U);
  // Of 4,096 copies one takes the longest step but once in 1e500.
  for (const double time : samples(large, 64, 1)) EXPECT_EQ(time, 4e6);
}

}  // namespace
}  // namespace prism
