// SPDX-License-Identifier: Apache-2.0
// Kolmogorov-Smirnov distances: the largest gap between two cumulative distributions, 0 (equal) to 1
// (disjoint).
//
// Validation measures PIT values against the uniform law with it, and names what a perfect law would still
// show by chance (sampling.md, section 7.1).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace prism {

/// Distance of two samples, both ascending and not empty; ties count once on both sides. Linear time.
double ks_two_sample(std::span<const double> a, std::span<const double> b);

/// Distance of values in [0, 1], in any order and not empty, from the uniform law; both sides of each jump
/// count.
double ks_uniform(std::vector<double> values);

/// Mean distance of n values of a perfect law from it, 0.86/sqrt(n) (simulated in sampling.md, section 7.1).
/// n >= 1.
double ks_noise_mean(std::size_t n);

/// 95 % limit of that distance, 1.35/sqrt(n).
double ks_noise_95(std::size_t n);

}  // namespace prism
