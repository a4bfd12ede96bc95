// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

#include <boost/math/special_functions/digamma.hpp>
#include <boost/math/special_functions/trigamma.hpp>

#include "prism/stats/distance.hpp"
#include "prism/stats/laws.hpp"
#include "prism/stats/quantiles.hpp"

namespace prism {
namespace {

namespace policies = boost::math::policies;
// Extreme but finite pools must not throw; a candidate that overflows is dropped by its non-finite
// parameters.
using Quiet =
    policies::policy<policies::domain_error<policies::ignore_error>,
                     policies::pole_error<policies::ignore_error>,
                     policies::overflow_error<policies::ignore_error>,
                     policies::evaluation_error<policies::ignore_error>, policies::promote_double<false>>;

constexpr std::size_t kMinValues = 4;
constexpr std::size_t kMinMixtureValues = 30;
constexpr std::size_t kThinned = 256;
constexpr double kRoundingCv = 1e-13;  // a spread below this is rounding of equal values

// Each fit takes ascending values and returns a law with finite parameters, or nothing.

bool is_usable(double location, double spread) {
  return std::isfinite(location) && std::isfinite(spread) && spread > 0;
}

std::vector<double> logs_above(std::span<const double> values, double shift) {
  std::vector<double> logs;
  logs.reserve(values.size());
  for (const double value : values) logs.push_back(std::log(value - shift));
  return logs;
}

std::optional<LognormalLaw> fit_lognormal(std::span<const double> values, double shift) {
  const Moments of_logs = moments(logs_above(values, shift));
  if (!is_usable(of_logs.mean, of_logs.sd)) return std::nullopt;
  return LognormalLaw{of_logs.mean, of_logs.sd, shift};
}

/// The shape k with log(k) - digamma(k) = s: maximum likelihood for s = log(mean) - mean(log). s > 0.
double gamma_shape(double s) {
  // Where the difference cancels, its expansion 1/(2k) + 1/(12k^2) is exact to 1e-11.
  if (s < 5e-4) return (3 + std::sqrt(9 + 12 * s)) / (12 * s);
  double shape =
      (3 - s + std::sqrt((s - 3) * (s - 3) + 24 * s)) / (12 * s);  // Minka (2002), 1.5 % off at most
  for (int i = 0; i < 4; ++i) {
    const double error = std::log(shape) - boost::math::digamma(shape, Quiet()) - s;
    const double slope = 1 / shape - boost::math::trigamma(shape, Quiet());
    const double next = shape - error / slope;
    if (!(next > 0)) break;
    const bool is_close = std::abs(next - shape) < 1e-9 * shape;
    shape = next;
    if (is_close) break;
  }
  return shape;
}

std::optional<GammaLaw> fit_gamma(std::span<const double> values, double shift) {
  const auto n = static_cast<double>(values.size());
  double mean = 0;
  for (const double value : values) mean += (value - shift) / n;
  // log(mean) - mean(log), as the mean of z - log(1+z) with z = value/mean - 1: no cancellation for a small
  // spread.
  double s = 0;
  for (const double value : values) {
    const double z = (value - shift - mean) / mean;
    s += (z - std::log1p(z)) / n;
  }
  if (!is_usable(mean, s)) return std::nullopt;
  const double shape = gamma_shape(s);
  const double scale = mean / shape;
  if (!is_usable(shape, scale)) return std::nullopt;
  return GammaLaw{shape, scale, shift};
}

/// Mean log likelihood of the best lognormal above a shift.
double log_likelihood(const LognormalLaw& law) {
  return -law.mu - std::log(law.sigma);
}

/// The same for the best gamma law: its mean log is digamma(shape) + log(scale).
double log_likelihood(const GammaLaw& law) {
  const double k = law.shape;
  return (k - 1) * boost::math::digamma(k, Quiet()) - k - std::log(law.scale) - std::lgamma(k);
}

/// The shift whose fit has the highest likelihood, by a geometric grid of distances below the minimum and a
/// golden section around the best; nothing if there is no room, or if a positive pool needs no shift.
template <class Fit>
std::optional<double> best_shift(std::span<const double> thinned, const Moments& all, std::size_t n,
                                 Fit fit) {
  constexpr int kGrid = 12;
  constexpr int kGolden = 10;
  constexpr double kFarthest = 30;  // standard deviations; farther, the law is a normal one
  const double nearest = all.sd / static_cast<double>(n);
  const double farthest = all.min > 0 ? std::min(all.min, kFarthest * all.sd) : kFarthest * all.sd;
  if (!(nearest < farthest) || !std::isfinite(farthest)) return std::nullopt;

  const double first = std::log(nearest);
  const double step = (std::log(farthest) - first) / (kGrid - 1);
  const auto likelihood = [&](double log_distance) {
    const auto law = fit(thinned, all.min - std::exp(log_distance));
    return law ? log_likelihood(*law) : -std::numeric_limits<double>::infinity();
  };
  double best = first;
  double best_likelihood = likelihood(first);
  for (int i = 1; i < kGrid; ++i) {
    const double here = likelihood(first + i * step);
    if (here > best_likelihood) {
      best = first + i * step;
      best_likelihood = here;
    }
  }
  double low = std::max(first, best - step);
  double high = std::min(first + (kGrid - 1) * step, best + step);
  constexpr double kShrink = 1 / std::numbers::phi;
  double left = high - kShrink * (high - low);
  double right = low + kShrink * (high - low);
  double at_left = likelihood(left);
  double at_right = likelihood(right);
  for (int i = 0; i < kGolden; ++i) {
    if (at_left > at_right) {
      high = right;
      right = left;
      at_right = at_left;
      left = high - kShrink * (high - low);
      at_left = likelihood(left);
    } else {
      low = left;
      left = right;
      at_left = at_right;
      right = low + kShrink * (high - low);
      at_right = likelihood(right);
    }
  }
  const double distance = std::exp((low + high) / 2);
  constexpr double kAll = 0.99;  // of the minimum: as good as no shift
  if (all.min > 0 && distance > kAll * all.min) return std::nullopt;
  return all.min - distance;
}

/// At most kThinned order statistics, evenly spaced: the whole shape of a large pool at a bounded cost.
std::vector<double> thinned(std::span<const double> sorted) {
  if (sorted.size() <= kThinned) return {sorted.begin(), sorted.end()};
  std::vector<double> picked(kThinned);
  for (std::size_t i = 0; i < kThinned; ++i) {
    picked[i] = sorted[(2 * i + 1) * sorted.size() / (2 * kThinned)];
  }
  return picked;
}

/// The cut of ascending values into two groups with the least sum of squares inside them: size of the lower
/// group.
std::size_t best_cut(std::span<const double> sorted) {
  const double center = sorted[sorted.size() / 2];
  double total = 0;
  for (const double value : sorted) total += value - center;
  double below = 0;
  double best_between = -1;
  std::size_t best = 1;
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    below += sorted[i - 1] - center;
    const auto n_low = static_cast<double>(i);
    const auto n_high = static_cast<double>(sorted.size() - i);
    const double above = total - below;
    const double between = below * below / n_low + above * above / n_high;
    if (between > best_between) {
      best_between = between;
      best = i;
    }
  }
  return best;
}

std::optional<LognormalMixtureLaw> fit_mixture(std::span<const double> sorted) {
  constexpr int kMaxIterations = 60;
  constexpr double kTolerance = 1e-6;      // of the spread of all logs
  constexpr double kSmallestSigma = 1e-3;  // of the same; without it EM ends on two equal values
  const std::vector<double> logs = logs_above(sorted, 0);
  const Moments all = moments(logs);
  if (!is_usable(all.mean, all.sd)) return std::nullopt;
  const double floor = kSmallestSigma * all.sd;
  const auto n = static_cast<double>(logs.size());

  const std::size_t cut = best_cut(logs);
  const Moments low = moments(std::span(logs).first(cut));
  const Moments high = moments(std::span(logs).subspan(cut));
  LognormalMixtureLaw law{1 - static_cast<double>(cut) / n, low.mean, std::max(low.sd, floor), high.mean,
                          std::max(high.sd, floor)};
  for (int i = 0; i < kMaxIterations; ++i) {
    // Sums of the slow mode's responsibilities and of centered logs; the fast mode's are the rest.
    const double odds = std::log(law.weight / (1 - law.weight) * law.sigma_low / law.sigma_high);
    double weight = 0;
    double sum = 0;
    double square = 0;
    double sum_all = 0;
    double square_all = 0;
    for (const double value : logs) {
      const double z_low = (value - law.mu_low) / law.sigma_low;
      const double z_high = (value - law.mu_high) / law.sigma_high;
      const double slow = 1 / (1 + std::exp((z_high * z_high - z_low * z_low) / 2 - odds));
      const double x = value - all.mean;
      weight += slow;
      sum += slow * x;
      square += slow * x * x;
      sum_all += x;
      square_all += x * x;
    }
    if (!(weight > 1) || !(n - weight > 1)) return std::nullopt;  // one mode has died out
    const auto sigma = [&](double w, double s, double q) {
      return std::max(std::sqrt(std::max(0.0, q / w - (s / w) * (s / w))), floor);
    };
    const double rest = n - weight;
    const LognormalMixtureLaw next{weight / n, all.mean + (sum_all - sum) / rest,
                                   sigma(rest, sum_all - sum, square_all - square), all.mean + sum / weight,
                                   sigma(weight, sum, square)};
    const double moved =
        std::max({std::abs(next.mu_low - law.mu_low), std::abs(next.mu_high - law.mu_high),
                  std::abs(next.sigma_low - law.sigma_low), std::abs(next.sigma_high - law.sigma_high)});
    law = next;
    if (moved < kTolerance * all.sd) break;
  }
  if (law.mu_low > law.mu_high) {
    law = {1 - law.weight, law.mu_high, law.sigma_high, law.mu_low, law.sigma_low};
  }
  if (!is_usable(law.mu_low, law.sigma_low) || !is_usable(law.mu_high, law.sigma_high)) return std::nullopt;
  return law;
}

/// Orders by the rule of fit_laws: again and again the champion of what is left, simple laws first.
std::vector<RankedLaw> ranked(std::vector<RankedLaw> laws, std::size_t n) {
  constexpr double kNeededShare = 0.9;
  std::stable_sort(laws.begin(), laws.end(), [](const RankedLaw& a, const RankedLaw& b) {
    const std::size_t count_a = a.law.parameter_count();
    const std::size_t count_b = b.law.parameter_count();
    return count_a != count_b ? count_a < count_b : a.ks < b.ks;
  });
  const double noise = ks_noise_mean(n);
  for (auto place = laws.begin(); place != laws.end(); ++place) {
    auto champion = place;
    for (auto other = place + 1; other != laws.end(); ++other) {
      const bool is_simpler = champion->law.parameter_count() < other->law.parameter_count();
      if (is_simpler && champion->ks > noise && other->ks < kNeededShare * champion->ks) champion = other;
    }
    std::rotate(place, champion, champion + 1);
  }
  return laws;
}

}  // namespace

std::vector<RankedLaw> fit_laws(std::span<const double> values) {
  assert(!values.empty());
  assert(std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); }));
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const Moments all = moments(sorted);

  std::vector<RankedLaw> laws;
  const auto add = [&](auto form) {
    const Law law{form};
    laws.push_back({law, ks_to_law(sorted, law)});
  };
  const bool varies = all.sd > kRoundingCv * std::max(std::abs(all.min), std::abs(all.max));
  if (sorted.size() >= kMinValues && varies && is_usable(all.mean, all.sd)) {
    const std::vector<double> few = thinned(sorted);
    add(NormalLaw{all.mean, all.sd});
    if (all.min > 0) {
      if (const auto law = fit_lognormal(sorted, 0)) add(*law);
      if (const auto law = fit_gamma(sorted, 0)) add(*law);
    }
    if (const auto shift = best_shift(few, all, sorted.size(), fit_lognormal)) {
      if (const auto law = fit_lognormal(sorted, *shift)) add(*law);
    }
    if (const auto shift = best_shift(few, all, sorted.size(), fit_gamma)) {
      if (const auto law = fit_gamma(sorted, *shift)) add(*law);
    }
    if (all.min > 0 && sorted.size() >= kMinMixtureValues) {
      if (const auto law = fit_mixture(few)) add(*law);
    }
  }
  if (laws.empty()) add(ConstantLaw{all.mean});
  return ranked(std::move(laws), sorted.size());
}

}  // namespace prism
