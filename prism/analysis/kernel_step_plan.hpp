// SPDX-License-Identifier: Apache-2.0
// One rank's part of a simulated step at kernel level: when each host call and each GPU op happens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "prism/analysis/kernel_roles.hpp"
#include "prism/analysis/simulated_steps.hpp"

namespace prism {

struct PlannedCall {
  std::optional<std::size_t>
      role;  ///< index into RankRoles::calls; none: a launch that the model does not have
  std::int64_t start_ns = 0;
  std::optional<std::int64_t> end_ns;  ///< of calls that block
  std::vector<std::size_t> launched;   ///< indices into StepPlan::ops
};

struct PlannedOp {
  std::size_t role = 0;  ///< index into RankRoles::ops
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::size_t call = 0;                ///< index into StepPlan::calls
  std::vector<std::size_t> waits_for;  ///< ops of other streams, indices into StepPlan::ops
};

/// Times against the begin of the step, the end of the step before; in order of start.
struct StepPlan {
  std::vector<PlannedCall> calls;
  std::vector<PlannedOp> ops;
  std::map<std::int64_t, std::int64_t> busy_until;  ///< streams that are busy with earlier work at first

  /// Latest begin or return of a call; 0 without calls.
  [[nodiscard]] std::int64_t host_end_ns() const;
};

/// What the step did not run (ops without length, calls that neither launch nor wait for anything) is left out.
StepPlan plan_step(const StepModel& model, const RankRoles& roles, const NodeTimes& times,
                   std::uint32_t replica);

}  // namespace prism
