// SPDX-License-Identifier: Apache-2.0
// A law as equally likely values.
#pragma once

#include <cstddef>
#include <vector>

#include "prism/stats/laws.hpp"

namespace prism {

/// The n quantiles at (i + 1/2) / n, ascending, scaled so that their mean is the law's. n > 0.
std::vector<double> law_pool(const Law& law, std::size_t n);

}  // namespace prism
