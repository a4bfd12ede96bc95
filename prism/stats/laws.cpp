// SPDX-License-Identifier: Apache-2.0
#include "prism/stats/laws.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numbers>

#include <boost/math/special_functions/erf.hpp>
#include <boost/math/special_functions/gamma.hpp>

namespace prism {
namespace {

namespace policies = boost::math::policies;
// An extreme law gives 0, 1 or infinity instead of an exception.
using Quiet =
    policies::policy<policies::domain_error<policies::ignore_error>,
                     policies::pole_error<policies::ignore_error>,
                     policies::overflow_error<policies::ignore_error>,
                     policies::evaluation_error<policies::ignore_error>, policies::promote_double<false>>;

double normal_cdf(double z) {
  return std::erfc(-z / std::numbers::sqrt2) / 2;
}

double normal_quantile(double u) {
  return -std::numbers::sqrt2 * boost::math::erfc_inv(2 * u, Quiet());
}

struct Name {
  std::string_view operator()(const ConstantLaw&) const { return "constant"; }
  std::string_view operator()(const NormalLaw&) const { return "normal"; }
  std::string_view operator()(const LognormalLaw& law) const {
    return law.shift == 0 ? "lognormal" : "shifted lognormal";
  }
  std::string_view operator()(const GammaLaw& law) const {
    return law.shift == 0 ? "gamma" : "shifted gamma";
  }
  std::string_view operator()(const LognormalMixtureLaw&) const { return "lognormal mixture"; }
};

struct ParameterCount {
  std::size_t operator()(const ConstantLaw&) const { return 1; }
  std::size_t operator()(const NormalLaw&) const { return 2; }
  std::size_t operator()(const LognormalLaw& law) const { return law.shift == 0 ? 2 : 3; }
  std::size_t operator()(const GammaLaw& law) const { return law.shift == 0 ? 2 : 3; }
  std::size_t operator()(const LognormalMixtureLaw&) const { return 5; }
};

struct Cdf {
  double x;

  double operator()(const ConstantLaw& law) const { return x >= law.value ? 1 : 0; }
  double operator()(const NormalLaw& law) const { return normal_cdf((x - law.mean) / law.sd); }
  double operator()(const LognormalLaw& law) const {
    if (!(x > law.shift)) return 0;
    return normal_cdf((std::log(x - law.shift) - law.mu) / law.sigma);
  }
  double operator()(const GammaLaw& law) const {
    if (!(x > law.shift)) return 0;
    return boost::math::gamma_p(law.shape, (x - law.shift) / law.scale, Quiet());
  }
  double operator()(const LognormalMixtureLaw& law) const {
    if (!(x > 0)) return 0;
    const double log_x = std::log(x);
    return (1 - law.weight) * normal_cdf((log_x - law.mu_low) / law.sigma_low) +
           law.weight * normal_cdf((log_x - law.mu_high) / law.sigma_high);
  }
};

struct Quantile {
  double u;

  double operator()(const ConstantLaw& law) const { return law.value; }
  double operator()(const NormalLaw& law) const { return law.mean + law.sd * normal_quantile(u); }
  double operator()(const LognormalLaw& law) const {
    return law.shift + std::exp(law.mu + law.sigma * normal_quantile(u));
  }
  double operator()(const GammaLaw& law) const {
    return law.shift + law.scale * boost::math::gamma_p_inv(law.shape, u, Quiet());
  }
  double operator()(const LognormalMixtureLaw& law) const {
    // Both modes' own quantiles enclose the mixture's; bisection cannot fail in the flat part between two
    // modes.
    const double z = normal_quantile(u);
    auto [low, high] = std::minmax({law.mu_low + law.sigma_low * z, law.mu_high + law.sigma_high * z});
    for (int i = 0; i < std::numeric_limits<double>::digits + 8 && low < high; ++i) {
      const double middle = low + (high - low) / 2;
      (Cdf{std::exp(middle)}(law) < u ? low : high) = middle;
    }
    return std::exp(low + (high - low) / 2);
  }
};

struct FirstMoments {
  double mean, sd;
};

FirstMoments lognormal_moments(double mu, double sigma) {
  const double mean = std::exp(mu + sigma * sigma / 2);
  return {mean, mean * std::sqrt(std::expm1(sigma * sigma))};
}

struct MomentsOf {
  FirstMoments operator()(const ConstantLaw& law) const { return {law.value, 0}; }
  FirstMoments operator()(const NormalLaw& law) const { return {law.mean, law.sd}; }
  FirstMoments operator()(const LognormalLaw& law) const {
    const auto [mean, sd] = lognormal_moments(law.mu, law.sigma);
    return {law.shift + mean, sd};
  }
  FirstMoments operator()(const GammaLaw& law) const {
    return {law.shift + law.shape * law.scale, std::sqrt(law.shape) * law.scale};
  }
  FirstMoments operator()(const LognormalMixtureLaw& law) const {
    const auto low = lognormal_moments(law.mu_low, law.sigma_low);
    const auto high = lognormal_moments(law.mu_high, law.sigma_high);
    const double w = law.weight;
    const double within = (1 - w) * low.sd * low.sd + w * high.sd * high.sd;
    const double between = w * (1 - w) * (high.mean - low.mean) * (high.mean - low.mean);
    return {(1 - w) * low.mean + w * high.mean, std::sqrt(within + between)};
  }
};

}  // namespace

std::string_view Law::name() const {
  return std::visit(Name{}, form);
}

std::size_t Law::parameter_count() const {
  return std::visit(ParameterCount{}, form);
}

double Law::cdf(double x) const {
  return std::visit(Cdf{x}, form);
}

double Law::quantile(double u) const {
  assert(u > 0 && u < 1);
  return std::visit(Quantile{u}, form);
}

double Law::mean() const {
  return std::visit(MomentsOf{}, form).mean;
}

double Law::sd() const {
  return std::visit(MomentsOf{}, form).sd;
}

double ks_to_law(std::span<const double> sorted, const Law& law) {
  assert(!sorted.empty());
  const auto n = static_cast<double>(sorted.size());
  if (const auto* constant = std::get_if<ConstantLaw>(&law.form)) {
    const auto [first, last] = std::equal_range(sorted.begin(), sorted.end(), constant->value);
    return static_cast<double>(std::max(first - sorted.begin(), sorted.end() - last)) / n;
  }
  double largest = 0;
  const auto visit = [&](std::size_t i) {
    const double expected = law.cdf(sorted[i]);
    const auto below = static_cast<double>(i);
    largest = std::max({largest, (below + 1) / n - expected, expected - below / n});
    return expected;
  };
  // Between two visited values both distributions only rise, which bounds the gap there: most values need no
  // visit. Breadth first, so that a large gap is known early.
  struct Stretch {
    std::size_t low, high;
    double cdf_low, cdf_high;
  };
  std::vector<Stretch> open{{0, sorted.size() - 1, visit(0), visit(sorted.size() - 1)}};
  for (std::size_t next = 0; next < open.size(); ++next) {
    const Stretch stretch = open[next];
    const double above = static_cast<double>(stretch.high) / n - stretch.cdf_low;
    const double below = stretch.cdf_high - static_cast<double>(stretch.low + 1) / n;
    if (stretch.high - stretch.low < 2 || std::max(above, below) <= largest) continue;
    const std::size_t middle = stretch.low + (stretch.high - stretch.low) / 2;
    const double cdf_middle = visit(middle);
    open.push_back({stretch.low, middle, stretch.cdf_low, cdf_middle});
    open.push_back({middle, stretch.high, cdf_middle, stretch.cdf_high});
  }
  return largest;
}

}  // namespace prism
