// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/trace_clocks.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>

#include "prism/kernels/clock_fit.hpp"
#include "prism/model/least_absolute_clocks.hpp"
#include "prism/stats/quantiles.hpp"

namespace prism {

namespace {

constexpr double kAgreementNs = 1e3;
constexpr std::size_t kFewCollectives = 8;
constexpr std::int64_t kReportedNs = 100'000;

double median(std::vector<double> values) {
  return quantile(std::move(values), 0.5);
}

/// How much later a member ended than the middle member, after the known differences are taken out.
struct Residual {
  std::size_t trace = 0;
  std::int64_t time_ns = 0;  // of the trace's clock
  double late_ns = 0;
};

class Estimator {
 public:
  Estimator(std::span<const RankTrace> traces, std::span<const RankCommunication> communication,
            std::span<const MatchedCollective> matched, const RelativeClocks& known)
      : traces_(traces), communication_(communication), matched_(matched), known_(known) {}

  std::vector<TraceClock> estimate() {
    clocks_.resize(traces_.size());
    residuals_.resize(traces_.size());
    for (std::size_t begin = 0, end = 0; begin < matched_.size(); begin = end) {
      while (end < matched_.size() && matched_[end].group == matched_[begin].group) ++end;
      observe(matched_.subspan(begin, end - begin));
    }
    const std::vector<double> solved = least_absolute_clocks(traces_.size() + hubs_, edges_, kAgreementNs);
    for (std::size_t t = 0; t < traces_.size(); ++t) fit(t, solved);
    borrow_from_hosts();
    return std::move(clocks_);
  }

 private:
  const GpuOp& gpu_op(CommMember m) const {
    return traces_[m.trace].gpu_ops[communication_[m.trace].ops[m.op].gpu_op];
  }
  /// The first trace whose clock is known relative to that of `t`.
  std::size_t reference_of(std::size_t t) const {
    for (std::size_t r = 0; r < t; ++r) {
      if (known_.prior(r, t)) return r;
    }
    return t;
  }
  std::int64_t known_offset(std::size_t t) const { return known_.offset(reference_of(t), t); }

  /// Adds the matches of one group: barrier-like ones if it has any.
  void observe(std::span<const MatchedCollective> of_group) {
    struct Observed {
      std::vector<Residual> members;
      double spread_ns = 0;
    };
    std::vector<Observed> observed;
    const bool has_barrier =
        std::ranges::any_of(of_group, [](const MatchedCollective& m) { return is_barrier_like(m.kind); });
    for (const MatchedCollective& match : of_group) {
      if (match.members.size() < 2 || (has_barrier && !is_barrier_like(match.kind))) continue;
      Observed one;
      std::vector<double> ends;
      const std::int64_t zero = gpu_op(match.members[0]).end_ns() - known_offset(match.members[0].trace);
      for (const CommMember& m : match.members) {
        const std::int64_t end = gpu_op(m).end_ns();
        ends.push_back(static_cast<double>(end - known_offset(m.trace) - zero));
        one.members.push_back({m.trace, end, ends.back()});
      }
      one.spread_ns = std::ranges::max(ends) - std::ranges::min(ends);
      const double middle = median(std::move(ends));
      for (Residual& member : one.members) member.late_ns -= middle;
      observed.push_back(std::move(one));
    }
    if (observed.empty()) return;
    add_edges(observed, has_barrier);
  }

  template <class Observed>
  void add_edges(std::vector<Observed>& observed, bool has_barrier) {
    const auto half = static_cast<std::ptrdiff_t>((observed.size() + 1) / 2);
    std::ranges::nth_element(observed, observed.begin() + half - 1, {}, &Observed::spread_ns);
    // Sends and receives of one group link different pairs, so each pair has a hub of its own.
    std::map<std::pair<std::size_t, std::size_t>, std::vector<double>> late;  // (hub, trace)
    std::map<std::pair<std::size_t, std::size_t>, std::size_t> hub_of_pair;
    for (auto it = observed.begin(); it != observed.end(); ++it) {
      for (const Residual& member : it->members) {
        residuals_[member.trace].push_back(member);
        if (has_barrier) ++clocks_[member.trace].collectives;
      }
      if (it - observed.begin() >= half) continue;
      const std::pair ends(std::min(it->members.front().trace, it->members.back().trace),
                           std::max(it->members.front().trace, it->members.back().trace));
      const std::size_t hub = hub_of_pair.try_emplace(ends, hubs_ + hub_of_pair.size()).first->second;
      for (const Residual& member : it->members) late[{hub, member.trace}].push_back(member.late_ns);
    }
    hubs_ += hub_of_pair.size();
    for (auto& [key, values] : late) {
      edges_.push_back({key.second, traces_.size() + key.first, median(std::move(values))});
    }
  }

  void fit(std::size_t t, const std::vector<double>& solved) {
    TraceClock& clock = clocks_[t];
    const std::size_t reference = reference_of(t);
    clock.offset_ns = known_offset(t) + std::llround(solved[t] - solved[reference]);
    std::vector<Residual>& residuals = residuals_[t];
    if (residuals.empty()) return;
    std::ranges::sort(residuals, {}, &Residual::time_ns);
    std::vector<ClockSample> samples;
    for (const Residual& residual : residuals) {
      samples.push_back({residual.time_ns, std::llround(residual.late_ns - solved[t])});
    }
    const ClockFit fit = fit_clock(samples);
    clock.drift = fit.drift;
    clock.origin_ns = fit.origin_ns;
    clock.spread_ns = fit.spread_ns;
    if (fit.drift != 0) clock.offset_ns += fit.offset_ns;
  }

  /// Ranks of one host read one clock: a rank with little evidence takes the middle of the others'.
  void borrow_from_hosts() {
    std::map<std::string, std::vector<double>> of_host;
    const auto is_sure = [&](std::size_t t) {
      return clocks_[t].collectives >= kFewCollectives && traces_[t].absolute_time &&
             !traces_[t].host.empty();
    };
    for (std::size_t t = 0; t < traces_.size(); ++t) {
      if (is_sure(t)) of_host[traces_[t].host].push_back(static_cast<double>(clocks_[t].offset_ns));
    }
    for (std::size_t t = 0; t < traces_.size(); ++t) {
      const auto host = of_host.find(traces_[t].host);
      if (is_sure(t) || host == of_host.end() || !traces_[t].absolute_time) continue;
      clocks_[t].offset_ns = std::llround(median(host->second));
    }
  }

  std::span<const RankTrace> traces_;
  std::span<const RankCommunication> communication_;
  std::span<const MatchedCollective> matched_;
  const RelativeClocks& known_;
  std::vector<TraceClock> clocks_;
  std::vector<std::vector<Residual>> residuals_;  // [trace]
  std::vector<ClockDifference> edges_;
  std::size_t hubs_ = 0;
};

void report_clocks(std::span<const RankTrace> traces, const std::vector<TraceClock>& clocks,
                   ImportReport& report) {
  for (std::size_t t = 0; t < traces.size(); ++t) {
    char text[64];
    std::snprintf(text, sizeof text, " by %.3f ms", -static_cast<double>(clocks[t].offset_ns) / 1e6);
    if (!traces[t].absolute_time && clocks[t].offset_ns != 0) {
      report.add(Severity::Repaired, "a trace without Unix time was placed by its matched communication",
                 traces[t].source + text);
    } else if (std::abs(clocks[t].offset_ns) > kReportedNs) {
      report.add(Severity::Repaired, "clock shifted: the trace's matched communication ends off the others'",
                 traces[t].source + text);
    }
    if (clocks[t].drift == 0) continue;
    std::snprintf(text, sizeof text, " by %.1f us per second", clocks[t].drift * 1e6);
    report.add(Severity::Repaired, "clock drifts against the others'", traces[t].source + text);
  }
}

}  // namespace

std::vector<TraceClock> estimate_trace_clocks(std::span<const RankTrace> traces,
                                              std::span<const RankCommunication> communication,
                                              std::span<const MatchedCollective> matched,
                                              const RelativeClocks& known, ImportReport& report) {
  std::vector<TraceClock> clocks = Estimator(traces, communication, matched, known).estimate();
  report_clocks(traces, clocks, report);
  return clocks;
}

}  // namespace prism
