// SPDX-License-Identifier: Apache-2.0
#include "prism/engine/summary.hpp"

#include <algorithm>

namespace prism {

QuantileEstimate estimate_quantile(std::span<const double> sorted_ns, double p) {
  QuantileEstimate estimate{.p = p, .value_ns = quantile_sorted(sorted_ns, p)};
  const RankInterval ranks = quantile_rank_interval(sorted_ns.size(), p, kConfidence);
  // With a handful of samples the interpolated value can lie outside the interval, which then grows to hold
  // it.
  if (ranks.low) estimate.low_ns = std::min(sorted_ns[*ranks.low - 1], estimate.value_ns);
  if (ranks.high) estimate.high_ns = std::max(sorted_ns[*ranks.high - 1], estimate.value_ns);
  return estimate;
}

StepSummary summarise(std::vector<double> samples_ns) {
  std::ranges::sort(samples_ns);
  StepSummary summary{.moments_ns = moments(samples_ns)};
  for (const double p : kReportedQuantiles) summary.quantiles.push_back(estimate_quantile(samples_ns, p));
  return summary;
}

}  // namespace prism
