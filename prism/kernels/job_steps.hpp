// SPDX-License-Identifier: Apache-2.0
// The profiled steps that all traced ranks share, on one clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "prism/kernels/rank_recording.hpp"
#include "prism/trace/import_report.hpp"

namespace prism {

struct JobSteps {
  std::vector<int> numbers;                      ///< ascending in time, size K
  std::vector<std::vector<std::size_t>> chosen;  ///< [rank][step] index into the rank's steps
  std::vector<std::int64_t> begin_ns;            ///< [step] last GPU end of any rank before it, common clock
  std::vector<std::int64_t> end_ns;              ///< [step] its own last GPU end
  std::int64_t lead_ns = 0;  ///< longest time by which a host began a step before that step's begin

  [[nodiscard]] std::size_t size() const { return numbers.size(); }
};

/// Steps are told by number and, where a number occurs several times, by its occurrence. Steps that some rank lacks, or
/// that end before they begin, are left out and reported. Throws InputError if nothing is left.
JobSteps find_job_steps(const KernelRecording& job, ImportReport& report);

}  // namespace prism
