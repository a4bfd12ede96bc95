// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/merge_sequences.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

namespace prism {

namespace {

using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

constexpr std::uint32_t kMostDifferences = 4096;  // the search keeps half the square of it: 64 MiB
constexpr std::uint32_t kFewDifferences = 512;
constexpr std::size_t kMostCompared = 8;  // earlier sequences that a new one is compared with

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

namespace {

/// The last `count` of some values, or all.
std::span<const std::size_t> last_of(std::span<const std::size_t> values, std::size_t count) {
  return values.last(std::min(values.size(), count));
}

/// How many symbols any pairing leaves unpaired at least: those that the other sequence has not as often.
std::size_t fewest_differences(std::vector<std::uint64_t> a, std::vector<std::uint64_t> b) {
  std::ranges::sort(a);
  std::ranges::sort(b);
  std::vector<std::uint64_t> only_one;
  std::ranges::set_symmetric_difference(a, b, std::back_inserter(only_one));
  return only_one.size();
}

using Sequence = std::vector<std::uint64_t>;

/// common_subsequence of sequences that are alike: at most half of their symbols, and at most `most`, are left unpaired.
std::optional<Pairs> pair_if_alike(const Sequence& a, const Sequence& b, std::size_t most) {
  const std::size_t limit = std::min((a.size() + b.size()) / 2, most);
  if (fewest_differences(a, b) > limit) return std::nullopt;
  return common_subsequence(a, b, static_cast<std::uint32_t>(limit));
}

/// Adds pairs for symbols of `next` that stand between two pairs and are in the list there too.
Pairs with_gaps_filled(const Pairs& pairs, const Sequence& list, const Sequence& next) {
  Pairs filled;
  std::uint32_t in_list = 0;
  std::uint32_t in_next = 0;
  const auto fill = [&](std::uint32_t list_end, std::uint32_t next_end) {
    for (; in_next < next_end; ++in_next) {
      const auto found = std::find(list.begin() + in_list, list.begin() + list_end, next[in_next]);
      if (found == list.begin() + list_end) continue;
      in_list = static_cast<std::uint32_t>(found - list.begin());
      filled.emplace_back(in_list++, in_next);
    }
  };
  for (const auto& [of_list, of_next] : pairs) {
    fill(of_list, of_next);
    filled.emplace_back(of_list, of_next);
    in_list = of_list + 1;
    in_next = of_next + 1;
  }
  fill(static_cast<std::uint32_t>(list.size()), static_cast<std::uint32_t>(next.size()));
  return filled;
}

/// Pairs (place in the list, index in `next`): with the list as a whole or, where it holds much that `next` has not,
/// through the latest of the `recent` sequences that is alike. A search that fails costs the square of its limit, so
/// narrow ones come first.
Pairs pair_up(const MergedSequences& merged, std::span<const Sequence> sequences,
              std::span<const std::size_t> recent, const Sequence& next) {
  if (auto pairs = pair_if_alike(merged.symbols, next, kFewDifferences)) return std::move(*pairs);
  for (std::size_t back = recent.size(); back > 0; --back) {
    const std::size_t other = recent[back - 1];
    auto pairs = pair_if_alike(sequences[other], next, kFewDifferences);
    if (!pairs) continue;
    for (auto& [in_other, in_next] : *pairs) in_other = merged.place[other][in_other];
    return with_gaps_filled(*pairs, merged.symbols, next);
  }
  return pair_if_alike(merged.symbols, next, kMostDifferences).value_or(Pairs{});
}

}  // namespace

MergedSequences merge_sequences(std::span<const std::vector<std::uint64_t>> sequences) {
  MergedSequences merged;
  std::vector<std::size_t> different;  // sequences that equal none before them
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const std::vector<std::uint64_t>& next = sequences[s];
    const std::span<const std::size_t> recent = last_of(different, kMostCompared);
    const auto same = std::ranges::find_if(recent, [&](std::size_t r) { return sequences[r] == next; });
    if (same != recent.end()) {
      merged.place.push_back(merged.place[*same]);
      continue;
    }
    const Pairs pairs = pair_up(merged, sequences, recent, next);
    different.push_back(s);
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
