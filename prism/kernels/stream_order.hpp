// SPDX-License-Identifier: Apache-2.0
// The streams of one rank: GPU ops of one (device, stream) in the order they ran.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "prism/trace/rank_trace.hpp"

namespace prism {

struct StreamKey {
  std::int32_t device = -1;
  std::uint64_t stream = 0;
  friend auto operator<=>(const StreamKey&, const StreamKey&) = default;
};

struct StreamOrder {
  std::vector<StreamKey> streams;                      ///< ascending
  std::vector<std::vector<std::uint32_t>> ops;         ///< [stream] GPU ops in order of start
  std::vector<std::uint32_t> stream_of;                ///< [GPU op] index into streams
  std::vector<std::optional<std::uint32_t>> previous;  ///< [GPU op] the one before on its stream
};

StreamOrder find_stream_order(const RankTrace& trace);

}  // namespace prism
