// SPDX-License-Identifier: Apache-2.0
// What every result document says about the run that made it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace prism {

/// "0.1.0".
std::string_view prism_version();

struct RunInfo {
  std::optional<std::uint32_t> seed;  ///< absent for deterministic commands
  bool timing = false;                ///< include wall-clock figures (they differ from run to run)
};

}  // namespace prism
