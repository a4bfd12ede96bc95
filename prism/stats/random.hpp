// SPDX-License-Identifier: Apache-2.0
// Random numbers as a pure function of (seed, purpose, id, replica, sample).
//
// There is no generator state: each number has its own counter of Philox4x32-10 (Salmon et al., SC 2011,
// through Random123), so results do not depend on threads, block size or order of nodes, and two scenarios
// that ask for the same (purpose, id, replica, sample) share their noise. The engine's vector kernel computes
// the same words and is tested word for word against this file.
//
//   key     = { seed, purpose }
//   counter = { id low, id high, replica, 8*(sample div 32) + sample mod 8 },  word = (sample div 8) mod 4
//
// so the 32 samples of a block are the 4 words of 8 consecutive counters, whatever the vector width.
#pragma once

#include <array>
#include <cstdint>

namespace prism {

/// What a number is used for. One purpose never sees another's numbers. Values are the compiler's: no
/// duplicates.
enum class Purpose : std::uint32_t {
  Step,          ///< the profiled step k* of a sample
  Cell,          ///< the profiled step of one replica
  Order,         ///< sort keys of microbatches
  Duration,      ///< an op's own draw
  Bootstrap,     ///< resampled profiled steps; matched subsets of samples
  Generator,     ///< made-up jobs
  RankSpeed,     ///< how fast a copied rank computes
  Anchor,        ///< a step's deviation taken from a log of step times
  SharedFactor,  ///< a factor that ops of a composed model share
};

/// A uniform 32-bit word.
std::uint32_t random_word(std::uint32_t seed, Purpose purpose, std::uint64_t id, std::uint32_t replica,
                          std::uint32_t sample);

/// Samples of a block.
inline constexpr std::uint32_t kRandomBlock = 32;

/// The words of samples 32*block .. 32*block + 31 at once: a quarter of the cost per word.
std::array<std::uint32_t, kRandomBlock> random_block(std::uint32_t seed, Purpose purpose, std::uint64_t id,
                                                     std::uint32_t replica, std::uint32_t block);

/// floor(n * u) for u = word / 2^32: an index in [0, n). The bias is below n / 2^32 per value.
constexpr std::uint32_t index_from_word(std::uint32_t word, std::uint32_t n) {
  return static_cast<std::uint32_t>((static_cast<std::uint64_t>(word) * n) >> 32);
}

/// A number in the open interval (0, 1), for quantile functions.
constexpr double unit_from_word(std::uint32_t word) {
  return (static_cast<double>(word) + 0.5) * (1.0 / 4294967296.0);
}

/// A well-mixed 64-bit id from two numbers (the finaliser of SplitMix64), to chain the parts of an identity.
constexpr std::uint64_t mix_id(std::uint64_t id, std::uint64_t part) {
  std::uint64_t x = id * 0x9E3779B97F4A7C15U + part + 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

}  // namespace prism
