// SPDX-License-Identifier: Apache-2.0
// INPUT -> step model: the one place where readers meet the model.
//
// The format is told from content: a saved model (SQLite), an op-level timeline (CSV, plain or compressed),
// traces of the PyTorch profiler (JSON, plain or compressed, one per rank), a plan (TOML), or a folder with one timeline,
// with profiler traces, or with nodes.csv, edges.csv and pools.csv.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "prism/model/step_model.hpp"
#include "prism/plan/plan.hpp"
#include "prism/run/control.hpp"

namespace prism {

struct OpenOptions {
  LaunchDelays delays = LaunchDelays::Clean;
  std::optional<std::pair<int, int>> steps;  ///< keep profiled steps first..last (inclusive)
  bool strict = false;                       ///< refuse profiler traces that are not sound JSON
  std::optional<int> rank;                   ///< of a profiler trace that does not say it
  std::optional<std::filesystem::path>
      communication;   ///< file of kernel names that are communication, in place of the built-in list
  RunControl control;  ///< threads and cancellation of reading
};

/// The model of what is at `path` ("-": standard input). Throws InputError with file, place, what was
/// expected and a fix if it cannot be used; everything that was dropped on the way is in model.report.
StepModel open_model(const std::filesystem::path& path, const OpenOptions& options = {});

/// The same of several files, which must be profiler traces of one job.
StepModel open_model(std::span<const std::filesystem::path> paths, const OpenOptions& options = {});

/// The plan at `path`; nothing if what is there is something else. Throws what read_plan throws.
std::optional<Plan> open_plan(const std::filesystem::path& path);

}  // namespace prism
