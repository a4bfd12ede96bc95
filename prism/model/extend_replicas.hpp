// SPDX-License-Identifier: Apache-2.0
// A traced job with more data-parallel replicas than were traced: from one traced rank to the whole job, or
// from the job as it is to a larger one.
//
//   2 replicas traced, 5 asked for:   replica   0   1   2   3   4
//                                     pools of  0   1   0   1   0
//
// Copies share the pools of the traced replicas, so memory does not grow, and draw profiled steps of their
// own. Communication that spans replicas makes all of them meet; what a traced rank waited there for ranks
// that were not traced then comes out of the simulation. Lasting differences between ranks are factors on the
// copies' compute.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "prism/model/step_model.hpp"

namespace prism {

struct ExtendOptions {
  std::uint32_t replicas = 1;  ///< D, all replicas of the result
  /// Coefficient of variation of ranks' compute speed; nothing: as measured between the traced ranks.
  std::optional<double> spatial_cv;
  std::uint32_t seed = 1;
};

/// The model with D replicas; as it is if it has D. Steps, observed times and pools stay those of the trace.
///
/// Nodes with `over_replicas` wait for all replicas, and their Waiting becomes zero if there are more
/// replicas than before; other replica groups stay. With fewer replicas than traced, the first D are used.
///
/// A copied rank's compute is multiplied by a lognormal factor of mean 1 (keyed by seed, replica and rank),
/// over how slow the traced rank it copies is among its equals, so that the copies' speeds have the spread
/// asked for and not that of the traced ranks on top. Equals are ranks of one stage with equally many compute
/// ops; the measured spread needs 4 of them and has the noise of its few steps taken out.
///
/// What was done is in model.report. Throws InputError if a replica group does not divide D. Precondition:
/// the model was not extended before.
StepModel extend_replicas(const StepModel& model, const ExtendOptions& options);

/// How many replicas make the whole job of a model whose ranks waited for ranks that were not traced; nothing
/// if all were traced, or the traced ranks do not divide the job.
std::optional<std::uint32_t> replicas_of_whole_job(const StepModel& model);

/// What a forecast of an extended model cannot know, in words; empty for others.
std::vector<std::string> extension_warnings(const StepModel& model);

}  // namespace prism
