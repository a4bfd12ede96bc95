// SPDX-License-Identifier: Apache-2.0
#include "prism/stats/quantiles.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

#include <boost/math/special_functions/beta.hpp>

namespace prism {
namespace {

/// Fraction `weight` of the way from a to b; exactly a at 0, also next to an infinite b.
double between(double a, double b, double weight) {
  return weight > 0 ? a + weight * (b - a) : a;
}

/// P(Bin(n,p) <= k) for k in 0..n-1, by the incomplete beta function.
double binomial_cdf(std::size_t k, std::size_t n, double p) {
  return boost::math::ibetac(static_cast<double>(k) + 1, static_cast<double>(n - k), p);
}

/// The first rank r in 1..n for which `reached(P(Bin(n,p) <= r-1))`; n+1 if none. The probability grows with
/// r.
template <class Predicate>
std::size_t first_rank(std::size_t n, double p, Predicate reached) {
  std::size_t low = 1;
  std::size_t high = n + 1;
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (reached(binomial_cdf(middle - 1, n, p))) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

[[maybe_unused]] bool is_inside_unit(double p) {
  return p > 0 && p < 1;
}

}  // namespace

double quantile_sorted(std::span<const double> sorted, double p) {
  assert(!sorted.empty() && p >= 0 && p <= 1);
  const double position = static_cast<double>(sorted.size() - 1) * p;
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return between(sorted[below], sorted[above], position - static_cast<double>(below));
}

double quantile(std::vector<double> values, double p) {
  assert(!values.empty() && p >= 0 && p <= 1);
  const double position = static_cast<double>(values.size() - 1) * p;
  const auto below = static_cast<std::size_t>(position);
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(below);
  std::nth_element(values.begin(), at, values.end());
  if (below + 1 == values.size()) return *at;
  return between(*at, *std::min_element(at + 1, values.end()), position - static_cast<double>(below));
}

RankInterval quantile_rank_interval(std::size_t n, double p, double confidence) {
  assert(is_inside_unit(p) && is_inside_unit(confidence));
  const double tail = (1 - confidence) / 2;
  const std::size_t low = first_rank(n, p, [&](double below) { return below > tail; }) - 1;
  const std::size_t high = first_rank(n, p, [&](double below) { return below >= 1 - tail; });
  RankInterval interval;
  if (low >= 1) {
    interval.low = low;
    interval.coverage -= binomial_cdf(low - 1, n, p);
  }
  if (high <= n) {
    interval.high = high;
    interval.coverage -= 1 - binomial_cdf(high - 1, n, p);
  }
  return interval;
}

std::optional<std::size_t> tolerance_upper_rank(std::size_t n, double p, double confidence) {
  assert(is_inside_unit(p) && is_inside_unit(confidence));
  const std::size_t rank = first_rank(n, p, [&](double below) { return below >= confidence; });
  if (rank > n) return std::nullopt;
  return rank;
}

std::size_t tolerance_min_samples(double p, double confidence) {
  assert(is_inside_unit(p) && is_inside_unit(confidence));
  const auto n = static_cast<std::size_t>(std::ceil(std::log1p(-confidence) / std::log(p)));
  return std::max<std::size_t>(n, 1);
}

Moments moments(std::span<const double> values) {
  assert(!values.empty());
  const auto n = static_cast<double>(values.size());
  Moments result{.min = values[0], .max = values[0]};
  double sum = 0;
  for (const double value : values) {
    sum += value;
    result.min = std::min(result.min, value);
    result.max = std::max(result.max, value);
  }
  // Rounding of the sum may leave the range; equal values must give sd 0.
  result.mean = std::clamp(sum / n, result.min, result.max);
  if (values.size() == 1) return result;
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  result.sd = std::sqrt(squares / (n - 1));
  if (result.sd > 0) result.cv = result.sd / std::abs(result.mean);
  return result;
}

}  // namespace prism
