// SPDX-License-Identifier: Apache-2.0
// Summary of simulated step times: moments, and quantiles each with its Monte Carlo interval.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "prism/stats/quantiles.hpp"

namespace prism {

/// The quantiles that results print.
inline constexpr std::array<double, 6> kReportedQuantiles = {0.05, 0.25, 0.5, 0.75, 0.95, 0.99};

/// Confidence of every two-sided interval in results.
inline constexpr double kConfidence = 0.95;

/// A quantile of the step time in nanoseconds with its order-statistic interval. An end is absent if the
/// samples are too few for one at kConfidence.
struct QuantileEstimate {
  double p = 0;
  double value_ns = 0;
  std::optional<double> low_ns;
  std::optional<double> high_ns;
};

struct StepSummary {
  Moments moments_ns;
  std::vector<QuantileEstimate> quantiles;  ///< at kReportedQuantiles
};

/// Quantile of sorted samples with its interval. Precondition: not empty.
QuantileEstimate estimate_quantile(std::span<const double> sorted_ns, double p);

/// Precondition: not empty.
StepSummary summarise(std::vector<double> samples_ns);

}  // namespace prism
