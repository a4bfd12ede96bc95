// SPDX-License-Identifier: Apache-2.0
#include "prism/engine/summary.hpp"

#include <algorithm>

namespace prism {

QuantileEstimate estimate_quantile(std::span<const double> sorted_ns, double p) {
  QuantileEstimate estimate{.p = p, .value_ns = quantile_sorted(sorted_ns, p)};
  const RankInterval ranks = quantile_rank_interval(sorted_ns.size(), p, kConfidence);
  if (ranks.low) estimate.low_ns = sorted_ns[*ranks.low - 1];
  if (ranks.high) estimate.high_ns = sorted_ns[*ranks.high - 1];
  return estimate;
}

StepSummary summarise(std::vector<double> samples_ns) {
  std::ranges::sort(samples_ns);
  StepSummary summary{.moments_ns = moments(samples_ns)};
  for (const double p : kReportedQuantiles) summary.quantiles.push_back(estimate_quantile(samples_ns, p));
  return summary;
}

}  // namespace prism
