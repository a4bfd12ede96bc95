// SPDX-License-Identifier: Apache-2.0
#include "prism/stats/scores.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace prism {
namespace {

// All sums are of differences from the middle sample: a step of 60 s with a spread of 1 ms keeps its digits.
double middle(std::span<const double> sorted) {
  return sorted[sorted.size() / 2];
}

/// Sum over pairs i < j of x_j - x_i, over n^2: each x_i is added i times and subtracted n-1-i times.
double half_mean_difference(std::span<const double> sorted) {
  const auto n = static_cast<double>(sorted.size());
  const double center = middle(sorted);
  double sum = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    sum += (2 * static_cast<double>(i) - (n - 1)) * (sorted[i] - center);
  }
  return sum / n / n;
}

}  // namespace

double pit(std::span<const double> sorted, double y) {
  assert(!sorted.empty());
  const auto [first, last] = std::equal_range(sorted.begin(), sorted.end(), y);
  const auto below = static_cast<double>(first - sorted.begin());
  const auto not_above = static_cast<double>(last - sorted.begin());
  return (below + not_above) / 2 / static_cast<double>(sorted.size());
}

double crps(std::span<const double> sorted, double y) {
  assert(!sorted.empty());
  double sum = 0;
  for (const double x : sorted) sum += std::abs(x - y);
  return sum / static_cast<double>(sorted.size()) - half_mean_difference(sorted);
}

CrpsEnsemble::CrpsEnsemble(std::vector<double> samples) : sorted_(std::move(samples)) {
  assert(!sorted_.empty());
  std::sort(sorted_.begin(), sorted_.end());
  sums_.reserve(sorted_.size() + 1);
  sums_.push_back(0);
  for (const double x : sorted_) sums_.push_back(sums_.back() + (x - middle(sorted_)));
  half_mean_difference_ = prism::half_mean_difference(sorted_);
}

double CrpsEnsemble::mean_distance(double y) const {
  const auto n = static_cast<double>(sorted_.size());
  const double offset = y - middle(sorted_);
  const auto below =
      static_cast<std::size_t>(std::lower_bound(sorted_.begin(), sorted_.end(), y) - sorted_.begin());
  const auto n_below = static_cast<double>(below);
  const double from_below = n_below * offset - sums_[below];
  const double from_above = (sums_.back() - sums_[below]) - (n - n_below) * offset;
  return (from_below + from_above) / n;
}

}  // namespace prism
