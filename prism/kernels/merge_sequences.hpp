// SPDX-License-Identifier: Apache-2.0
// Sequences of symbols that are nearly equal, merged into one list that holds each of them in order.
//
// The launches of a thread, or the kernels of a stream, in several profiled steps: most steps run the same
// ones, some run a few more. The merged list is the lane's template; every step is a subsequence of it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace prism {

/// Pairs (index in a, index in b) of a longest common subsequence, ascending in both (Myers 1986, "An O(ND)
/// Difference Algorithm"). Nothing if more than `max_differences` symbols would be left unpaired.
std::optional<std::vector<std::pair<std::uint32_t, std::uint32_t>>> common_subsequence(
    std::span<const std::uint64_t> a, std::span<const std::uint64_t> b, std::uint32_t max_differences);

struct MergedSequences {
  std::vector<std::uint64_t> symbols;  ///< the merged list
  /// [sequence][i]: place of sequence[i] in `symbols`, ascending.
  std::vector<std::vector<std::uint32_t>> place;
};

/// Merges in order: each sequence is paired with the list so far, or with one of the last few different sequences if the
/// list holds much else, and what it has more is put in where it occurs. A sequence that differs by more than half, or by
/// more than 4,096 symbols, shares nothing with the list and is appended whole.
MergedSequences merge_sequences(std::span<const std::vector<std::uint64_t>> sequences);

}  // namespace prism
