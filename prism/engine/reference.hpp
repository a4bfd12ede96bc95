// SPDX-License-Identifier: Apache-2.0
// The plain reference: one sample, one node after the other, all finish times kept, no slots, segments or
// lanes.
//
// Slow and obvious on purpose. It stands beside the fast sweep as the definition of what that must compute,
// is compared with it bit for bit in tests, and gives every node's times where a question needs them.
#pragma once

#include <cstdint>
#include <vector>

#include "prism/engine/draws.hpp"

namespace prism {

struct NodeTimes {
  std::vector<double> start_ns;     ///< [node * D + replica]
  std::vector<double> duration_ns;  ///< same shape
  double step_ns = 0;  ///< latest finish of the nodes that nothing follows, less the model's lead

  [[nodiscard]] double finish(std::size_t index) const { return start_ns[index] + duration_ns[index]; }
};

/// All times of one sample (for `recorded`: of that profiled step).
NodeTimes reference_times(const StepModel& model, const Draws& draws, std::uint32_t seed,
                          std::uint32_t sample);

}  // namespace prism
