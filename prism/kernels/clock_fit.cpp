// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/clock_fit.hpp"

#include <algorithm>
#include <cmath>

namespace prism {

namespace {

constexpr double kSdFromMad = 1.4826;  // of a normal law
constexpr std::size_t kMinSamples = 16;
constexpr std::int64_t kMinSpanNs = 2'000'000'000;
constexpr std::size_t kMaxSlopes = 256;
constexpr double kMaxDrift = 1e-3;  // clocks of computers are off by at most some 1e-4

template <class T>
T median(std::vector<T>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Sets offset and spread for the drift that `fit` has.
void centre(ClockFit& fit, const std::vector<ClockSample>& samples) {
  fit.offset_ns = 0;
  std::vector<std::int64_t> left;
  left.reserve(samples.size());
  for (const ClockSample& sample : samples) left.push_back(sample.difference_ns - fit.at(sample.time_ns));
  fit.offset_ns = median(left);
  for (std::int64_t& value : left) value = std::abs(value - fit.offset_ns);
  fit.spread_ns = kSdFromMad * static_cast<double>(median(left));
}

double median_slope(const std::vector<ClockSample>& samples) {
  const std::size_t half = samples.size() / 2;
  const std::size_t step = std::max<std::size_t>(1, half / kMaxSlopes);
  std::vector<double> slopes;
  for (std::size_t i = 0; i + half < samples.size(); i += step) {
    const ClockSample& early = samples[i];
    const ClockSample& late = samples[i + half];
    if (late.time_ns <= early.time_ns) continue;
    slopes.push_back(static_cast<double>(late.difference_ns - early.difference_ns) /
                     static_cast<double>(late.time_ns - early.time_ns));
  }
  return slopes.empty() ? 0 : median(slopes);
}

}  // namespace

ClockFit fit_clock(const std::vector<ClockSample>& samples) {
  ClockFit fit;
  if (samples.empty()) return fit;
  fit.origin_ns = samples[samples.size() / 2].time_ns;
  centre(fit, samples);
  if (samples.size() < kMinSamples || samples.back().time_ns - samples.front().time_ns < kMinSpanNs)
    return fit;
  ClockFit drifting = fit;
  drifting.drift = median_slope(samples);
  if (std::abs(drifting.drift) > kMaxDrift) return fit;
  centre(drifting, samples);
  return drifting.spread_ns * 2 < fit.spread_ns ? drifting : fit;
}

}  // namespace prism
