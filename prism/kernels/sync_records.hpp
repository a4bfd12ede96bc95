// SPDX-License-Identifier: Apache-2.0
// The synchronisation records of one rank, found by the host call they belong to.
#pragma once

#include <cstdint>
#include <vector>

#include "prism/kernels/stream_order.hpp"
#include "prism/trace/rank_trace.hpp"

namespace prism {

class SyncRecords {
 public:
  /// `trace` must outlive it.
  explicit SyncRecords(const RankTrace& trace);

  /// The first record with a correlation; nullptr for none and for correlations that mean "none" (0, -1).
  [[nodiscard]] const SyncRecord* with_correlation(std::int64_t correlation) const;

 private:
  std::vector<const SyncRecord*> by_correlation_;
};

/// Whether a record that names a stream means this one; records without a device mean those of all.
[[nodiscard]] bool is_stream(const StreamKey& key, std::int32_t device, std::uint64_t stream);

}  // namespace prism
