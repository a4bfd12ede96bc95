// SPDX-License-Identifier: Apache-2.0
#include "cli/extension.hpp"

#include "cli/output.hpp"
#include "prism/model/extend_replicas.hpp"

namespace prism::cli {

StepModel extended(const StepModel& traced, const ExtensionOptions& options, bool whole_job,
                   std::uint32_t seed) {
  std::optional<std::uint32_t> replicas = options.replicas;
  if (!replicas && whole_job) replicas = replicas_of_whole_job(traced);
  if (options.spatial_cv && replicas.value_or(traced.replicas) <= traced.replicas) {
    throw UsageError(
        "--spatial-cv is for ranks that were not traced; --replicas says how many replicas to make");
  }
  return extend_replicas(
      traced,
      {.replicas = replicas.value_or(traced.replicas), .spatial_cv = options.spatial_cv, .seed = seed});
}

}  // namespace prism::cli
