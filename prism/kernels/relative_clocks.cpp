// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/relative_clocks.hpp"

#include <numeric>
#include <utility>

namespace prism {

namespace {

constexpr std::int64_t kLearnedToleranceNs = 500'000;
constexpr std::int64_t kLearnedUncertaintyNs = 20'000;

}  // namespace

RelativeClocks::RelativeClocks(std::vector<bool> absolute)
    : absolute_(std::move(absolute)), set_(absolute_.size()), offset_in_set_(absolute_.size()) {
  std::iota(set_.begin(), set_.end(), std::size_t{0});
}

std::optional<ClockPrior> RelativeClocks::prior(std::size_t a, std::size_t b) const {
  if (set_[a] == set_[b]) return ClockPrior{offset(a, b), kLearnedToleranceNs, kLearnedUncertaintyNs};
  if (absolute_[a] && absolute_[b]) return ClockPrior{0, kPlausibleSkewNs, kPlausibleSkewNs};
  return std::nullopt;
}

std::int64_t RelativeClocks::offset(std::size_t a, std::size_t b) const {
  return set_[a] == set_[b] ? offset_in_set_[b] - offset_in_set_[a] : 0;
}

void RelativeClocks::join_absolute() {
  std::optional<std::size_t> first;
  for (std::size_t t = 0; t < absolute_.size(); ++t) {
    if (!absolute_[t]) continue;
    if (first) learn(*first, t, 0);
    if (!first) first = t;
  }
}

void RelativeClocks::learn(std::size_t a, std::size_t b, std::int64_t offset_ns) {
  const std::size_t from = set_[b];
  if (set_[a] == from) return;
  const std::int64_t shift = offset_in_set_[a] + offset_ns - offset_in_set_[b];
  for (std::size_t t = 0; t < set_.size(); ++t) {
    if (set_[t] != from) continue;
    set_[t] = set_[a];
    offset_in_set_[t] += shift;
  }
}

}  // namespace prism
