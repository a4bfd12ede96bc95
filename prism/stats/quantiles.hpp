// SPDX-License-Identifier: Apache-2.0
// Quantiles of samples, how far they can be trusted, and the usual moments.
//
// A quantile of N independent samples gets an interval from two order statistics: how many samples fall below
// the true quantile is binomial whatever the law is, so the ranks depend on N, p and the confidence only
// (forecasting.md, section 6). One-sided limits follow Wilks (1941). Ranks count from 1, as in the
// literature:
//
//   auto ranks = quantile_rank_interval(sorted.size(), 0.95, 0.95);
//   if (ranks.high) upper = sorted[*ranks.high - 1];
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace prism {

/// The p-quantile by linear interpolation between order statistics: Hyndman and Fan (1996) type 7, NumPy's
/// default. `sorted` is ascending and not empty, p in [0, 1].
double quantile_sorted(std::span<const double> sorted, double p);

/// quantile_sorted of values in any order; linear time.
double quantile(std::vector<double> values, double p);

/// Ranks, from 1, of the order statistics that enclose a quantile.
struct RankInterval {
  std::optional<std::size_t>
      low;  ///< nothing: no lower end at this confidence, however small the first value is
  std::optional<std::size_t> high;  ///< nothing: no upper end at this confidence
  double coverage =
      1;  ///< exact P(x_(low) <= quantile <= x_(high)) for a continuous law; a missing end is infinite
};

/// Distribution-free two-sided interval for the p-quantile of n independent samples, equal tails:
/// low = largest r with P(Bin(n,p) <= r-1) <= alpha/2, high = smallest s with P(Bin(n,p) <= s-1) >=
/// 1-alpha/2, both in 1..n, alpha = 1-confidence. coverage = P(low <= Bin(n,p) < high). p and confidence in
/// (0, 1).
RankInterval quantile_rank_interval(std::size_t n, double p, double confidence);

/// The smallest rank r in 1..n whose order statistic is at least the p-quantile with the given confidence,
/// P(Bin(n,p) <= r-1) >= confidence (Wilks 1941); nothing if n is below tolerance_min_samples. p, confidence
/// in (0, 1).
std::optional<std::size_t> tolerance_upper_rank(std::size_t n, double p, double confidence);

/// The smallest n whose maximum is such a limit, 1 - p^n >= confidence: 59, 299, 2995 for p95, p99, p99.9 at
/// 95 %.
std::size_t tolerance_min_samples(double p, double confidence);

struct Moments {
  double mean = 0;
  double sd = 0;  ///< of the sample, divisor n-1; 0 for one value
  double cv = 0;  ///< sd / |mean|; 0 if sd is 0
  double min = 0;
  double max = 0;
};

/// Mean, spread and range, in two passes. `values` is not empty.
Moments moments(std::span<const double> values);

}  // namespace prism
