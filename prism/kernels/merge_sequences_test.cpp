// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/merge_sequences.hpp"

#include <algorithm>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace prism {
namespace {

using ::testing::ElementsAre;

std::vector<std::uint64_t> symbols(std::string_view text) {
  return {text.begin(), text.end()};
}

/// Length of a longest common subsequence by the quadratic table: the definition.
std::size_t longest_common(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
  std::vector<std::size_t> row(b.size() + 1, 0);
  for (const std::uint64_t x : a) {
    std::size_t diagonal = 0;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = x == b[j - 1] ? diagonal + 1 : std::max(row[j], row[j - 1]);
      diagonal = above;
    }
  }
  return row[b.size()];
}

TEST(MergeSequences, PutsExtraSymbolsWhereTheyOccur) {
  const std::vector<std::vector<std::uint64_t>> steps = {symbols("abde"), symbols("abcde"), symbols("bdex")};
  const MergedSequences merged = merge_sequences(steps);
  EXPECT_EQ(merged.symbols, symbols("abcdex"));
  EXPECT_THAT(merged.place[0], ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(merged.place[1], ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(merged.place[2], ElementsAre(1, 3, 4, 5));
}

TEST(MergeSequences, EmptySequencesAreFine) {
  const std::vector<std::vector<std::uint64_t>> steps = {{}, symbols("ab"), {}};
  EXPECT_EQ(merge_sequences(steps).symbols, symbols("ab"));
}

TEST(CommonSubsequence, StopsAtTheLimit) {
  EXPECT_FALSE(common_subsequence(symbols("abcd"), symbols("wxyz"), 7));
  EXPECT_TRUE(common_subsequence(symbols("abcd"), symbols("wxyz"), 8));
}

RC_GTEST_PROP(CommonSubsequence, IsALongestOne, ()) {
  const auto letters = rc::gen::container<std::vector<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(0, 4));
  const std::vector<std::uint64_t> a = *letters;
  const std::vector<std::uint64_t> b = *letters;
  const auto pairs = common_subsequence(a, b, static_cast<std::uint32_t>(a.size() + b.size()));
  RC_ASSERT(pairs.has_value());
  for (std::size_t i = 0; i < pairs->size(); ++i) {
    RC_ASSERT(a[(*pairs)[i].first] == b[(*pairs)[i].second]);
    if (i > 0)
      RC_ASSERT((*pairs)[i - 1].first < (*pairs)[i].first && (*pairs)[i - 1].second < (*pairs)[i].second);
  }
  RC_ASSERT(pairs->size() == longest_common(a, b));
}

RC_GTEST_PROP(MergeSequences, HoldsEverySequenceInOrder, ()) {
  const auto steps = *rc::gen::container<std::vector<std::vector<std::uint64_t>>>(
      rc::gen::container<std::vector<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(0, 5)));
  const MergedSequences merged = merge_sequences(steps);
  std::vector<bool> used(merged.symbols.size(), false);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    RC_ASSERT(merged.place[s].size() == steps[s].size());
    RC_ASSERT(std::ranges::is_sorted(merged.place[s], std::ranges::less_equal{}) || steps[s].size() < 2);
    for (std::size_t i = 0; i < steps[s].size(); ++i) {
      RC_ASSERT(merged.symbols[merged.place[s][i]] == steps[s][i]);
      used[merged.place[s][i]] = true;
    }
  }
  RC_ASSERT(std::ranges::all_of(used, [](bool b) { return b; }));
}

/// `count` symbols from `first` on.
std::vector<std::uint64_t> run(std::uint64_t first, std::uint64_t count) {
  std::vector<std::uint64_t> result(count);
  for (std::uint64_t i = 0; i < count; ++i) result[i] = first + i;
  return result;
}

TEST(MergeSequences, KindsOfStepsByTurnsAreHeldOnceEachHoweverLong) {
  // More different symbols than a search keeps, so the list as a whole pairs with neither kind.
  std::vector<std::vector<std::uint64_t>> steps;
  for (int turn = 0; turn < 6; ++turn) {
    std::vector<std::uint64_t> step = run(turn % 2 == 0 ? 0 : 100'000, 5'000);
    step.push_back(1'000'000 + static_cast<std::uint64_t>(turn));  // so that no two are equal
    steps.push_back(step);
  }
  const MergedSequences merged = merge_sequences(steps);
  EXPECT_EQ(merged.symbols.size(), 2U * 5'000U + 6U);
}

TEST(MergeSequences, UnlikeSequencesShareNothing) {
  const std::vector<std::vector<std::uint64_t>> steps = {symbols("abcx"), symbols("defx"), symbols("abcx")};
  const MergedSequences merged = merge_sequences(steps);
  EXPECT_EQ(merged.symbols, symbols("abcxdefx"));
  EXPECT_THAT(merged.place[2], ElementsAre(0, 1, 2, 3));
}

}  // namespace
}  // namespace prism
