// SPDX-License-Identifier: Apache-2.0
// What the import report says of matched communication: how much was matched and by what, and what was left alone.
#pragma once

#include <span>

#include "prism/kernels/match_collectives.hpp"
#include "prism/trace/import_report.hpp"

namespace prism {

/// Matches by evidence, and each op left local under its reason. Losses are ops that the recordings contradict or say too
/// little about; what has no partner in the other traces is information.
void report_matching(std::span<const RankTrace> traces, std::span<const RankCommunication> communication,
                     const CollectiveMatching& matching, ImportReport& report);

}  // namespace prism
