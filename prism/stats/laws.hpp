// SPDX-License-Identifier: Apache-2.0
// Parametric laws of durations, and which of them describes a pool best.
//
// `inspect` names the law of a pool with it (one sharp mode, a long tail, two modes of a link), and a
// scenario may replace a pool by a law. Candidates: normal, lognormal, gamma, the last two with a minimum
// duration ("shifted"), and a mixture of two lognormals. Every one is fitted, then ranked by its
// Kolmogorov-Smirnov distance to the pool:
//
//   const RankedLaw best = fit_laws(pool_ns).front();   // best.law.name(), best.ks
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

namespace prism {

/// All mass in one point.
struct ConstantLaw {
  double value = 0;
  friend bool operator==(const ConstantLaw&, const ConstantLaw&) = default;
};

struct NormalLaw {
  double mean = 0;
  double sd = 1;  ///< > 0
  friend bool operator==(const NormalLaw&, const NormalLaw&) = default;
};

/// shift + exp(N(mu, sigma)).
struct LognormalLaw {
  double mu = 0;
  double sigma = 1;  ///< > 0
  double shift = 0;  ///< lower end of the support; 0: the plain law
  friend bool operator==(const LognormalLaw&, const LognormalLaw&) = default;
};

/// shift + Gamma(shape, scale), mean shift + shape*scale.
struct GammaLaw {
  double shape = 1;  ///< > 0
  double scale = 1;  ///< > 0
  double shift = 0;  ///< lower end of the support; 0: the plain law
  friend bool operator==(const GammaLaw&, const GammaLaw&) = default;
};

/// exp(N(mu_low, sigma_low)) with probability 1-weight, exp(N(mu_high, sigma_high)) with probability
/// `weight`.
struct LognormalMixtureLaw {
  double weight = 0.5;  ///< of the slow mode, in (0, 1)
  double mu_low = 0;
  double sigma_low = 1;   ///< > 0
  double mu_high = 1;     ///< >= mu_low
  double sigma_high = 1;  ///< > 0
  friend bool operator==(const LognormalMixtureLaw&, const LognormalMixtureLaw&) = default;
};

/// One law of any of these forms, in the unit of the values it was fitted to (mu and sigma in logs of that
/// unit).
struct Law {
  std::variant<ConstantLaw, NormalLaw, LognormalLaw, GammaLaw, LognormalMixtureLaw> form;

  /// "constant", "normal", "lognormal", "shifted lognormal", "gamma", "shifted gamma" or "lognormal mixture".
  [[nodiscard]] std::string_view name() const;
  /// Free parameters: 1, 2, 2, 3, 2, 3 and 5, in the order of name().
  [[nodiscard]] std::size_t parameter_count() const;
  /// P(X <= x).
  [[nodiscard]] double cdf(double x) const;
  /// The x with cdf(x) = u, u in (0, 1).
  [[nodiscard]] double quantile(double u) const;
  [[nodiscard]] double mean() const;
  [[nodiscard]] double sd() const;
  friend bool operator==(const Law&, const Law&) = default;
};

/// Kolmogorov-Smirnov distance of the values from the law, both sides of each jump. `sorted` is ascending,
/// not empty.
double ks_to_law(std::span<const double> sorted, const Law& law);

struct RankedLaw {
  Law law;
  double ks = 0;  ///< ks_to_law of the fitted values
};

/// All candidates that apply, best first; never empty. `values` in any order, not empty, finite.
///
/// Normal and lognormal by moments (of the logs), gamma by maximum likelihood, a shift by maximum profile
/// likelihood with the shift at least sd/n below the minimum (nearer, the likelihood is unbounded), the
/// mixture by EM. Positive values get the two plain positive laws, a shift of at least 0 and, from 30 values,
/// the mixture. Shift and EM look at 256 evenly spaced order statistics of a larger pool.
///
/// A law ranks above one with fewer parameters only if the latter's distance is above ks_noise_mean(n), so
/// that more than chance is left to explain (it is also near the 95 % limit of Lilliefors (1967) for a fitted
/// normal law), and its own is more than 10 % smaller. Equal counts rank by distance.
///
/// Fewer than 4 values, or values equal up to rounding: a single ConstantLaw at their mean.
std::vector<RankedLaw> fit_laws(std::span<const double> values);

}  // namespace prism
