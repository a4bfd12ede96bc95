// SPDX-License-Identifier: Apache-2.0
// What an export wrote.
#pragma once

#include <string>
#include <vector>

#include "prism/model/sampling.hpp"

namespace prism {

struct ExportResult {
  struct Step {
    int number = 0;  ///< profiled step or sample number
    double step_ns = 0;
  };
  std::string folder;
  std::vector<std::string> files;          ///< names in the folder
  std::vector<Step> steps;                 ///< in the order they stand in the files
  Sampling sampling = Sampling::Recorded;  ///< Recorded: profiled steps replayed
};

}  // namespace prism
