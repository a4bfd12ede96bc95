// SPDX-License-Identifier: Apache-2.0
#include "prism/stats/distance.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace prism {

double ks_two_sample(std::span<const double> a, std::span<const double> b) {
  assert(!a.empty() && !b.empty());
  const auto n_a = static_cast<double>(a.size());
  const auto n_b = static_cast<double>(b.size());
  std::size_t i = 0;
  std::size_t j = 0;
  double largest = 0;
  while (i < a.size() && j < b.size()) {
    const double x = std::min(a[i], b[j]);
    while (i < a.size() && a[i] <= x) ++i;
    while (j < b.size() && b[j] <= x) ++j;
    largest = std::max(largest, std::abs(static_cast<double>(i) / n_a - static_cast<double>(j) / n_b));
  }
  return largest;
}

double ks_uniform(std::vector<double> values) {
  assert(!values.empty());
  std::sort(values.begin(), values.end());
  assert(values.front() >= 0 && values.back() <= 1);
  const auto n = static_cast<double>(values.size());
  double largest = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto below = static_cast<double>(i);
    largest = std::max({largest, (below + 1) / n - values[i], values[i] - below / n});
  }
  return largest;
}

double ks_noise_mean(std::size_t n) {
  return 0.86 / std::sqrt(static_cast<double>(n));
}

double ks_noise_95(std::size_t n) {
  return 1.35 / std::sqrt(static_cast<double>(n));
}

}  // namespace prism
