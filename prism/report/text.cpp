// SPDX-License-Identifier: Apache-2.0
#include "prism/report/text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "prism/model/extend_replicas.hpp"
#include "prism/trace/time.hpp"

namespace prism {

namespace {

/// A time with a unit that suits its size: "46.71 s", "8.21 ms", "112 us".
std::string time_text(double ns) {
  const double size = std::abs(ns);
  if (size == 0) return "0 s";
  if (size >= 1e9) return fmt::format("{:.4g} s", ns / 1e9);
  if (size >= 1e6) return fmt::format("{:.4g} ms", ns / 1e6);
  if (size >= 1e3) return fmt::format("{:.4g} us", ns / 1e3);
  return fmt::format("{:.4g} ns", ns);
}

/// Several times of one magnitude in one unit with equal decimals, so that columns can be compared at a
/// glance.
class TimeColumn {
 public:
  explicit TimeColumn(double typical_ns, double resolution_ns) {
    const double size = std::abs(typical_ns);
    if (size >= 1e9) {
      scale_ = 1e9;
      unit_ = "s";
    } else if (size >= 1e6) {
      scale_ = 1e6;
      unit_ = "ms";
    } else {
      scale_ = 1e3;
      unit_ = "us";
    }
    const double digits = resolution_ns > 0 ? std::ceil(-std::log10(resolution_ns / scale_)) : 3;
    decimals_ = static_cast<int>(std::clamp(digits, 1.0, 6.0));
  }
  std::string operator()(double ns) const { return fmt::format("{:.{}f} {}", ns / scale_, decimals_, unit_); }
  std::string bare(double ns) const { return fmt::format("{:.{}f}", ns / scale_, decimals_); }

 private:
  double scale_ = 1e9;
  const char* unit_ = "s";
  int decimals_ = 3;
};

std::string percent(double share, int decimals = 2) {
  return fmt::format("{:+.{}f} %", 100 * share, decimals);
}

std::string thousands(std::uint64_t n) {
  std::string text = std::to_string(n);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<std::size_t>(at), ",");
  }
  return text;
}

std::string plural(std::uint64_t n, std::string_view what) {
  return thousands(n) + " " + std::string(what) + (n == 1 ? "" : "s");
}

/// "AR.csv.gz: 64 GPUs (tp 4 x dp 4 x pp 4), 44 profiled steps (16 to 1238)". A mesh smaller than the graph's
/// ranks says too little about a user's own graph; then the ranks are named.
std::string job_line(const StepModel& model) {
  const auto gpus = static_cast<std::uint64_t>(model.mesh.world_size());
  const std::uint64_t ranks = std::uint64_t{model.template_ranks} * model.replicas;
  std::string line = model.source + ": ";
  if (gpus >= std::max<std::uint64_t>(ranks, model.world_ranks)) {
    line += fmt::format("{} ({})", plural(gpus, "GPU"), model.mesh.text());
  } else {
    line += plural(std::max<std::uint64_t>(ranks, model.world_ranks), "rank");
  }
  if (model.step_count() > 0 && model.traced_ranks() < std::max<std::uint64_t>(ranks, model.world_ranks)) {
    line += fmt::format(", {} traced", model.traced_ranks());
  }
  if (model.step_count() > 0) {
    line += fmt::format(", {} ({} to {})", plural(model.step_count(), "profiled step"), model.steps.front(),
                        model.steps.back());
  } else {
    line += is_composed(model) ? ", a plan" : ", pools without profiled steps";
  }
  return line + "\n";
}

/// How samples were drawn: by a sampling model, or from a plan's laws.
std::string sampling_text(const StepModel& model, Sampling sampling) {
  return is_composed(model) ? "laws" : std::string(sampling_name(sampling));
}

std::string graph_line(const StepModel& model) {
  return fmt::format("graph: {} and {} per replica, {} x {}\n", plural(model.graph.size(), "node"),
                     plural(model.graph.edge_count(), "edge"), plural(model.replicas, "replica"),
                     plural(model.template_ranks, "rank"));
}

std::string notes(const StepModel& model, const std::vector<std::string>& warnings) {
  std::string text;
  for (const std::string& warning : warnings) text += "warning: " + warning + "\n";
  for (const ImportEntry& entry : model.report.entries()) {
    text += fmt::format("{}: {}", severity_name(entry.severity), entry.reason);
    // What was said of the whole input once is not counted.
    const bool counted = entry.count > 1 || !entry.places.empty() || entry.severity != Severity::Info;
    if (counted) text += fmt::format(": {} time{}", thousands(entry.count), entry.count == 1 ? "" : "s");
    if (!entry.places.empty())
      text += fmt::format(" ({}{})", fmt::join(entry.places, "; "),
                          entry.count > entry.places.size() ? "; ..." : "");
    text += "\n";
  }
  return text.empty() ? text : "\n" + text;
}

struct InferenceKind {
  std::string_view kind;
  std::string_view plural;
};
constexpr std::array<InferenceKind, 3> kInferenceKinds = {
    {{"posting edge", "posting edges"},
     {"barrier over replicas", "barriers over replicas"},
     {"wait for all stages", "waits for all stages"}}};

std::string inferences(const StepModel& model) {
  constexpr std::size_t kShown = 3;
  std::string text;
  for (const InferenceKind& kind : kInferenceKinds) {
    std::vector<std::string> found;
    for (const Inference& inference : model.inferences) {
      if (inference.kind == kind.kind) found.push_back(inference.what);
    }
    if (found.empty()) continue;
    text +=
        fmt::format("inferred from times: {} {}", found.size(), found.size() == 1 ? kind.kind : kind.plural);
    for (std::size_t i = 0; i < std::min(found.size(), kShown); ++i) text += "\n    " + found[i];
    if (found.size() > kShown)
      text += fmt::format("\n    ... {} more (--json lists all)", found.size() - kShown);
    text += "\n";
  }
  return text;
}

/// A histogram of the samples, one row per bin.
std::string histogram(std::vector<double> samples, const TimeColumn& column) {
  constexpr std::size_t kBins = 12;
  constexpr double kWidth = 44;
  std::ranges::sort(samples);
  const double low = samples.front();
  const double high = samples.back();
  if (low == high) return "";
  std::vector<std::size_t> counts(kBins, 0);
  for (const double value : samples) {
    ++counts[std::min(kBins - 1,
                      static_cast<std::size_t>(static_cast<double>(kBins) * (value - low) / (high - low)))];
  }
  const double top = static_cast<double>(std::ranges::max(counts));
  std::string text;
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    const double from = low + (high - low) * static_cast<double>(bin) / kBins;
    const auto length =
        static_cast<std::size_t>(std::lround(kWidth * static_cast<double>(counts[bin]) / top));
    const double share = static_cast<double>(counts[bin]) / static_cast<double>(samples.size());
    text += fmt::format("{:>12} |{:<{}} {:.1f} %\n", column(from), std::string(length, '#'),
                        static_cast<int>(kWidth), 100 * share);
  }
  return text;
}

std::string interval(const TimeColumn& column, const std::optional<double>& low,
                     const std::optional<double>& high) {
  return fmt::format("{} .. {}", low ? column.bare(*low) : "?", high ? column.bare(*high) : "?");
}

/// What only kernel-level models have: start errors, unexplained lags, lags of one step in the graph of another.
std::string kernel_replay(const ReplayResult& result) {
  std::string text;
  if (result.start_errors) {
    text += fmt::format("\nstarts of {}: off by {} (p50), {} (p99)\n", plural(result.start_errors->ops, "op"),
                        time_text(result.start_errors->p50_ns), time_text(result.start_errors->p99_ns));
  }
  if (result.unexplained_share) {
    text += fmt::format("lags that nothing explains: {:.1f} % of the step, mean over ranks\n",
                        100 * *result.unexplained_share);
  }
  if (result.across_steps.empty()) return text;
  text += fmt::format(
      "\nacross steps: one step's graph and state at its begin, values of another; error of the step time\n"
      "  {:<34} {:>8} {:>9}   ({})\n",
      "taken from the other step", "median", "worst", plural(result.across_steps.size(), "pair"));
  const auto line = [&](std::string_view what, auto member) {
    std::vector<double> errors;
    double worst = 0;
    for (const CrossStep& pair : result.across_steps) {
      errors.push_back(std::abs(pair.*member));
      if (std::abs(pair.*member) > std::abs(worst)) worst = pair.*member;
    }
    std::ranges::sort(errors);
    text += fmt::format("  {:<34} {:>6.2f} % {:>9}\n", what, 100 * errors[errors.size() / 2], percent(worst));
  };
  line("lags", &CrossStep::lags_error);
  line("lags and durations of GPU ops", &CrossStep::gpu_error);
  line("lags, durations and host work", &CrossStep::error);
  line("the steps themselves differ by", &CrossStep::observed_change);
  return text;
}

/// The pools whose time on the critical path goes with the step time.
std::string spread_text(const StepModel& model, const SpreadSources& spread) {
  constexpr std::size_t kShown = 8;
  constexpr double kLeastShare = 0.005;
  if (spread.sources.empty()) return "";
  std::string text = fmt::format("\nwhat makes the spread (critical paths of {}):\n{:>10} {:>14}  pool\n",
                                 plural(spread.samples, "sample"), "share", "mean on path");
  double others = 0;
  for (std::size_t i = 0; i < spread.sources.size(); ++i) {
    const SpreadSource& source = spread.sources[i];
    if (i >= kShown) {
      others += source.share;
      continue;
    }
    text += fmt::format("{:>8.1f} % {:>14}  {} ({})\n", 100 * source.share, time_text(source.mean_ns),
                        source.key, category_name(source.category));
  }
  if (spread.sources.size() > kShown) {
    text += fmt::format("{:>8.1f} % {:>14}  {} more (--json lists all)\n", 100 * others, "",
                        plural(spread.sources.size() - kShown, "pool"));
  }
  if (spread.ranks.size() < 2) return text;
  const bool kernels = !model.activity.empty();  // ranks of an op-level template are pipeline stages
  text += kernels ? "ranks on the critical path:" : "stages on the critical path:";
  std::string separator = " ";
  for (std::size_t i = 0; i < std::min(kShown, spread.ranks.size()); ++i) {
    const auto [rank, share] = spread.ranks[i];
    if (share < kLeastShare) break;
    text += fmt::format("{}{} ({:.0f} %)", std::exchange(separator, ", "),
                        kernels ? model.activity[static_cast<std::size_t>(rank)].rank : rank, 100 * share);
  }
  text += "\n";
  return text;
}

/// Where the time of each rank's GPU went, and how much it computes.
std::string ranks_text(const StepModel& model, const InspectResult& result) {
  constexpr std::size_t kShown = 32;
  std::string text = fmt::format("\n{:>6} {:>8} {:>14} {:>16} {:>16} {:>14} {:>8}\n", "rank", "busy",
                                 "exposed comm.", "waits for ranks", "waits for host", "compute/step", "CV");
  for (std::size_t r = 0; r < std::min({kShown, model.activity.size(), result.rank_compute.size()}); ++r) {
    const RankActivity& a = model.activity[r];
    const RankCompute& c = result.rank_compute[r];
    text += fmt::format("{:>6} {:>6.1f} % {:>12.1f} % {:>14.1f} % {:>14.1f} % {:>14} {:>8}\n", a.rank,
                        100 * a.busy, 100 * a.communicating, 100 * a.waiting_ranks, 100 * a.waiting_host,
                        time_text(c.mean_ns), std::isnan(c.cv) ? "-" : fmt::format("{:.1f} %", 100 * c.cv));
  }
  if (model.activity.size() > kShown) {
    text += fmt::format("{:>6} {} more (--json lists all)\n", "...",
                        plural(model.activity.size() - kShown, "rank"));
  }
  text += "\nGPU time per step and rank:";
  std::string separator = " ";
  for (const PhaseTime& time : result.phases) {
    text += fmt::format("{}{} {}", std::exchange(separator, ", "),
                        time.phase == Phase::Unknown ? "no phase known" : phase_name(time.phase),
                        time_text(time.per_step_ns));
  }
  text += "\n";
  return text;
}

/// The pools that take the most time of a step.
std::string kernel_pools_text(const InspectResult& result) {
  constexpr std::size_t kShown = 30;
  constexpr std::size_t kWidth = 58;
  std::string text = fmt::format("\n{:<58} {:<15} {:>7} {:>11} {:>10} {:>8} {:>10}  {}\n", "pool", "category",
                                 "values", "sum/step", "mean", "CV", "p95", "best law (KS)");
  for (std::size_t i = 0; i < std::min(kShown, result.pools.size()); ++i) {
    const PoolSummary& pool = result.pools[i];
    const std::string key = pool.key.size() > kWidth ? pool.key.substr(0, kWidth - 3) + "..." : pool.key;
    text += fmt::format("{:<58} {:<15} {:>7} {:>11} {:>10} {:>6.1f} % {:>10}  {} ({:.3f})\n", key,
                        category_name(pool.category), thousands(pool.count), time_text(pool.per_step_ns),
                        time_text(pool.mean_ns), 100 * pool.cv, time_text(pool.p95_ns), pool.best_law,
                        pool.law_ks);
  }
  if (result.pools.size() > kShown) {
    text +=
        fmt::format("... {} more (--json or --csv list all)\n", plural(result.pools.size() - kShown, "pool"));
  }
  return text;
}

}  // namespace

std::string inspect_text(const StepModel& model, const InspectResult& result) {
  std::string text = job_line(model) + graph_line(model);
  text += fmt::format("{} on {}, {}\n", plural(result.ops, "op"),
                      plural(result.ranks, result.ranks > model.traced_ranks() ? "rank" : "recorded rank"),
                      plural(model.pools.values_ns.size(), "recorded duration"));
  if (model.step_count() > 0) {
    const auto [low, high] = std::ranges::minmax(model.observed_ns);
    text += fmt::format("observed step time: {} to {}\n", time_text(low), time_text(high));
  }
  text += inferences(model);
  if (!model.clock_offsets_ns.empty()) {
    std::size_t worst = 0;
    for (std::size_t i = 0; i < model.clock_offsets_ns.size(); ++i) {
      if (std::abs(model.clock_offsets_ns[i]) > std::abs(model.clock_offsets_ns[worst])) worst = i;
    }
    text += fmt::format("clocks: largest offset {} (rank {})\n", time_text(model.clock_offsets_ns[worst]),
                        model.recording ? model.recording->ranks[worst] : static_cast<int>(worst));
  }
  if (!result.rank_compute.empty())
    return text + ranks_text(model, result) + kernel_pools_text(result) +
           notes(model, extension_warnings(model));
  text += fmt::format("\n{:<44} {:<15} {:>8} {:>10} {:>8} {:>10}  {}\n", "pool", "category", "values", "mean",
                      "CV", "p95", "best law (KS)");
  for (const PoolSummary& pool : result.pools) {
    text += fmt::format("{:<44} {:<15} {:>8} {:>10} {:>6.1f} % {:>10}  {} ({:.3f})\n", pool.key,
                        category_name(pool.category), thousands(pool.count), time_text(pool.mean_ns),
                        100 * pool.cv, time_text(pool.p95_ns), pool.best_law, pool.law_ks);
  }
  return text + notes(model, extension_warnings(model));
}

std::string replay_text(const StepModel& model, const ReplayResult& result) {
  std::string text = job_line(model) + graph_line(model) + inferences(model);
  const double spread = std::abs(result.mean_observed_ns) / 1e4;
  const TimeColumn column(result.mean_observed_ns, spread);
  text += fmt::format("\n{:>8} {:>14} {:>14} {:>10}\n", "step", "observed", "replayed", "error");
  for (const ReplayedStep& step : result.steps) {
    text += fmt::format("{:>8} {:>14} {:>14} {:>10}\n", step.step, column(step.observed_ns),
                        column(step.replayed_ns), percent(step.error(), 3));
  }
  text += fmt::format("{:>8} {:>14} {:>14} {:>10}\n", "mean", column(result.mean_observed_ns),
                      column(result.mean_replayed_ns),
                      percent(result.mean_replayed_ns / result.mean_observed_ns - 1, 3));
  text += kernel_replay(result);
  return text + notes(model, result.warnings);
}

std::string validate_text(const StepModel& model, const ValidateResult& result) {
  std::string text = job_line(model);
  text += fmt::format("Each model predicts the {} times of profiled steps that its pools have not seen.\n\n",
                      result.target);
  text += fmt::format("{:<14} {:<12} {:>10} {:>10}  {:<20} {:>6} {:>7} {:>10}\n", "model", "folds",
                      "p50 error", "p95 error", "by chance (5..95 %)", "KS", "limit", "CRPS ratio");
  std::string last;
  for (const auto* scores : {&result.models, &result.baseline}) {
    for (const ModelScore& s : *scores) {
      text += fmt::format("{:<14} {:<12} {:>10} {:>10}  {:<20} {:>6.3f} {:>7.3f} {:>10.3f}{}\n", s.name,
                          fold_name(s.folds), percent(s.p50_error), percent(s.p95_error),
                          percent(s.p95_low, 1) + " .. " + percent(s.p95_high, 1), s.ks, s.ks_noise,
                          s.crps_ratio, s.ks > s.ks_noise ? "  KS above limit" : "");
    }
  }
  text += fmt::format(
      "\nchosen: {} (lowest CRPS; within 2 % hierarchical is preferred). forecast uses hierarchical unless "
      "told\n"
      "--sampling. CRPS ratio 1: as good as resampling the observed step times, which knows no graph and "
      "answers\n"
      "no what-if.\n\n",
      sampling_name(result.chosen));
  if (model.replicas * model.cells > 1) {
    text += fmt::format("share of the step effect that is common to all replicas: a = {:.2f}\n",
                        result.effects.share);
  } else {
    text += "one replica: a step and its only replica cannot be told apart (a = 1)\n";
  }
  for (const std::string& finding : result.findings) text += "- " + finding + "\n";
  text += inferences(model);
  return text + notes(model, result.warnings);
}

namespace {

std::string anchor_line(const Anchor& anchor) {
  std::string text = "anchor: " + anchor.source;
  if (anchor.steps > 0) text += ", " + plural(anchor.steps, "unprofiled step");
  text += fmt::format("; profiled steps are taken times {:.4f}", anchor.factor);
  text += anchor.uses_log_variation ? ", with the spread of the log\n" : ", with their own spread\n";
  return text;
}

}  // namespace

std::string forecast_text(const StepModel& model, const ForecastResult& result, const RunInfo& info) {
  std::string text = job_line(model) + graph_line(model);
  if (result.anchor) text += anchor_line(*result.anchor);
  text += fmt::format("{}, sampling model {}, seed {}\n\n", plural(result.samples_ns.size(), "sample"),
                      sampling_text(model, result.sampling), info.seed.value_or(0));
  const Moments& m = result.summary.moments_ns;
  const TimeColumn column(m.mean, m.sd / 20);
  const bool has_input = !result.input_intervals.empty();
  text += fmt::format("{:<10}{:>12}{:>28}{}\n", "step time", "", "95 % interval of samples",
                      has_input ? "   95 % interval of profiled steps" : "");
  for (std::size_t i = 0; i < result.summary.quantiles.size(); ++i) {
    const QuantileEstimate& q = result.summary.quantiles[i];
    text += fmt::format("{:<10}{:>12}{:>28}", fmt::format("p{:g}", 100 * q.p), column(q.value_ns),
                        interval(column, q.low_ns, q.high_ns));
    if (has_input) {
      const InputInterval& input = result.input_intervals[i];
      text += fmt::format("{:>34}", interval(column, input.low_ns, input.high_ns));
    }
    text += "\n";
  }
  text += fmt::format("{:<10}{:>12}   standard deviation {} ({:.2f} %), {} to {}\n\n", "mean", column(m.mean),
                      time_text(m.sd), 100 * m.cv, column(m.min), column(m.max));
  text += histogram(result.samples_ns, column);
  text += spread_text(model, result.spread);
  if (result.guarantee.bound_ns) {
    text += fmt::format("\nguarantee: {:.0f} % of steps take at most {}, with {:.0f} % confidence ({})\n",
                        100 * result.guarantee.p, column(*result.guarantee.bound_ns),
                        100 * result.guarantee.confidence, result.guarantee.reason);
  } else {
    text += fmt::format("\nguarantee for p95: none; it {}\n", result.guarantee.reason);
  }
  if (result.windows.size() > 1) {
    text += "profiled windows:";
    for (const ProfiledWindow& w : result.windows) {
      text += fmt::format(" steps {}..{} mean {}{};", w.first_step, w.last_step, column(w.mean_ns),
                          w.differs ? " (differs)" : "");
    }
    text.back() = '\n';
  }
  if (info.timing) {
    text += fmt::format("{:.3f} s for the samples, {:.2e} node-samples per second\n", result.sampling_seconds,
                        static_cast<double>(result.nodes_per_sample) *
                            static_cast<double>(result.samples_ns.size()) / result.sampling_seconds);
  }
  text += notes(model, result.warnings);
  if (model.step_count() > 0)
    text += "\nnext: prism validate shows how such forecasts score on steps left out\n";
  return text;
}

std::string export_text(const StepModel& model, const ExportResult& result, const RunInfo& info) {
  const bool replayed = result.sampling == Sampling::Recorded;
  std::string text = job_line(model) + graph_line(model);
  text += fmt::format("wrote {} to {}: {} to {}\n", plural(result.files.size(), "trace"), result.folder,
                      result.files.front(), result.files.back());
  if (!replayed) {
    text += fmt::format("sampling model {}, seed {}\n", sampling_text(model, result.sampling),
                        info.seed.value_or(0));
  }
  double longest_ns = 0;
  for (const ExportResult::Step& step : result.steps) longest_ns = std::max(longest_ns, step.step_ns);
  const TimeColumn column(longest_ns, longest_ns / 1e5);
  text += fmt::format("\n{:>8} {:>14}\n", replayed ? "step" : "sample", "step time");
  for (const ExportResult::Step& step : result.steps) {
    text += fmt::format("{:>8} {:>14}\n", step.number, column(step.step_ns));
  }
  return text + notes(model, {});
}

std::string model_text(const StepModel& model) {
  std::string text = job_line(model) + graph_line(model);
  text += fmt::format("{} with {}\n", plural(model.pools.classes.size(), "pool"),
                      plural(model.pools.values_ns.size(), "value"));
  text += model.recording ? "holds the recording it was built from: all launch-delay modes can be replayed\n"
                          : "holds no recording: replays use the saved launch delays\n";
  text += inferences(model);
  return text + notes(model, {});
}

}  // namespace prism
