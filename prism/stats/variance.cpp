// SPDX-License-Identifier: Apache-2.0
#include "prism/stats/variance.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>

#include <boost/math/distributions/fisher_f.hpp>

#include "prism/stats/quantiles.hpp"

namespace prism {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

struct Freedom {
  double step, rank, cell, residual;
};

Freedom degrees_of_freedom(VarianceShape shape) {
  const auto d = static_cast<double>(shape.replicas);
  const auto k = static_cast<double>(shape.steps);
  const auto m = static_cast<double>(shape.members);
  return {k - 1, d - 1, (k - 1) * (d - 1), (m - 1) * (k * d - 1)};
}

double sum_of_squares(std::span<const double> values) {
  return std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
}

/// 0 where there is nothing to estimate from; the sum is then rounding noise.
double ratio_or_zero(double sum, double freedom) {
  return freedom > 0 ? sum / freedom : 0;
}

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

VarianceComponents variance_components(std::span<const double> x, VarianceShape shape) {
  const auto [n_replicas, n_steps, n_members] = shape;
  assert(n_replicas > 0 && n_steps > 0 && n_members > 0 && x.size() == shape.size());
  const auto d_count = static_cast<double>(n_replicas);
  const auto k_count = static_cast<double>(n_steps);

  VarianceComponents result;
  result.mu = mean(x);
  result.step_effect.assign(n_steps, 0);
  result.rank_effect.assign(n_replicas, 0);
  result.residual.resize(x.size());
  std::vector<double> cell(n_replicas * n_steps);  // mean over members - mu; later q
  std::vector<double> position(n_members, 0);      // pos[m]
  for (std::size_t c = 0; c < cell.size(); ++c) {
    double sum = 0;
    for (std::size_t m = 0; m < n_members; ++m) {
      const double centered = x[c * n_members + m] - result.mu;
      sum += centered;
      position[m] += centered / (d_count * k_count);
    }
    cell[c] = sum / static_cast<double>(n_members);
    result.rank_effect[c / n_steps] += cell[c] / k_count;
    result.step_effect[c % n_steps] += cell[c] / d_count;
  }
  for (std::size_t c = 0; c < cell.size(); ++c) {
    for (std::size_t m = 0; m < n_members; ++m) {
      result.residual[c * n_members + m] = x[c * n_members + m] - result.mu - cell[c] - position[m];
    }
  }
  for (std::size_t c = 0; c < cell.size(); ++c) {
    cell[c] -= result.rank_effect[c / n_steps] + result.step_effect[c % n_steps];
  }

  const Freedom df = degrees_of_freedom(shape);
  result.v_step = ratio_or_zero(sum_of_squares(result.step_effect), df.step);
  result.v_rank = ratio_or_zero(sum_of_squares(result.rank_effect), df.rank);
  result.v_cell = ratio_or_zero(sum_of_squares(cell), df.cell);
  result.v_residual = ratio_or_zero(sum_of_squares(result.residual), df.residual);
  return result;
}

FTests f_tests(const VarianceComponents& components, VarianceShape shape, double level) {
  const Freedom df = degrees_of_freedom(shape);
  const auto statistic = [](double above, double below, double count, double df1, double df2) {
    return df1 > 0 && df2 > 0 ? above / (below / count) : kUndefined;
  };
  return {.step = statistic(components.v_step, components.v_cell, static_cast<double>(shape.replicas),
                            df.step, df.cell),
          .rank = statistic(components.v_rank, components.v_cell, static_cast<double>(shape.steps), df.rank,
                            df.cell),
          .cell = statistic(components.v_cell, components.v_residual, static_cast<double>(shape.members),
                            df.cell, df.residual),
          .step_limit = f_quantile(level, df.step, df.cell),
          .rank_limit = f_quantile(level, df.rank, df.cell),
          .cell_limit = f_quantile(level, df.cell, df.residual)};
}

double f_quantile(double p, double df1, double df2) {
  assert(p > 0 && p < 1);
  if (!(df1 > 0) || !(df2 > 0)) return kUndefined;
  return boost::math::quantile(boost::math::fisher_f(df1, df2), p);
}

double pearson(std::span<const double> a, std::span<const double> b) {
  assert(a.size() == b.size());
  if (a.empty()) return kUndefined;
  // Not mean(): its rounding would make a constant series look like one that varies.
  const double mean_a = moments(a).mean;
  const double mean_b = moments(b).mean;
  double aa = 0;
  double bb = 0;
  double ab = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
    ab += (a[i] - mean_a) * (b[i] - mean_b);
  }
  if (aa == 0 || bb == 0) return kUndefined;
  return std::clamp(ab / (std::sqrt(aa) * std::sqrt(bb)), -1.0, 1.0);
}

}  // namespace prism
