// SPDX-License-Identifier: Apache-2.0
// Where the variance of one class of ops comes from: the step, the replica ("rank"), the cell (one replica in
// one step) or the single op. Balanced decomposition of log durations with F tests, by the formulas of
// sampling.md, sections 4 and 5.
//
// Durations are laid out [replica d][step k][member m], x[(d*n_steps + k)*n_members + m], members being the
// microbatches of one cell.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace prism {

/// Sizes of a balanced block of durations, each at least 1.
struct VarianceShape {
  std::size_t replicas = 1;  ///< D
  std::size_t steps = 1;     ///< K
  std::size_t members = 1;   ///< M

  [[nodiscard]] std::size_t size() const { return replicas * steps * members; }
};

/// Effects are differences of mean logs; variances are as estimated, each still holding a share of the next
/// lower level (v_step of v_cell/D, v_rank of v_cell/K, v_cell of v_residual/M). A variance whose divisor is
/// 0 is 0.
struct VarianceComponents {
  double mu = 0;                    ///< mean of all
  std::vector<double> step_effect;  ///< S [n_steps], sums to 0
  std::vector<double> rank_effect;  ///< r [n_replicas], sums to 0
  double v_step = 0;                ///< sum S^2 / (K-1)
  double v_rank = 0;                ///< sum r^2 / (D-1)
  double v_cell = 0;                ///< sum q^2 / ((K-1)(D-1)), q = cell mean - mu - r - S
  double v_residual = 0;            ///< sum e^2 / ((M-1)(KD-1))
  std::vector<double> residual;     ///< e = x - cell mean - position effect, laid out as x
};

/// The decomposition of x, whose size is shape.size().
VarianceComponents variance_components(std::span<const double> x, VarianceShape shape);

/// F statistics and the limits above which an effect counts as present. A statistic is NaN where a
/// degree of freedom or both variances are 0, infinite where only the variance below is 0; a limit is NaN
/// where a degree of freedom is 0.
struct FTests {
  double step = 0;  ///< v_step / (v_cell/D), K-1 and (K-1)(D-1) degrees of freedom
  double rank = 0;  ///< v_rank / (v_cell/K), D-1 and (K-1)(D-1)
  double cell = 0;  ///< v_cell / (v_residual/M), (K-1)(D-1) and (M-1)(KD-1)
  double step_limit = 0;
  double rank_limit = 0;
  double cell_limit = 0;
};

/// The tests of one decomposition at a level in (0, 1), as in sampling.md, section 5.
FTests f_tests(const VarianceComponents& components, VarianceShape shape, double level = 0.99);

/// The p-quantile of Fisher's F law, p in (0, 1); NaN if a degree of freedom is 0.
double f_quantile(double p, double df1, double df2);

/// Pearson's correlation of two series of one length, in [-1, 1]; NaN if one of them is constant or empty.
double pearson(std::span<const double> a, std::span<const double> b);

}  // namespace prism
