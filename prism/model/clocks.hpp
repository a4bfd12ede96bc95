// SPDX-License-Identifier: Apache-2.0
// Clock offsets of ranks, from the ends of matched communication.
//
// Both sides of a send/receive, and all members of a collective, end together up to noise. A rank whose clock
// is late ends late in all of them. One offset per rank for the whole trace, estimated by medians, relative
// to the median rank.
#pragma once

#include <vector>

#include "prism/model/recorded_job.hpp"
#include "prism/trace/import_report.hpp"

namespace prism {

/// Estimated offset of each rank's clock in nanoseconds [replica * stages + stage], positive: late. Offsets
/// beyond the noise (5 robust standard deviations of how matched ends scatter, and 2 ms) are taken out of `job`'s
/// times and reported; smaller ones are left alone. Empty if nothing was matched.
std::vector<double> align_clocks(RecordedJob& job, ImportReport& report);

}  // namespace prism
