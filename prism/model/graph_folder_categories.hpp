// SPDX-License-Identifier: Apache-2.0
// Names of categories in nodes.csv, by Category: as category_name, but without spaces.
#pragma once

#include <array>
#include <string_view>

#include "prism/model/duration_pools.hpp"

namespace prism {

inline constexpr std::array<std::string_view, kCategoryCount> kFolderCategories = {
    "compute",   "collective", "point-to-point",  "local",      "launch-delay",
    "host-work", "queue-lag",  "unexplained-lag", "step-start", "waiting"};

}  // namespace prism
