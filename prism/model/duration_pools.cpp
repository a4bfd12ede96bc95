// SPDX-License-Identifier: Apache-2.0
#include "prism/model/duration_pools.hpp"

#include <algorithm>
#include <array>
#include <cassert>

namespace prism {

std::string_view category_name(Category category) {
  constexpr std::array<std::string_view, kCategoryCount> kNames = {
      "compute",   "collective", "point-to-point",  "local",      "launch delay",
      "host work", "queue lag",  "unexplained lag", "step start", "waiting for untraced ranks"};
  return kNames[static_cast<std::size_t>(category)];
}

ClassId DurationPools::add(DurationClass description, std::span<const double> values, std::size_t replicas) {
  const std::size_t copies = description.per_replica ? replicas : 1;
  assert((description.own != OwnDraw::None || !values.empty()) && values.size() % copies == 0);
  description.size = static_cast<std::uint32_t>(values.size() / copies);
  assert(description.size % description.members == 0);
  description.offset = values_ns.size();
  values_ns.insert(values_ns.end(), values.begin(), values.end());
  return classes.push_back(std::move(description));
}

ClassId DurationPools::add_sharing(DurationClass description, ClassId other) {
  description.offset = classes[other].offset;
  description.size = classes[other].size;
  return classes.push_back(std::move(description));
}

DurationPools with_steps(const DurationPools& pools, std::size_t steps,
                         std::span<const std::size_t> selected) {
  DurationPools result;
  result.classes = pools.classes;
  result.values_ns.resize(pools.values_ns.size() / steps * selected.size());
  double* out = result.values_ns.data();
  for (std::size_t c = 0; c < pools.classes.size(); ++c) {
    const DurationClass& from = pools.classes[ClassId(c)];
    DurationClass& to = result.classes[ClassId(c)];
    assert(from.size == steps * from.members);
    // Classes lie one after the other, so the copies of all replicas are as many cells of `size` values.
    const std::size_t end =
        c + 1 < pools.classes.size() ? pools.classes[ClassId(c + 1)].offset : pools.values_ns.size();
    to.offset = static_cast<std::size_t>(out - result.values_ns.data());
    to.size = static_cast<std::uint32_t>(selected.size() * from.members);
    for (std::size_t at = from.offset; at < end; at += from.size) {
      const double* values = pools.values_ns.data() + at;
      if (from.members == 1) {  // most classes; a plain loop beats a copy call per value
        for (const std::size_t k : selected) *out++ = values[k];
        continue;
      }
      for (const std::size_t k : selected) out = std::copy_n(values + k * from.members, from.members, out);
    }
  }
  return result;
}

}  // namespace prism
