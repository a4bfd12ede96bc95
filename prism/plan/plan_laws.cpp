// SPDX-License-Identifier: Apache-2.0
#include "prism/plan/plan_laws.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "prism/stats/law_pool.hpp"
#include "prism/stats/portable_factor.hpp"
#include "prism/stats/random.hpp"

namespace prism {

namespace {

constexpr std::size_t kPoolSize = 1024;  // equally likely values of a law that is not drawn exactly

/// Values of a pool in which something of that probability still is several of them.
std::size_t pool_size_for(double probability) {
  constexpr double kFew = 8;
  constexpr double kMost = 65'536;
  return static_cast<std::size_t>(std::clamp(kFew / probability, static_cast<double>(kPoolSize), kMost));
}

/// What drives factors: factors with the same driver move together.
enum class Driver : std::uint64_t { Gpu, Host, Step, Microbatch, Straggler, Link, Regime };
std::uint64_t draw_id(Driver driver, std::uint64_t part = 0) {
  return mix_id(static_cast<std::uint64_t>(driver), part);
}

/// Parameter of a lognormal law of that coefficient of variation.
double sigma_of(double cv) {
  return portable_factor(std::sqrt(std::log1p(cv * cv)));
}

LognormalLaw lognormal(double mean, double cv) {
  const double sigma = sigma_of(cv);
  return {.mu = portable_factor(std::log(mean)) - sigma * sigma / 2, .sigma = sigma};
}

/// How many of `size` equally likely values have that probability.
std::size_t share_of(double probability, std::size_t size) {
  return std::min(static_cast<std::size_t>(std::llround(probability * static_cast<double>(size))), size);
}

/// n equally likely values of the law; none for n = 0.
std::vector<double> quantiles(const LognormalLaw& law, std::size_t n) {
  std::vector<double> values;
  for (std::size_t i = 0; i < n; ++i) {
    values.push_back(
        portable_factor(Law{law}.quantile((static_cast<double>(i) + 0.5) / static_cast<double>(n))));
  }
  return values;
}

/// To four digits: ops of nearly the same make-up share a class.
double rounded(double value) {
  if (value <= 0) return 0;
  const double digit = std::pow(10.0, std::floor(std::log10(value)) - 3);
  return std::round(value / digit) * digit;
}

/// The law of mean 1 of that form.
Law law_of(LawForm form, double cv) {
  switch (form) {
    case LawForm::Normal:
      return {NormalLaw{1, cv}};
    case LawForm::Gamma:
      return {GammaLaw{.shape = 1 / (cv * cv), .scale = cv * cv}};
    case LawForm::Constant:
      return {ConstantLaw{1}};
    case LawForm::Lognormal:
    case LawForm::Pool:
      break;
  }
  return {lognormal(1, cv)};
}

double mean(std::span<const double> values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

double cv_of(std::span<const double> values) {
  const double middle = mean(values);
  double squares = 0;
  for (const double v : values) squares += (v - middle) * (v - middle);
  return std::sqrt(squares / static_cast<double>(values.size())) / middle;
}

/// Measured values scaled to mean 1 and spread `cv`.
std::vector<double> scaled_pool(std::span<const double> values, double cv) {
  const double middle = mean(values);
  const double own = cv_of(values);
  std::vector<double> scaled;
  scaled.reserve(values.size());
  for (const double v : values) scaled.push_back(1 + (v / middle - 1) * (own > 0 ? cv / own : 0));
  std::ranges::sort(scaled);
  return scaled;
}

double spread_cv(const Spread& spread) {
  return spread.law == LawForm::Pool ? cv_of(spread.pool) : spread.law == LawForm::Constant ? 0 : spread.cv;
}

}  // namespace

PlanLaws::PlanLaws(const Variability& variability, StepModel& model)
    : variability_(variability), model_(model) {}

PlanLaws::Own PlanLaws::own_of(const Spread& spread, double cv) const {
  if (cv <= 0) return {};
  if (spread.law == LawForm::Pool) return {OwnDraw::Pool, 0, scaled_pool(spread.pool, cv)};
  if (spread.law == LawForm::Lognormal) return {OwnDraw::Lognormal, sigma_of(cv), {}};
  return {OwnDraw::Pool, 0, law_pool(law_of(spread.law, cv), kPoolSize)};
}

PlanLaws::Own PlanLaws::own_of(const Spread& spread, const Disturbance& tail) const {
  if (tail.probability <= 0) return own_of(spread, spread_cv(spread));
  // A transfer is either as usual or in the tail: quantiles of the one, and as many of the other as it has a share.
  const std::size_t size = pool_size_for(tail.probability);
  const std::size_t late = share_of(tail.probability, size);
  std::vector<double> values = quantiles(lognormal(1, std::max(spread_cv(spread), 1e-4)), size - late);
  const std::vector<double> tails = quantiles(lognormal(tail.factor, std::max(tail.cv, 1e-4)), late);
  values.insert(values.end(), tails.begin(), tails.end());
  std::ranges::sort(values);
  return {OwnDraw::Pool, 0, std::move(values)};
}

ClassId PlanLaws::add(const std::string& key, Category category, const Own& own,
                      std::vector<FactorId> factors) {
  DurationClass added{.key = key,
                      .category = category,
                      .per_replica = false,
                      .own = own.draw,
                      .sigma = own.sigma,
                      .factors = std::move(factors)};
  if (own.pool.empty()) return model_.pools.add(added, {}, 1);
  if (const auto known = pools_.find(own.pool); known != pools_.end()) {
    return model_.pools.add_sharing(added, known->second);
  }
  const ClassId id = model_.pools.add(added, own.pool, 1);
  pools_.emplace(own.pool, id);
  return id;
}

FactorId PlanLaws::factor(const std::string& name, FactorScope scope, std::uint64_t id, const Spread& spread,
                          double cv, bool once) {
  const auto [place, is_new] = factors_.try_emplace({scope, id, cv});
  if (is_new) {
    SharedFactor added{
        .name = name, .scope = scope, .draw_id = id, .law = law_of(spread.law, cv), .once = once};
    if (spread.law == LawForm::Pool) added.values = scaled_pool(spread.pool, cv);
    if (spread.law == LawForm::Gamma) added.values = law_pool(added.law, kPoolSize);
    place->second = model_.factors.push_back(std::move(added));
  }
  return place->second;
}

FactorId PlanLaws::factor(const std::string& name, FactorScope scope, std::uint64_t id,
                          const Disturbance& disturbance) {
  const auto [place, is_new] = factors_.try_emplace({scope, id, disturbance.probability});
  if (is_new) {
    SharedFactor added{.name = name, .scope = scope, .draw_id = id, .probability = disturbance.probability};
    added.law = disturbance.cv > 0 ? Law{lognormal(disturbance.factor, disturbance.cv)}
                                   : Law{ConstantLaw{disturbance.factor}};
    place->second = model_.factors.push_back(std::move(added));
  }
  return place->second;
}

ClassId PlanLaws::compute(const std::string& key, Category category, std::span<const KernelTime> kernels,
                          bool of_microbatch) {
  double total = 0;
  double variance = 0;  // kernels vary independently
  double shared = 0;    // but move together with their GPU
  KernelTime largest;
  for (const KernelTime& kernel : kernels) {
    const KernelSpread& spread = variability_.kernels[static_cast<std::size_t>(kernel.kind)];
    total += kernel.ns;
    const double sd = kernel.ns * spread_cv(spread.temporal);
    variance += sd * sd;
    shared += kernel.ns * spread_cv(spread.spatial);
    if (kernel.ns > largest.ns) largest = kernel;
  }
  const double temporal = total > 0 ? rounded(std::sqrt(variance) / total) : 0;
  const double spatial = total > 0 ? rounded(shared / total) : 0;
  const auto [place, is_new] = compute_.try_emplace({key, category, temporal, spatial, of_microbatch});
  if (!is_new) return place->second;
  const KernelSpread& spread = variability_.kernels[static_cast<std::size_t>(largest.kind)];
  const bool once = variability_.one_fleet;
  std::vector<FactorId> factors;
  if (spatial > 0) {
    factors.push_back(
        factor("speed of a GPU", FactorScope::Rank, draw_id(Driver::Gpu), spread.spatial, spatial, once));
  }
  if (const double cv = spread_cv(variability_.host); cv > 0) {
    factors.push_back(
        factor("speed of a host", FactorScope::Host, draw_id(Driver::Host), variability_.host, cv, once));
  }
  if (const double cv = spread_cv(variability_.step); cv > 0) {
    factors.push_back(
        factor("compute of a step", FactorScope::Step, draw_id(Driver::Step), variability_.step, cv, false));
  }
  if (const double cv = spread_cv(variability_.microbatch); cv > 0 && of_microbatch) {
    factors.push_back(factor("content of a microbatch", FactorScope::Microbatch, draw_id(Driver::Microbatch),
                             variability_.microbatch, cv, false));
  }
  if (variability_.straggler.probability > 0) {
    factors.push_back(
        factor("slow GPU of a step", FactorScope::Rank, draw_id(Driver::Straggler), variability_.straggler));
  }
  place->second = add(key, category, own_of(spread.temporal, temporal), std::move(factors));
  return place->second;
}

ClassId PlanLaws::communication(const std::string& key, Category category, LinkClass link) {
  const auto [place, is_new] = communication_.try_emplace({key, category, link});
  if (!is_new) return place->second;
  const LinkSpread& spread = variability_.links[static_cast<std::size_t>(link)];
  const auto part = static_cast<std::uint64_t>(link);
  const std::string of_link = std::string(" of ") + link_class_name(link) + " links";
  std::vector<FactorId> factors;
  if (const double cv = spread_cv(spread.spatial); cv > 0) {
    factors.push_back(factor("speed" + of_link, FactorScope::Link, draw_id(Driver::Link, part),
                             spread.spatial, cv, variability_.one_fleet));
  }
  if (spread.regime.probability > 0) {
    factors.push_back(
        factor("congestion" + of_link, FactorScope::Step, draw_id(Driver::Regime, part), spread.regime));
  }
  place->second = add(key, category, own_of(spread.temporal, spread.tail), std::move(factors));
  return place->second;
}

ClassId PlanLaws::pause() {
  const auto [place, is_new] = communication_.try_emplace({"pause", Category::HostWork, LinkClass::None});
  if (!is_new) return place->second;
  const Disturbance& pause = variability_.pause;
  const std::size_t size = pool_size_for(pause.probability);
  const std::size_t rare = share_of(pause.probability, size);
  std::vector<double> values(size - rare, 0.0);
  const std::vector<double> pauses = quantiles(lognormal(pause.factor * 1e3, std::max(pause.cv, 1e-4)), rare);
  values.insert(values.end(), pauses.begin(), pauses.end());
  place->second = add("pause", Category::HostWork, {OwnDraw::Pool, 0, std::move(values)}, {});
  return place->second;
}

}  // namespace prism
