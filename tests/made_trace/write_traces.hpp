// SPDX-License-Identifier: Apache-2.0
// The traces of a made-up job as files, for tests of whole programs.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "prism/trace/rank_trace.hpp"

namespace prism {

/// Writes rank0.json.gz, rank1.json.gz, ... into an existing folder and returns their paths. Traces without a rank are
/// numbered by their place.
std::vector<std::filesystem::path> write_traces(std::span<const RankTrace> traces,
                                                const std::filesystem::path& folder);

}  // namespace prism
