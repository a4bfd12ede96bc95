// SPDX-License-Identifier: Apache-2.0
// A step model in one file (job.prism): parse gigabytes once, then ask as often as you like; it may leave the
// site.
//
// The file is a SQLite database (application id "PRSM", user version 1) that the sqlite3 shell can read.
// Tables, rows in the order of the model:
//
//   meta(key, value)            source, digest, replicas, template_ranks, mesh_tp, ..., mesh_order, the
//   number of rows of
//                               each table, recording ("yes" or "no"), recording_source,
//                               recording_trial_name, ...
//   node(id, kind, name, rank, stage, microbatch, stable_id, draw_id, draw_group_size, draw_group_stride,
//   class, member,
//        replica_group_size, replica_group_stride)      64-bit ids as SQLite's signed integers
//   edge(before, after)         by after, then before; before < after
//   duration_class(id, key, category, rank, members, size, per_replica, exchangeable, offset)
//   step(number, observed_ns)   profiled steps; empty if the pools are not from any
//   inference(kind, what)
//   report(severity, reason, count, places)   one place per line; "\" and line breaks in a place are "\\" and
//   "\n" array(name, part, data)     pool_values_ns, clock_offsets_ns, recorded_start_ns, recorded_end_ns:
//   little-endian doubles,
//                               in parts of a million
//   recorded_op(id, type, stage, seq, chunk, microbatch), recorded_step(number), recorded_rank(replica,
//   stage, rank)
#pragma once

#include <filesystem>

#include "prism/model/step_model.hpp"

namespace prism {

struct SaveOptions {
  /// Takes out what names the job, its machines or its code.
  ///
  /// Goes: source ("anonymised"), digest, trial name, the report's places, global rank numbers (the smallest
  /// becomes 0, the next 1, ...), and node names, class keys and inference texts that are not made of op type
  /// names of prism/trace/op_type.hpp and numbers ("op 1", "pool 1", ...; equal names stay equal). Stays: the
  /// graph, times, step numbers, parallel sizes, op types, the report's reasons and counts, and stable ids.
  /// Those of a graph folder are hashes of its node names, so who guesses a name can confirm it.
  bool anonymise = false;
};

/// Writes `model` to `path`, as a whole or not at all; equal models give equal bytes. Throws
/// std::runtime_error if it cannot be written.
void save_model(const StepModel& model, const std::filesystem::path& path, const SaveOptions& options = {});

/// The model in a file that save_model wrote: every field as it was. Nothing in the file is trusted: throws
/// InputError if it is another kind of file, made by a newer version, damaged, or contradicts itself.
StepModel load_model(const std::filesystem::path& path);

}  // namespace prism
