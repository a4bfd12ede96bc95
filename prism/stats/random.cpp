// SPDX-License-Identifier: Apache-2.0
#include "prism/stats/random.hpp"

#include <Random123/philox.h>

namespace prism {

std::uint32_t random_word(std::uint32_t seed, Purpose purpose, std::uint64_t id, std::uint32_t replica,
                          std::uint32_t sample) {
  const r123::Philox4x32::ctr_type counter = {{static_cast<std::uint32_t>(id),
                                               static_cast<std::uint32_t>(id >> 32), replica,
                                               8 * (sample / 32) + sample % 8}};
  const r123::Philox4x32::key_type key = {{seed, static_cast<std::uint32_t>(purpose)}};
  return r123::Philox4x32()(counter, key)[(sample / 8) % 4];
}

std::array<std::uint32_t, kRandomBlock> random_block(std::uint32_t seed, Purpose purpose, std::uint64_t id,
                                                     std::uint32_t replica, std::uint32_t block) {
  constexpr std::uint32_t kCounters = 8;
  const r123::Philox4x32::key_type key = {{seed, static_cast<std::uint32_t>(purpose)}};
  std::array<std::uint32_t, kRandomBlock> words;
  for (std::uint32_t i = 0; i < kCounters; ++i) {
    const r123::Philox4x32::ctr_type counter = {{static_cast<std::uint32_t>(id),
                                                 static_cast<std::uint32_t>(id >> 32), replica,
                                                 kCounters * block + i}};
    const auto output = r123::Philox4x32()(counter, key);
    for (std::uint32_t w = 0; w < 4; ++w) words[kCounters * w + i] = output[w];
  }
  return words;
}

}  // namespace prism
