// SPDX-License-Identifier: Apache-2.0
// A step model in one file (job.prism): parse gigabytes once, then ask as often as you like; it may leave the site.
//
// The file is a SQLite database (application id "PRSM", user version 2) that any SQLite shell can read. Its tables are
// described in docs/formats.md and defined in saved_model_schema.hpp.
#pragma once

#include <filesystem>

#include "prism/model/step_model.hpp"

namespace prism {

struct SaveOptions {
  /// Takes out what names the job, its machines or its code.
  ///
  /// Goes: source ("anonymised"), digest, trial name, the report's places, global rank numbers of the recording
  /// (the smallest becomes 0, the next 1, ...), and node names, class keys and inference texts that are not made of op type
  /// names of prism/trace/op_type.hpp and numbers ("op 1", "pool 1", ...; equal names stay equal). Stays: the
  /// graph, times, step numbers, parallel sizes, op types, the report's reasons and counts, and stable ids.
  /// Those of a graph folder are hashes of its node names, so who guesses a name can confirm it.
  bool anonymise = false;
};

/// Writes `model` to `path`, as a whole or not at all; equal models give equal bytes. Throws
/// std::runtime_error if it cannot be written.
void save_model(const StepModel& model, const std::filesystem::path& path, const SaveOptions& options = {});

/// The model in a file that save_model wrote: every field as it was. A file of version 1 lacks what came
/// later; those of its nodes that wait for all replicas count as over_replicas. Nothing in the file is trusted: throws
/// InputError if it is another kind of file, made by a newer version, damaged, or contradicts itself.
StepModel load_model(const std::filesystem::path& path);

}  // namespace prism
