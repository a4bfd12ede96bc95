// SPDX-License-Identifier: Apache-2.0
#include "cli/input.hpp"

#include <filesystem>
#include <optional>
#include <vector>

#include "prism/analysis/open_model.hpp"

namespace prism::cli {

StepModel open_input(const CommonOptions& options, LaunchDelays delays) {
  const std::vector<std::filesystem::path> paths(options.inputs.begin(), options.inputs.end());
  RunControl reading = options.control;
  reading.progress = {};
  return open_model(paths,
                    {.delays = delays,
                     .steps = options.steps,
                     .strict = options.strict,
                     .rank = options.rank,
                     .communication = options.communication.empty()
                                          ? std::nullopt
                                          : std::optional<std::filesystem::path>(options.communication),
                     .control = reading});
}

}  // namespace prism::cli
