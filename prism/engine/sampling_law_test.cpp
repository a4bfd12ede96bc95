// SPDX-License-Identifier: Apache-2.0
// Simulated step times against laws known in closed form. Seeds are fixed; each tolerance is a level and a
// sample size: 5 standard errors is a level of 6e-7, and the comment says how small an error it would find.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "prism/engine/simulate.hpp"
#include "tests/text_graph.hpp"

namespace prism {
namespace {

constexpr double kStandardErrors = 5;

/// Central moments of a law that gives each value the same weight.
struct Law {
  double mean = 0;
  double variance = 0;
  double fourth_cumulant = 0;

  explicit Law(const std::vector<double>& values) {
    const auto n = static_cast<double>(values.size());
    for (const double v : values) mean += v / n;
    double fourth = 0;
    for (const double v : values) {
      variance += std::pow(v - mean, 2) / n;
      fourth += std::pow(v - mean, 4) / n;
    }
    fourth_cumulant = fourth - 3 * variance * variance;
  }
};

std::vector<double> iid_samples(const StepModel& model, std::uint32_t count, std::uint32_t seed) {
  return Simulation(model, Sampling::Iid, {}).step_times_ns(seed, 0, count, {});
}

void expect_near(double calculated, double expected, double standard_error, const std::string& what) {
  EXPECT_NEAR(calculated, expected, kStandardErrors * standard_error)
      << what << ": calculated " << calculated << ", expected " << expected << ", tolerance "
      << kStandardErrors * standard_error << " (z " << (calculated - expected) / standard_error << ")";
}

/// Kolmogorov's distance at which a sample of n from the law itself is found with probability 1e-6 (or less,
/// for a law with atoms).
double ks_limit(std::size_t n) {
  return std::sqrt(std::log(2 / 1e-6) / 2 / static_cast<double>(n));
}

/// Distance of samples from a law with atoms, given as value -> P(X <= value). Every sample must be an atom.
double ks_distance(std::vector<double> samples, const std::map<double, double>& law) {
  std::ranges::sort(samples);
  double distance = 0;
  for (const auto& [value, below] : law) {
    const auto up_to = std::ranges::upper_bound(samples, value) - samples.begin();
    distance = std::max(distance,
                        std::abs(static_cast<double>(up_to) / static_cast<double>(samples.size()) - below));
  }
  for (const double s : samples) EXPECT_TRUE(law.contains(s)) << s << " is no value of the law";
  return distance;
}

//   a -> b -> c -> d        four laws that differ in size and shape
//
// 200,000 samples: the mean's standard error is 0.1 % of it, the variance's 0.4 %.
TEST(SamplingLaw, MeansAndVariancesAddAlongAChain) {
  const std::map<std::string, std::vector<double>> pools = {
      {"a", {1, 2, 3, 4, 100}}, {"b", {50, 51, 53, 57, 65, 81}}, {"c", {0, 0, 0, 200}}, {"d", {7}}};
  const StepModel model = sketch("a -> b -> c -> d", 1, pools).model();
  constexpr std::uint32_t kSamples = 200'000;
  const Law measured(iid_samples(model, kSamples, 1));
  double mean = 0;
  double variance = 0;
  double fourth_cumulant = 0;  // cumulants add, too
  for (const auto& [name, values] : pools) {
    const Law law(values);
    mean += law.mean;
    variance += law.variance;
    fourth_cumulant += law.fourth_cumulant;
  }
  expect_near(measured.mean, mean, std::sqrt(variance / kSamples), "mean");
  expect_near(measured.variance, variance, std::sqrt((fourth_cumulant + 2 * variance * variance) / kSamples),
              "variance");
}

// The same over many random chains: the z scores are themselves a sample of the normal law.
TEST(SamplingLaw, RandomChainsHaveNormalErrors) {
  constexpr std::uint32_t kChains = 50;
  constexpr std::uint32_t kSamples = 4000;
  double sum_of_squares = 0;
  for (std::uint32_t seed = 0; seed < kChains; ++seed) {
    Sketch chain = random_sketch(seed, {.ops = 8});
    chain.edges.clear();
    for (std::uint32_t i = 1; i < 8; ++i) chain.edges.emplace_back(i - 1, i);
    for (Node& op : chain.ops) op.draw_id = op.id;  // independent
    double mean = 0;
    double variance = 0;
    for (const Node& op : chain.ops) {
      if (op.kind == NodeKind::Join) continue;
      const auto pool = chain.pools.pool(op.duration_class, 0);
      const Law law({pool.begin(), pool.end()});
      mean += law.mean;
      variance += law.variance;
    }
    if (variance == 0) continue;
    const Law measured(iid_samples(chain.model(), kSamples, seed));
    const double z = (measured.mean - mean) / std::sqrt(variance / kSamples);
    EXPECT_LT(std::abs(z), kStandardErrors) << "seed " << seed;
    sum_of_squares += z * z;
  }
  // Chi-square with 50 degrees of freedom: mean 50, standard deviation 10.
  EXPECT_GT(sum_of_squares, 15);
  EXPECT_LT(sum_of_squares, 110);
}

/// The quantiles of the exponential law of mean 1 at (i + 1/2)/n.
std::vector<double> exponential_pool(int n) {
  std::vector<double> pool;
  for (int i = 0; i < n; ++i) pool.push_back(-std::log1p(-(i + 0.5) / n));
  return pool;
}

//   w0 --.
//   ...  --> end          mean of the maximum of n exponentials: 1 + 1/2 + ... + 1/n, variance 1 + 1/4 + ...
//   + 1/n^2 w7 --'
//
// 200,000 samples: standard error 0.1 % of the mean. The pool of 4,000 quantiles is off by less than 1e-3.
TEST(SamplingLaw, MeanOfTheMaximumOfExponentialsIsAHarmonicNumber) {
  constexpr std::uint32_t kSamples = 200'000;
  const std::vector<double> pool = exponential_pool(4000);
  for (const int n : {1, 2, 8}) {
    std::string text;
    std::map<std::string, std::vector<double>> pools;
    double mean = 0;
    double variance = 0;
    for (int i = 0; i < n; ++i) {
      text += "w" + std::to_string(i) + " -> end;";
      pools["w" + std::to_string(i)] = pool;
      mean += 1.0 / (i + 1);
      variance += 1.0 / (i + 1) / (i + 1);
    }
    const Law measured(iid_samples(sketch(text, 1, pools).model(), kSamples, 2));
    const double standard_error = std::sqrt(variance / kSamples);
    EXPECT_NEAR(measured.mean, mean, kStandardErrors * standard_error + 1e-3)
        << n << " exponentials, " << kSamples << " samples, seed 2";
    // The fourth cumulant of the maximum is 6 (1 + 1/2^4 + ...) at most 6.5; its tail beyond the last
    // quantile is missing.
    EXPECT_NEAR(measured.variance, variance,
                kStandardErrors * std::sqrt((6.5 + 2 * variance * variance) / kSamples) + 0.01);
  }
}

//   op -> meet       over D replicas: P(step <= x) = F(x)^D
//
// 20,000 samples: level 1e-6 is a distance of 0.019.
TEST(SamplingLaw, MaximumOfReplicasHasTheLawToThePowerOfD) {
  constexpr std::uint32_t kReplicas = 8;
  std::vector<double> pool;
  for (int i = 0; i < 100; ++i) pool.push_back(1000 + 7.25 * i * i);
  std::map<double, double> law;
  for (std::size_t i = 0; i < pool.size(); ++i) {
    law[pool[i]] = std::pow(static_cast<double>(i + 1) / 100, kReplicas);
  }
  const StepModel model = sketch("op -> meet*8", kReplicas, {{"op", pool}}).model();
  const auto samples = iid_samples(model, 20'000, 3);
  EXPECT_LT(ks_distance(samples, law), ks_limit(samples.size()));
}

// Replicas with laws of their own, under the hierarchical rule with independent replicas: the product of
// their laws.
TEST(SamplingLaw, MaximumOfUnequalReplicasHasTheProductOfTheirLaws) {
  constexpr std::uint32_t kReplicas = 5;
  constexpr std::uint32_t kSteps = 20;
  Sketch job = sketch("op -> meet*5", kReplicas);
  job.steps = kSteps;
  std::vector<double> values;
  for (std::uint32_t d = 0; d < kReplicas; ++d) {
    for (std::uint32_t k = 0; k < kSteps; ++k)
      values.push_back(1e6 + 1000.0 * d + 77.0 * (k * 7 % kSteps) * (d + 1));
  }
  Node& op = job.ops[job.find("op")];
  op.kind = NodeKind::Op;
  op.duration_class = job.pools.add({.key = "op"}, values, kReplicas);
  const StepModel model = job.model();
  StepEffects effects{.share = 0};
  effects.effect = {IdVector<ClassId, std::vector<double>>(1, std::vector<double>(kSteps, 0.1))};
  std::map<double, double> law;
  for (const double x : values) {
    law[x] = 1;
    for (std::uint32_t d = 0; d < kReplicas; ++d) {
      const auto pool = model.pools.pool(op.duration_class, d);
      law[x] *= static_cast<double>(std::ranges::count_if(pool, [&](double v) { return v <= x; })) / kSteps;
    }
  }
  const auto samples = Simulation(model, Sampling::Hierarchical, effects).step_times_ns(4, 0, 20'000, {});
  EXPECT_LT(ks_distance(samples, law), ks_limit(samples.size()));
}

//   op -> meet{2}     pairs of neighbours wait for each other, and the step for the slowest pair: F^4 again,
//                     but one random number per pair where the draw is shared: F^2
TEST(SamplingLaw, SharedDrawsCountOnce) {
  std::vector<double> pool;
  for (int i = 0; i < 50; ++i) pool.push_back(100 + i);
  for (const std::uint32_t sharing : {1U, 2U, 4U}) {
    Sketch job = sketch("op -> meet*2", 4, {{"op", pool}});
    job.ops[job.find("op")].draw_group = {sharing, 1};
    std::map<double, double> law;
    for (std::size_t i = 0; i < pool.size(); ++i) {
      law[pool[i]] = std::pow(static_cast<double>(i + 1) / 50, 4 / sharing);
    }
    const auto samples = iid_samples(job.model(), 20'000, 5);
    EXPECT_LT(ks_distance(samples, law), ks_limit(samples.size())) << sharing << " replicas share a draw";
  }
}

}  // namespace
}  // namespace prism
