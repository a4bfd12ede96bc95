// SPDX-License-Identifier: Apache-2.0
// Who moves data with whom in a kernel-level model, as process groups and operations of global ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "prism/analysis/kernel_roles.hpp"
#include "prism/analysis/simulated_groups.hpp"
#include "prism/kernels/split_collectives.hpp"
#include "prism/model/step_model.hpp"

namespace prism {

/// One operation of a step.
struct KernelCommunication {
  struct Member {
    NodeId node;  ///< its transfer
    std::uint32_t replica = 0;
    friend auto operator<=>(const Member&, const Member&) = default;
  };
  std::vector<Member> members;  ///< ascending
  std::size_t group = 0;
  std::int64_t ordinal = 0;  ///< among those of its group in a step
  bool pair = false;         ///< a send and its receive
};

class KernelCommunications {
 public:
  /// Keeps a reference to the model.
  KernelCommunications(const StepModel& model, const KernelRoles& roles);

  /// Of rank number `index`, ordered by replica, then template rank.
  [[nodiscard]] std::int32_t global_rank(std::size_t index) const { return global_ranks_[index]; }
  [[nodiscard]] std::size_t rank_count() const { return global_ranks_.size(); }
  [[nodiscard]] std::int32_t world_size() const;
  [[nodiscard]] const SimulatedGroups& groups() const { return groups_; }

  /// What a transfer is part of, indices into all(): several if one op sends and receives; empty for copies.
  [[nodiscard]] const std::vector<std::size_t>& of(KernelCommunication::Member transfer) const;
  [[nodiscard]] const std::vector<KernelCommunication>& all() const { return all_; }

  /// What is known of a transfer; all unknown in an anonymised model.
  [[nodiscard]] CommunicationPool pool_of(NodeId transfer) const;

  /// Whether a member of a pair sends.
  [[nodiscard]] bool sends(const KernelCommunication& pair, KernelCommunication::Member member) const;
  [[nodiscard]] std::int32_t rank_of(KernelCommunication::Member member) const;

 private:
  void number_ranks();
  void collect(const KernelRoles& roles);
  void describe(KernelCommunication& communication);
  [[nodiscard]] std::optional<Axis> axis_of(const std::vector<std::int32_t>& ranks, std::int32_t size) const;
  [[nodiscard]] std::vector<std::int32_t> whole_axis(std::vector<std::int32_t> pair) const;
  [[nodiscard]] std::string description(const std::vector<std::int32_t>& ranks, std::int32_t size,
                                        bool over_replicas) const;

  const StepModel& model_;
  std::vector<std::int32_t> global_ranks_;
  SimulatedGroups groups_;
  std::vector<KernelCommunication> all_;
  std::map<KernelCommunication::Member, std::vector<std::size_t>> of_;
  std::vector<NodeId> meeting_of_;   // beside all_; of a lone transfer the transfer
  std::map<NodeId, bool> untraced_;  // meetings that ranks without a trace take part in
};

}  // namespace prism
