// SPDX-License-Identifier: Apache-2.0
#include "prism/analysis/plan_sweep.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "prism/engine/simulate.hpp"
#include "prism/plan/build_plan_model.hpp"
#include "prism/plan/plan_summary.hpp"
#include "prism/stats/quantiles.hpp"
#include "prism/stats/random.hpp"
#include "prism/trace/error.hpp"

namespace prism {

namespace {

constexpr std::size_t kMostWays = 10'000;
constexpr std::uint32_t kResamples = 200;

template <class T>
std::vector<T> or_own(const std::vector<T>& values, T own) {
  return values.empty() ? std::vector<T>{own} : values;
}

/// All plans of the space; those whose degrees do not fit the GPUs or the batch are left out here, since most of a product of
/// lists does not.
std::vector<Plan> ways_of(const Plan& plan, const SweepOptions& options) {
  const SweepSpace& space = options.space;
  const std::int64_t gpus = options.gpus.value_or(plan.parallel.world_size());
  const std::int64_t batch = plan.global_batch();
  std::vector<Plan> ways;
  for (const std::int64_t tp : or_own(space.tp, plan.parallel.tp)) {
    for (const std::int64_t cp : or_own(space.cp, plan.parallel.cp)) {
      for (const std::int64_t pp : or_own(space.pp, plan.parallel.pp)) {
        const std::int64_t model = tp * cp * pp;
        if (model <= 0 || gpus % model != 0) continue;
        for (const std::int64_t micro : or_own(space.micro_batch, plan.microbatch.sequences)) {
          const std::int64_t round = micro * (gpus / model);
          if (round <= 0 || batch % round != 0) continue;
          Plan way = plan;
          way.parallel.tp = tp;
          way.parallel.cp = cp;
          way.parallel.pp = pp;
          way.parallel.dp = gpus / model;
          way.microbatch.sequences = micro;
          way.microbatches = batch / round;
          ways.push_back(std::move(way));
        }
      }
    }
  }
  return ways;
}

/// The rest of the space for one split of the GPUs.
std::vector<Plan> refined(const std::vector<Plan>& ways, const SweepSpace& space) {
  std::vector<Plan> result;
  for (const Plan& way : ways) {
    for (const std::int64_t ep : or_own(space.ep, way.parallel.ep)) {
      for (const int zero : or_own(space.zero, way.parallel.zero)) {
        for (const Recompute recompute : or_own(space.recompute, way.parallel.recompute)) {
          for (const ScheduleKind kind : or_own(space.schedules, way.schedule.kind)) {
            const bool v = kind == ScheduleKind::ZeroBubbleV || kind == ScheduleKind::DualPipeV;
            std::vector<std::int64_t> chunks{v ? 2 : 1};
            if (kind == ScheduleKind::Interleaved)
              chunks = or_own(space.chunks, std::max<std::int64_t>(way.schedule.chunks, 2));
            for (const std::int64_t c : chunks) {
              if (kind == ScheduleKind::Interleaved && (c < 2 || way.parallel.pp == 1)) continue;
              Plan one = way;
              one.parallel.ep = ep;
              one.parallel.zero = zero;
              one.parallel.recompute = recompute;
              one.schedule.kind = kind;
              one.schedule.chunks = c;
              result.push_back(std::move(one));
              if (result.size() > kMostWays) {
                throw InputError({way.source, {}, {}}, "more than 10,000 ways to try", "fewer values");
              }
            }
          }
        }
      }
    }
  }
  return result;
}

/// A message without its numbers: what refusals are grouped by.
std::string without_numbers(const std::string& text) {
  std::string result;
  for (const char c : text.substr(0, text.find('\n'))) {
    const bool digit = (c >= '0' && c <= '9') || c == '.';
    if (!digit) {
      result += c;
    } else if (result.empty() || result.back() != 'N') {
      result += 'N';
    }
  }
  return result;
}

/// Interval of the difference of a quantile of two paired samples, by resampling sample numbers.
PairedDifference paired(const std::vector<double>& own, const std::vector<double>& best, double p,
                        std::uint32_t seed) {
  PairedDifference d;
  d.value_ns = quantile(own, p) - quantile(best, p);
  std::vector<double> differences;
  const auto n = static_cast<std::uint32_t>(own.size());
  std::vector<double> a(own.size());
  std::vector<double> b(own.size());
  for (std::uint32_t r = 0; r < kResamples; ++r) {
    for (std::uint32_t i = 0; i < n; ++i) {
      const std::uint32_t at = index_from_word(random_word(seed, Purpose::Bootstrap, r, 0, i), n);
      a[i] = own[at];
      b[i] = best[at];
    }
    differences.push_back(quantile(a, p) - quantile(b, p));
  }
  d.low_ns = quantile(differences, (1 - kConfidence) / 2);
  d.high_ns = quantile(differences, (1 + kConfidence) / 2);
  return d;
}

struct Simulated {
  SweepRow row;
  std::vector<double> samples_ns;
};

Simulated simulate_way(const Plan& way, const SweepOptions& options, const RunControl& control) {
  const StepModel model = build_plan_model(way);
  Simulated result;
  result.row.parallel = way.parallel;
  result.row.schedule = way.schedule;
  result.row.micro_batch = way.microbatch.sequences;
  result.row.microbatches = way.microbatches;
  for (const MemoryUse& use : summarise_plan(way).memory) {
    result.row.memory_bytes = std::max(result.row.memory_bytes, use.total());
  }
  const Simulation simulation(model, default_sampling(model), {});
  result.samples_ns = simulation.step_times_ns(options.seed, 0, options.samples, control);
  std::vector<double> sorted = result.samples_ns;
  std::ranges::sort(sorted);
  result.row.p50 = estimate_quantile(sorted, 0.5);
  result.row.p95 = estimate_quantile(sorted, 0.95);
  result.row.mean_ns = moments(sorted).mean;
  return result;
}

}  // namespace

std::string way_text(const SweepRow& row) {
  const Parallel& p = row.parallel;
  std::string text = fmt::format("tp {} ", p.tp);
  if (p.cp > 1) text += fmt::format("cp {} ", p.cp);
  text += fmt::format("pp {} dp {}", p.pp, p.dp);
  if (p.ep > 1) text += fmt::format(" ep {}", p.ep);
  text += fmt::format(", {}", schedule_name(row.schedule.kind));
  if (row.schedule.kind == ScheduleKind::Interleaved) text += fmt::format(" x{}", row.schedule.chunks);
  text += fmt::format(", micro-batch {}", row.micro_batch);
  if (p.recompute != Recompute::None)
    text += p.recompute == Recompute::Full ? ", full recompute" : ", selective recompute";
  return text;
}

SweepResult sweep_plan(const Plan& plan, const SweepOptions& options, const RunControl& control) {
  if (!plan.model) {
    throw InputError({plan.source, {}, {}}, "a free-form plan has one way to run",
                     "a [model] can be split in many");
  }
  SweepResult result{.source = plan.source, .digest = plan.digest};
  result.gpus = options.gpus.value_or(plan.parallel.world_size());
  result.global_batch = plan.global_batch();
  result.samples = options.samples;
  const std::vector<Plan> ways = refined(ways_of(plan, options), options.space);
  result.tried = ways.size();
  std::vector<Simulated> simulated;
  std::map<std::string, SweepRefusal> refused;
  RunControl inner = control;
  inner.progress = {};
  for (std::size_t i = 0; i < ways.size(); ++i) {
    control.check_cancelled();
    if (control.progress) control.progress(static_cast<double>(i) / static_cast<double>(ways.size()));
    try {
      simulated.push_back(simulate_way(ways[i], options, inner));
    } catch (const InputError& error) {
      const std::string message = error.what();
      const std::string reason = without_numbers(message.substr(message.find(": ") + 2));
      SweepRefusal& refusal =
          refused.try_emplace(reason, SweepRefusal{reason, 0, message.substr(0, message.find('\n'))})
              .first->second;
      ++refusal.count;
    }
  }
  for (auto& [reason, refusal] : refused) result.refused.push_back(std::move(refusal));
  std::ranges::stable_sort(result.refused,
                           [](const SweepRefusal& a, const SweepRefusal& b) { return a.count > b.count; });
  if (simulated.empty()) {
    throw InputError({plan.source, {}, {}},
                     result.refused.empty() ? "no way fits the GPUs and the batch"
                                            : "no way is possible: " + result.refused.front().example,
                     "other degrees, or more GPUs");
  }
  std::ranges::stable_sort(simulated, {}, [](const Simulated& s) { return s.row.p95.value_ns; });
  const std::vector<double> best_p95 = simulated.front().samples_ns;
  for (std::size_t i = 0; i < simulated.size(); ++i) simulated[i].row.rank_by_p95 = i + 1;
  std::ranges::stable_sort(simulated, {}, [](const Simulated& s) { return s.row.p50.value_ns; });
  const std::vector<double> best_p50 = simulated.front().samples_ns;
  for (std::size_t i = 0; i < simulated.size(); ++i) {
    SweepRow& row = simulated[i].row;
    row.rank_by_p50 = i + 1;
    row.p50_to_best = paired(simulated[i].samples_ns, best_p50, 0.5, options.seed);
    row.p95_to_best = paired(simulated[i].samples_ns, best_p95, 0.95, options.seed);
    result.rows.push_back(std::move(row));
  }
  return result;
}

}  // namespace prism
