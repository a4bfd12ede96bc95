// SPDX-License-Identifier: Apache-2.0
// INPUT -> step model: the one place where readers meet the model.
//
// The format is told from content: a saved model (SQLite), an op-level timeline (CSV, plain or compressed),
// or a folder with one such timeline or with nodes.csv, edges.csv and pools.csv.
#pragma once

#include <filesystem>
#include <optional>
#include <utility>

#include "prism/model/step_model.hpp"

namespace prism {

struct OpenOptions {
  LaunchDelays delays = LaunchDelays::Clean;
  std::optional<std::pair<int, int>> steps;  ///< keep profiled steps first..last (inclusive)
};

/// The model of what is at `path` ("-": standard input). Throws InputError with file, place, what was
/// expected and a fix if it cannot be used; everything that was dropped on the way is in model.report.
StepModel open_model(const std::filesystem::path& path, const OpenOptions& options = {});

}  // namespace prism
