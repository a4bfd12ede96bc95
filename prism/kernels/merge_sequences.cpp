// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/merge_sequences.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace prism {

namespace {

using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

constexpr std::uint32_t kMostDifferences = 4096;  // the search keeps the square of it

/// Farthest x reached with d differences on each diagonal k = x - y of -d, -d + 2, ..., d.
class Frontier {
 public:
  explicit Frontier(std::int64_t d) : d_(d), reach_(static_cast<std::size_t>(d + 1), -1) {}
  /// -1 outside.
  [[nodiscard]] std::int64_t at(std::int64_t k) const { return k < -d_ || k > d_ ? -1 : reach_[index(k)]; }
  void set(std::int64_t k, std::int64_t x) { reach_[index(k)] = x; }
  /// Whether a path with one difference more comes to diagonal k by leaving out a symbol of b.
  [[nodiscard]] bool comes_down(std::int64_t k) const {
    return k < -d_ || (k <= d_ && at(k - 1) < at(k + 1));
  }

 private:
  [[nodiscard]] std::size_t index(std::int64_t k) const { return static_cast<std::size_t>((k + d_) / 2); }
  std::int64_t d_;
  std::vector<std::int64_t> reach_;
};

/// The pairs on the way back from the ends, in ascending order.
Pairs trace_back(std::span<const Frontier> frontiers, std::int64_t x, std::int64_t y) {
  Pairs pairs;
  for (auto before = frontiers.rbegin() + 1; before != frontiers.rend(); ++before) {
    const std::int64_t k = x - y;
    const std::int64_t from_k = before->comes_down(k) ? k + 1 : k - 1;
    const std::int64_t from_x = before->at(from_k);
    const std::int64_t from_y = from_x - from_k;
    while (x > from_x && y > from_y) {
      pairs.emplace_back(static_cast<std::uint32_t>(--x), static_cast<std::uint32_t>(--y));
    }
    x = from_x;
    y = from_y;
  }
  while (x > 0 && y > 0) pairs.emplace_back(static_cast<std::uint32_t>(--x), static_cast<std::uint32_t>(--y));
  std::ranges::reverse(pairs);
  return pairs;
}

}  // namespace

std::optional<Pairs> common_subsequence(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b,
                                        std::uint32_t max_differences) {
  const auto n = static_cast<std::int64_t>(a.size());
  const auto m = static_cast<std::int64_t>(b.size());
  if (std::abs(n - m) > static_cast<std::int64_t>(max_differences)) return std::nullopt;
  std::vector<Frontier> frontiers;
  for (std::int64_t d = 0; d <= static_cast<std::int64_t>(max_differences); ++d) {
    Frontier next(d);
    for (std::int64_t k = -d; k <= d; k += 2) {
      std::int64_t x = 0;
      if (d > 0)
        x = frontiers.back().comes_down(k) ? frontiers.back().at(k + 1) : frontiers.back().at(k - 1) + 1;
      while (x < n && x - k < m && a[static_cast<std::size_t>(x)] == b[static_cast<std::size_t>(x - k)]) ++x;
      next.set(k, x);
      if (x >= n && x - k >= m) {
        frontiers.push_back(std::move(next));
        return trace_back(frontiers, n, m);
      }
    }
    frontiers.push_back(std::move(next));
  }
  return std::nullopt;
}

MergedSequences merge_sequences(std::span<const std::vector<std::uint64_t>> sequences) {
  MergedSequences merged;
  for (const std::vector<std::uint64_t>& next : sequences) {
    const std::size_t half = (merged.symbols.size() + next.size()) / 2;
    const auto limit = static_cast<std::uint32_t>(std::min<std::size_t>(half, kMostDifferences));
    const Pairs pairs = common_subsequence(merged.symbols, next, limit).value_or(Pairs{});
    std::vector<std::uint64_t> symbols;
    std::vector<std::uint32_t> moved(merged.symbols.size());  // old place -> new place
    std::vector<std::uint32_t> placed(next.size());
    symbols.reserve(merged.symbols.size() + next.size() - pairs.size());
    std::size_t i = 0;
    std::size_t j = 0;
    const auto copy_up_to = [&](std::size_t end_i, std::size_t end_j) {
      for (; i < end_i; ++i) {
        moved[i] = static_cast<std::uint32_t>(symbols.size());
        symbols.push_back(merged.symbols[i]);
      }
      for (; j < end_j; ++j) {
        placed[j] = static_cast<std::uint32_t>(symbols.size());
        symbols.push_back(next[j]);
      }
    };
    for (const auto& [in_list, in_next] : pairs) {
      copy_up_to(in_list, in_next);
      moved[i++] = placed[j++] = static_cast<std::uint32_t>(symbols.size());
      symbols.push_back(next[in_next]);
    }
    copy_up_to(merged.symbols.size(), next.size());
    for (std::vector<std::uint32_t>& places : merged.place) {
      for (std::uint32_t& place : places) place = moved[place];
    }
    merged.place.push_back(std::move(placed));
    merged.symbols = std::move(symbols);
  }
  return merged;
}

}  // namespace prism
