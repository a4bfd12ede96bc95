// SPDX-License-Identifier: Apache-2.0
#include "prism/analysis/simulated_groups.hpp"

#include <algorithm>
#include <string>

#include "prism/stats/random.hpp"

namespace prism {

std::size_t SimulatedGroups::add(const std::vector<std::int32_t>& ranks, const std::string& description,
                                 std::int32_t size, bool is_whole) {
  const auto [found, is_new] = known_.try_emplace({ranks, description, size}, groups_.size());
  if (is_new) {
    groups_.push_back(
        {std::to_string(groups_.size()), description, size, is_whole ? ranks : std::vector<std::int32_t>()});
    ranks_.push_back(ranks);
    ops_.push_back(0);
  }
  return found->second;
}

std::vector<ProcessGroup> SimulatedGroups::of_rank(std::int32_t rank) const {
  std::vector<ProcessGroup> found;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (std::ranges::binary_search(ranks_[g], rank)) found.push_back(groups_[g]);
  }
  return found;
}

std::uint64_t simulated_comms_id(std::size_t group, std::int64_t sequence, bool pair) {
  return mix_id(mix_id(group, static_cast<std::uint64_t>(sequence)), pair ? 1 : 0);
}

}  // namespace prism
