// SPDX-License-Identifier: Apache-2.0
// How well predicted samples fit observations: PIT (is the spread right?) and CRPS (is the whole law right?).
//
// Both follow sampling.md, section 7.1. CRPS is in the samples' unit, 0 is perfect, lower is better; it is
// the energy form of Gneiting and Raftery (2007), eq. 21. Score many observations against one ensemble with
// CrpsEnsemble:
//
//   CrpsEnsemble ensemble(samples);
//   for (double y : observed) total += ensemble.score(y);
#pragma once

#include <span>
#include <vector>

namespace prism {

/// (P(X < y) + P(X <= y))/2 under the samples, in [0, 1]; uniform over observations of a right law. `sorted`
/// is ascending and not empty.
double pit(std::span<const double> sorted, double y);

/// mean|X-y| - mean|X-X'|/2 with X, X' over all n^2 pairs, equal ones too. `sorted` is ascending and not
/// empty; O(n).
double crps(std::span<const double> sorted, double y);

/// A sample set prepared for scoring: O(n log n) once, O(log n) per observation.
class CrpsEnsemble {
 public:
  /// `samples` in any order, not empty, finite.
  explicit CrpsEnsemble(std::vector<double> samples);

  /// The same as crps().
  [[nodiscard]] double score(double y) const { return mean_distance(y) - half_mean_difference_; }
  /// mean|X-y|.
  [[nodiscard]] double mean_distance(double y) const;
  /// mean|X-X'|/2, the spread that a score subtracts.
  [[nodiscard]] double half_mean_difference() const { return half_mean_difference_; }
  /// Ascending.
  [[nodiscard]] std::span<const double> sorted() const { return sorted_; }

 private:
  std::vector<double> sorted_;
  std::vector<double> sums_;  ///< sums_[i]: of the first i samples, each less the middle one
  double half_mean_difference_ = 0;
};

}  // namespace prism
