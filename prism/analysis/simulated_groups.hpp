// SPDX-License-Identifier: Apache-2.0
// Process groups of simulated communication: who moves data together, and how operations are numbered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "prism/trace/rank_trace.hpp"

namespace prism {

class SimulatedGroups {
 public:
  /// Index of the group with these ranks (ascending), this description and size; named by its number when new.
  /// `is_whole`: there are no others in it, so its members can be listed.
  std::size_t add(const std::vector<std::int32_t>& ranks, const std::string& description, std::int32_t size,
                  bool is_whole);

  /// Number of a group's next operation in a step, from 0.
  std::int64_t next_ordinal(std::size_t group) { return ops_[group]++; }

  /// "Seq" of an operation in the step with that number.
  [[nodiscard]] std::int64_t sequence(std::size_t group, std::size_t step, std::int64_t ordinal) const {
    return static_cast<std::int64_t>(step) * ops_[group] + ordinal + 1;
  }

  [[nodiscard]] const ProcessGroup& operator[](std::size_t group) const { return groups_[group]; }

  /// Those that a rank belongs to.
  [[nodiscard]] std::vector<ProcessGroup> of_rank(std::int32_t rank) const;

 private:
  std::map<std::tuple<std::vector<std::int32_t>, std::string, std::int32_t>, std::size_t> known_;
  std::vector<ProcessGroup> groups_;
  std::vector<std::vector<std::int32_t>> ranks_;
  std::vector<std::int64_t> ops_;  // [group] operations in a step
};

/// "Comms Id": equal for the members of one operation and no others.
std::uint64_t simulated_comms_id(std::size_t group, std::int64_t sequence, bool pair);

}  // namespace prism
