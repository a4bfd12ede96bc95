// SPDX-License-Identifier: Apache-2.0
// Validation: each sampling model predicts profiled steps that its pools have not seen.
//
// Folds: `alternating` leaves out every other step (two folds), `blocks` a quarter of the run at a time (four
// folds). Structure (graph, inferred edges and waits) may use all steps; pools and step effects only the
// training steps. Scores against observed step times: Kolmogorov-Smirnov distance of the probability integral
// transform, matched p50 and p95 errors, and CRPS relative to resampling the training folds' observed step
// times, which needs no model at all.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "prism/model/sampling.hpp"
#include "prism/model/step_model.hpp"
#include "prism/run/control.hpp"

namespace prism {

enum class FoldKind : std::uint8_t { Alternating, Blocks };

/// "alternating" or "blocks".
std::string_view fold_name(FoldKind kind);

struct ValidateOptions {
  std::uint32_t samples = 2000;  ///< per fold
  std::uint32_t seed = 1;
};

/// How one model predicts steps left out by one kind of fold.
struct ModelScore {
  std::string name;
  FoldKind folds = FoldKind::Alternating;
  double p50_error = 0;              ///< relative, signed, matched: of sets as large as the observed steps
  double p50_low = 0, p50_high = 0;  ///< 5 and 95 % of the same error by chance
  double p95_error = 0;
  double p95_low = 0, p95_high = 0;
  double ks = 0;
  double ks_noise = 0;    ///< 95 % limit for a perfect model
  double crps_ratio = 0;  ///< to the bootstrap of observed step times
};

struct ValidateResult {
  std::vector<ModelScore> models;    ///< kSamplingModels x fold kinds
  std::vector<ModelScore> baseline;  ///< bootstrap of observed step times, per fold kind
  StepEffects effects;               ///< on all steps
  double coupling = 0;               ///< microbatch_coupling on all steps
  Sampling chosen = Sampling::Hierarchical;
  std::string target =
      "observed";  ///< what was predicted: step times as observed, or as replayed without delays
  std::vector<std::string> findings;  ///< what the effects say about the job, in words
  std::vector<std::string> warnings;

  [[nodiscard]] const ModelScore& score(std::string_view model, FoldKind folds) const;
};

/// Throws InputError if the model has fewer than 4 profiled steps: nothing can be left out.
ValidateResult validate(const StepModel& model, const ValidateOptions& options, const RunControl& control);

}  // namespace prism
