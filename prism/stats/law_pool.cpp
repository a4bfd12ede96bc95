// SPDX-License-Identifier: Apache-2.0
#include "prism/stats/law_pool.hpp"

#include "prism/stats/portable_factor.hpp"

namespace prism {

std::vector<double> law_pool(const Law& law, std::size_t n) {
  std::vector<double> values;
  values.reserve(n);
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    values.push_back(portable_factor(law.quantile((static_cast<double>(i) + 0.5) / static_cast<double>(n))));
    sum += values.back();
  }
  const double scale = sum == 0 ? 1 : portable_factor(law.mean()) * static_cast<double>(n) / sum;
  for (double& value : values) value *= scale;
  return values;
}

}  // namespace prism
