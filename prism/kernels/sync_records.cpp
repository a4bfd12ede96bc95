// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/sync_records.hpp"

#include <algorithm>

namespace prism {

SyncRecords::SyncRecords(const RankTrace& trace) {
  for (const SyncRecord& record : trace.syncs) {
    if (record.correlation > 0) by_correlation_.push_back(&record);
  }
  std::ranges::stable_sort(by_correlation_, {}, &SyncRecord::correlation);
}

const SyncRecord* SyncRecords::with_correlation(std::int64_t correlation) const {
  const auto found = std::ranges::lower_bound(by_correlation_, correlation, {}, &SyncRecord::correlation);
  return found != by_correlation_.end() && (*found)->correlation == correlation ? *found : nullptr;
}

bool is_stream(const StreamKey& key, std::int32_t device, std::uint64_t stream) {
  return key.stream == stream && (device < 0 || key.device < 0 || key.device == device);
}

}  // namespace prism
