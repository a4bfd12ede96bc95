// SPDX-License-Identifier: Apache-2.0
#include "prism/io/stream_digest.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace prism {

namespace {

std::uint64_t step(std::uint64_t lane, std::uint64_t word) {
  constexpr std::uint64_t kPrime = 0x100000001b3U;  // of 64-bit FNV
  lane = (lane ^ word) * kPrime;
  return lane ^ (lane >> 29);
}

}  // namespace

void StreamDigest::mix(Lanes& lanes, const char* block) {
  static_assert(std::endian::native == std::endian::little);
  std::array<std::uint64_t, 4> words;
  std::memcpy(words.data(), block, kBlock);
  for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] = step(lanes[i], words[i]);
}

void StreamDigest::add(std::span<const char> bytes) {
  bytes_ += bytes.size();
  if (rest_size_ != 0) {
    const std::size_t part = std::min(bytes.size(), kBlock - rest_size_);
    std::copy_n(bytes.data(), part, rest_.data() + rest_size_);
    rest_size_ += part;
    bytes = bytes.subspan(part);
    if (rest_size_ < kBlock) return;
    mix(lanes_, rest_.data());
    rest_size_ = 0;
  }
  Lanes lanes = lanes_;  // in registers
  while (bytes.size() >= kBlock) {
    mix(lanes, bytes.data());
    bytes = bytes.subspan(kBlock);
  }
  lanes_ = lanes;
  std::ranges::copy(bytes, rest_.begin());
  rest_size_ = bytes.size();
}

std::uint64_t StreamDigest::value() const {
  Lanes lanes = lanes_;
  std::array<char, kBlock> last{};
  std::copy_n(rest_.data(), rest_size_, last.data());
  mix(lanes, last.data());
  std::uint64_t digest = bytes_;  // tells texts apart that differ in zeros at the end only
  for (const std::uint64_t lane : lanes) digest = step(digest, lane);
  return digest;
}

}  // namespace prism
