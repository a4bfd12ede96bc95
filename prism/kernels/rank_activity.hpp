// SPDX-License-Identifier: Apache-2.0
// Where the time of each rank's GPU went in the profiled steps.
#pragma once

#include <vector>

#include "prism/kernels/job_steps.hpp"
#include "prism/kernels/rank_recording.hpp"
#include "prism/model/step_model.hpp"

namespace prism {

/// Shares of the steps together, per rank. At each moment the first of these that holds: a compute op runs (busy); a
/// communication whose traced members have all started runs (exposed communication); a communication runs that a
/// traced member has not reached (waiting for others); nothing runs (waiting for the host).
std::vector<RankActivity> find_rank_activity(const KernelRecording& job, const JobSteps& steps);

}  // namespace prism
