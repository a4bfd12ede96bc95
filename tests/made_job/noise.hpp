// SPDX-License-Identifier: Apache-2.0
// Random numbers of a made-up job, by what they are for (`Use`, an enumeration of the generator's own).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>

#include "prism/stats/random.hpp"

namespace prism {

template <class Use>
class Noise {
 public:
  explicit Noise(std::uint32_t seed) : seed_(seed) {}

  /// A positive factor with mean 1 and coefficient of variation about `cv`.
  double factor(double cv, Use use, std::uint64_t id, int replica, std::size_t step) const {
    if (cv == 0) return 1;
    return std::exp(cv * normal(use, id, replica, step) - cv * cv / 2);
  }

  /// Exponential with the given mean.
  double exponential(double mean, Use use, std::uint64_t id, int replica, std::size_t step) const {
    if (mean == 0) return 0;
    return -mean * std::log(unit(use, id, replica, step));
  }

  /// Uniform between 0 and 1.
  double unit(Use use, std::uint64_t id, int replica, std::size_t step) const {
    return unit(use, id, 0, replica, step);
  }

 private:
  double unit(Use use, std::uint64_t id, std::uint64_t part, int replica, std::size_t step) const {
    const std::uint64_t key = mix_id(mix_id(static_cast<std::uint64_t>(use), id), part);
    return unit_from_word(random_word(seed_, Purpose::Generator, key, static_cast<std::uint32_t>(replica),
                                      static_cast<std::uint32_t>(step)));
  }

  /// Box and Muller's transform, of which one of two values is used.
  double normal(Use use, std::uint64_t id, int replica, std::size_t step) const {
    const double radius = std::sqrt(-2 * std::log(unit(use, id, 0, replica, step)));
    return radius * std::cos(2 * std::numbers::pi * unit(use, id, 1, replica, step));
  }

  std::uint32_t seed_;
};

}  // namespace prism
