// SPDX-License-Identifier: Apache-2.0
#include "prism/stats/variance.hpp"

#include <cmath>
#include <numeric>
#include <random>

#include <boost/math/distributions/fisher_f.hpp>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace prism {
namespace {

/// Standard deviations of the effects of made-up data.
struct Spread {
  double step = 0, rank = 0, cell = 0, residual = 0;
};

std::vector<double> made_up(VarianceShape shape, Spread spread, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  std::vector<double> step(shape.steps);
  for (double& effect : step) effect = spread.step * normal(engine);
  std::vector<double> x;
  for (std::size_t d = 0; d < shape.replicas; ++d) {
    const double rank = spread.rank * normal(engine);
    for (std::size_t k = 0; k < shape.steps; ++k) {
      const double cell = spread.cell * normal(engine);
      for (std::size_t m = 0; m < shape.members; ++m) {
        const double position = 0.1 * static_cast<double>(m % 3);
        x.push_back(12 + rank + step[k] + cell + position + spread.residual * normal(engine));
      }
    }
  }
  return x;
}

/// Mean of the x whose indices match; a negative index matches all. Slow, but the formulas can be read off.
class Naive {
 public:
  Naive(const std::vector<double>& x, VarianceShape shape) : x_(x), shape_(shape) {}

  [[nodiscard]] double mean(int d, int k, int m) const {
    double sum = 0;
    double count = 0;
    for (std::size_t i = 0; i < x_.size(); ++i) {
      const bool matches =
          (d < 0 || index_d(i) == d) && (k < 0 || index_k(i) == k) && (m < 0 || index_m(i) == m);
      if (!matches) continue;
      sum += x_[i];
      count += 1;
    }
    return sum / count;
  }
  [[nodiscard]] double mu() const { return mean(-1, -1, -1); }
  [[nodiscard]] double r(int d) const { return mean(d, -1, -1) - mu(); }
  [[nodiscard]] double s(int k) const { return mean(-1, k, -1) - mu(); }
  [[nodiscard]] double q(int d, int k) const { return mean(d, k, -1) - mu() - r(d) - s(k); }
  [[nodiscard]] double e(std::size_t i) const {
    const int d = index_d(i), k = index_k(i), m = index_m(i);
    return x_[i] - mu() - r(d) - s(k) - q(d, k) - (mean(-1, -1, m) - mu());
  }

 private:
  [[nodiscard]] int index_d(std::size_t i) const {
    return static_cast<int>(i / shape_.members / shape_.steps);
  }
  [[nodiscard]] int index_k(std::size_t i) const {
    return static_cast<int>(i / shape_.members % shape_.steps);
  }
  [[nodiscard]] int index_m(std::size_t i) const { return static_cast<int>(i % shape_.members); }

  const std::vector<double>& x_;
  VarianceShape shape_;
};

double ratio_or_zero(double a, double b) {
  return b > 0 ? a / b : 0;
}

RC_GTEST_PROP(Variance, EqualsTheFormulas, ()) {
  const auto size = [] { return static_cast<std::size_t>(*rc::gen::inRange(1, 5)); };
  const VarianceShape shape{size(), size(), size()};
  const auto x = made_up(shape, {0.3, 0.2, 0.1, 0.2}, *rc::gen::arbitrary<std::uint64_t>());
  const VarianceComponents got = variance_components(x, shape);
  const Naive naive(x, shape);
  const auto near = [](double a, double b) { return std::abs(a - b) < 1e-12; };
  const auto d_count = static_cast<int>(shape.replicas);
  const auto k_count = static_cast<int>(shape.steps);
  const auto m_count = static_cast<int>(shape.members);

  double ss = 0, rr = 0, qq = 0, ee = 0;
  for (int k = 0; k < k_count; ++k) {
    ss += naive.s(k) * naive.s(k);
    RC_ASSERT(near(got.step_effect[static_cast<std::size_t>(k)], naive.s(k)));
  }
  for (int d = 0; d < d_count; ++d) {
    rr += naive.r(d) * naive.r(d);
    RC_ASSERT(near(got.rank_effect[static_cast<std::size_t>(d)], naive.r(d)));
    for (int k = 0; k < k_count; ++k) qq += naive.q(d, k) * naive.q(d, k);
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    ee += naive.e(i) * naive.e(i);
    RC_ASSERT(near(got.residual[i], naive.e(i)));
  }
  RC_ASSERT(near(got.mu, naive.mu()));
  RC_ASSERT(near(got.v_step, ratio_or_zero(ss, k_count - 1)));
  RC_ASSERT(near(got.v_rank, ratio_or_zero(rr, d_count - 1)));
  RC_ASSERT(near(got.v_cell, ratio_or_zero(qq, (k_count - 1) * (d_count - 1))));
  RC_ASSERT(near(got.v_residual, ratio_or_zero(ee, (m_count - 1) * (k_count * d_count - 1))));
}

// The corrected components of sampling.md, section 4, against the truth, averaged over 300 made-up data sets:
// the spread of an estimated variance with f degrees of freedom is sqrt(2/f), so 3 % for 300 * 9 of the
// scarcest.
TEST(Variance, RecoversKnownComponents) {
  const VarianceShape shape{10, 20, 5};
  const Spread truth{.step = 0.03, .rank = 0.05, .cell = 0.02, .residual = 0.04};
  const auto d = static_cast<double>(shape.replicas);
  const auto k = static_cast<double>(shape.steps);
  const auto m = static_cast<double>(shape.members);
  constexpr int kSets = 300;
  Spread mean_variance;
  for (std::uint64_t seed = 0; seed < kSets; ++seed) {
    const VarianceComponents v = variance_components(made_up(shape, truth, seed), shape);
    mean_variance.step += (v.v_step - v.v_cell / d) / kSets;
    mean_variance.rank += (v.v_rank - v.v_cell / k) / kSets;
    mean_variance.cell += (v.v_cell - v.v_residual / m) / kSets;
    mean_variance.residual += v.v_residual / kSets;
  }
  EXPECT_NEAR(std::sqrt(mean_variance.step), truth.step, 0.04 * truth.step);
  EXPECT_NEAR(std::sqrt(mean_variance.rank), truth.rank, 0.04 * truth.rank);
  EXPECT_NEAR(std::sqrt(mean_variance.cell), truth.cell, 0.04 * truth.cell);
  EXPECT_NEAR(std::sqrt(mean_variance.residual), truth.residual, 0.01 * truth.residual);
}

TEST(FTests, FindWhatIsThereAndNothingElse) {
  const VarianceShape shape{8, 30, 6};
  const auto tests = [&](Spread spread) {
    return f_tests(variance_components(made_up(shape, spread, 5), shape), shape);
  };
  const FTests step = tests({.step = 1, .residual = 1});
  EXPECT_GT(step.step, step.step_limit);
  EXPECT_LT(step.rank, step.rank_limit);
  EXPECT_LT(step.cell, step.cell_limit);
  const FTests rank = tests({.rank = 1, .residual = 1});
  EXPECT_LT(rank.step, rank.step_limit);
  EXPECT_GT(rank.rank, rank.rank_limit);
  const FTests cell = tests({.cell = 1, .residual = 1});
  EXPECT_GT(cell.cell, cell.cell_limit);
}

// Under no effect each statistic exceeds its limit in 1 - level of the cases: 5 % +- 2 (four standard
// errors).
TEST(FTests, LevelBySimulation) {
  const VarianceShape shape{4, 12, 3};
  constexpr int kSets = 2000;
  int step = 0, rank = 0, cell = 0;
  for (std::uint64_t seed = 0; seed < kSets; ++seed) {
    const FTests f = f_tests(variance_components(made_up(shape, {.residual = 1}, seed), shape), shape, 0.95);
    step += f.step > f.step_limit ? 1 : 0;
    rank += f.rank > f.rank_limit ? 1 : 0;
    cell += f.cell > f.cell_limit ? 1 : 0;
  }
  EXPECT_NEAR(step, 0.05 * kSets, 0.02 * kSets);
  EXPECT_NEAR(rank, 0.05 * kSets, 0.02 * kSets);
  EXPECT_NEAR(cell, 0.05 * kSets, 0.02 * kSets);
}

TEST(FTests, UndefinedWithoutFreedom) {
  const VarianceShape one_replica{1, 5, 4};
  const VarianceComponents v = variance_components(made_up(one_replica, {1, 1, 1, 1}, 3), one_replica);
  EXPECT_EQ(v.v_rank, 0);
  EXPECT_EQ(v.v_cell, 0);
  EXPECT_GT(v.v_step, 0);
  EXPECT_GT(v.v_residual, 0);
  const FTests f = f_tests(v, one_replica);
  for (const double value : {f.step, f.rank, f.cell, f.step_limit, f.rank_limit, f.cell_limit}) {
    EXPECT_TRUE(std::isnan(value)) << value;
  }
  const VarianceShape one_member{3, 5, 1};
  const FTests g = f_tests(variance_components(made_up(one_member, {1, 1, 1, 1}, 3), one_member), one_member);
  EXPECT_TRUE(std::isnan(g.cell) && std::isnan(g.cell_limit)) << g.cell << ' ' << g.cell_limit;
  EXPECT_FALSE(std::isnan(g.step) || std::isnan(g.rank)) << g.step << ' ' << g.rank;
}

// Printed F tables, 95 % and 99 %.
TEST(FQuantile, Tables) {
  EXPECT_NEAR(f_quantile(0.95, 3, 10), 3.708, 5e-4);
  EXPECT_NEAR(f_quantile(0.99, 3, 10), 6.552, 5e-4);
  EXPECT_NEAR(f_quantile(0.99, 1, 1), 4052.2, 0.05);
  EXPECT_NEAR(f_quantile(0.95, 30, 120), 1.554, 5e-4);
  EXPECT_TRUE(std::isnan(f_quantile(0.99, 0, 5)));
  EXPECT_TRUE(std::isnan(f_quantile(0.99, 5, 0)));
  EXPECT_NEAR(cdf(boost::math::fisher_f(31, 93), f_quantile(0.99, 31, 93)), 0.99, 1e-9);
}

TEST(Pearson, Known) {
  using Values = std::vector<double>;
  EXPECT_DOUBLE_EQ(pearson(Values{1, 2, 3}, Values{2, 4, 6}), 1);
  EXPECT_DOUBLE_EQ(pearson(Values{1, 2, 3}, Values{6, 4, 2}), -1);
  EXPECT_DOUBLE_EQ(pearson(Values{1, 2, 3, 4}, Values{1, 3, 2, 4}), 0.8);
  EXPECT_TRUE(std::isnan(pearson(Values{0.1, 0.1, 0.1}, Values{1, 2, 3})));
  EXPECT_TRUE(std::isnan(pearson(Values{}, Values{})));
}

}  // namespace
}  // namespace prism
