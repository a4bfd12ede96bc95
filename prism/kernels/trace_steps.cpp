// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/trace_steps.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

namespace prism {

namespace {

constexpr double kCompleteShare = 0.8;
constexpr double kContiguousShare = 0.2;  // of a step: the longest pause between steps of one run of steps
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

struct Window {
  int number = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;    // of the annotation
  std::int64_t until_ns = 0;  // launches before this belong to it
  bool follows = false;       // on the window before, without a pause
};

std::optional<int> number_after(const std::string& text, const std::string& prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  int number = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + prefix.size(), end, number);
  return parsed.ec == std::errc() ? std::optional(number) : std::nullopt;
}

/// Windows from annotations (operators in traces of 2020 and 2021), without those that overlap one before.
std::vector<Window> annotated_windows(const RankTrace& trace, const std::string& annotation,
                                      ImportReport& report) {
  std::vector<std::optional<int>> number_of(trace.names.size());
  for (std::size_t i = 0; i < trace.names.size(); ++i)
    number_of[i] = number_after(trace.names[i], annotation);
  std::vector<Window> windows;
  for (const Annotation& a : trace.annotations) {
    if (const auto number = number_of[a.name.value]) windows.push_back({*number, a.start_ns, a.end_ns()});
  }
  if (windows.empty()) {
    for (const CpuOp& op : trace.cpu_ops) {
      if (const auto number = number_of[op.name.value])
        windows.push_back({*number, op.start_ns, op.end_ns()});
    }
  }
  std::ranges::stable_sort(windows, {}, &Window::start_ns);
  std::vector<Window> kept;
  for (const Window& w : windows) {
    // Whole microseconds round the end of one step beyond the start of the next.
    if (!kept.empty() &&
        (w.start_ns + kClockJitterNs < kept.back().end_ns || w.start_ns == kept.back().start_ns)) {
      report.add(Severity::Repaired, "step annotations that overlap the step before (left out)",
                 trace.source + ": " + annotation + std::to_string(w.number));
      continue;
    }
    kept.push_back(w);
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {
    Window& w = kept[i];
    w.until_ns = w.end_ns;
    if (i + 1 == kept.size()) continue;
    const auto pause = static_cast<double>(kept[i + 1].start_ns - w.end_ns);
    kept[i + 1].follows = pause <= kContiguousShare * static_cast<double>(w.end_ns - w.start_ns);
    if (kept[i + 1].follows) w.until_ns = kept[i + 1].start_ns;
  }
  return kept;
}

std::int64_t first_event(const RankTrace& trace) {
  std::int64_t first = kNever;
  for (const HostCall& c : trace.calls) {
    if (c.kind == HostCallKind::Launch) first = std::min(first, c.start_ns);
  }
  for (const GpuOp& op : trace.gpu_ops) first = std::min(first, op.start_ns);
  return first;
}

/// Index of the window that holds a time; nothing outside all.
std::optional<std::size_t> window_at(const std::vector<Window>& windows, std::int64_t time_ns) {
  const auto after =
      std::ranges::upper_bound(windows, time_ns, {}, [](const Window& w) { return w.start_ns; });
  if (after == windows.begin()) return std::nullopt;
  const auto w = after - 1;
  return time_ns < w->until_ns ? std::optional(static_cast<std::size_t>(w - windows.begin())) : std::nullopt;
}

/// GPU ops that belong to no step, by when they were enqueued: before the trace, or between runs of steps.
class OpsOutsideSteps {
 public:
  OpsOutsideSteps(const RankTrace& trace, const Launches& launches, const StreamOrder& streams,
                  const std::vector<std::optional<std::size_t>>& step_of, ImportReport& report) {
    std::vector<bool> has_launched(streams.streams.size(), false);  // so far on the stream
    std::size_t lost = 0;
    for (std::size_t i = 0; i < trace.gpu_ops.size(); ++i) {
      const auto call = launches.call_of[i];
      const std::uint32_t stream = streams.stream_of[i];
      if (call) has_launched[stream] = true;
      if (step_of[i]) continue;
      if (!call && has_launched[stream]) {
        ++lost;
        continue;
      }
      ops_.push_back({call ? trace.calls[*call].start_ns : kLongAgo, trace.gpu_ops[i].end_ns()});
    }
    if (lost > 0) {
      report.add(
          {Severity::DataLoss, "GPU ops whose launch was not recorded, so in no step", lost, {trace.source}});
    }
    std::ranges::sort(ops_, {}, &Op::enqueued_ns);
    for (std::size_t i = 1; i < ops_.size(); ++i) {
      ops_[i].latest_end_ns = std::max(ops_[i].latest_end_ns, ops_[i - 1].latest_end_ns);
    }
  }
  /// Last end of the ops enqueued before a time.
  [[nodiscard]] std::optional<std::int64_t> last_end(std::int64_t before_ns) const {
    const auto after = std::ranges::lower_bound(ops_, before_ns, {}, &Op::enqueued_ns);
    if (after == ops_.begin()) return std::nullopt;
    return (after - 1)->latest_end_ns;
  }

 private:
  static constexpr std::int64_t kLongAgo = std::numeric_limits<std::int64_t>::min();
  struct Op {
    std::int64_t enqueued_ns = 0;
    std::int64_t latest_end_ns = 0;  // of this and all before
  };
  std::vector<Op> ops_;
};

}  // namespace

std::vector<TraceStep> find_trace_steps(const RankTrace& trace, const Launches& launches,
                                        const StreamOrder& streams, ImportReport& report,
                                        const std::string& annotation) {
  if (trace.gpu_ops.empty()) return {};
  std::vector<Window> windows = annotated_windows(trace, annotation, report);
  const bool annotated = !windows.empty();
  if (!annotated) {
    windows.push_back({.number = 0, .start_ns = first_event(trace), .end_ns = kNever, .until_ns = kNever});
    report.add(Severity::Info, "traces without step annotations, taken as one step", trace.source);
  }
  std::vector<TraceStep> steps(windows.size());
  for (std::size_t w = 0; w < windows.size(); ++w) {
    steps[w].number = windows[w].number;
    steps[w].host_start_ns = windows[w].start_ns;
    steps[w].end_ns = std::numeric_limits<std::int64_t>::min();
  }
  std::vector<std::optional<std::size_t>> step_of(trace.gpu_ops.size());
  for (std::size_t i = 0; i < trace.gpu_ops.size(); ++i) {
    const auto call = launches.call_of[i];
    if (call) {
      step_of[i] = window_at(windows, trace.calls[*call].start_ns);
    } else if (!annotated) {
      step_of[i] = 0;
    }
    if (step_of[i]) steps[*step_of[i]].gpu_ops.push_back(static_cast<std::uint32_t>(i));
  }
  for (std::size_t i = 0; i < trace.calls.size(); ++i) {
    if (!is_ordered(trace.calls[i].kind)) continue;
    if (const auto w = window_at(windows, trace.calls[i].start_ns)) {
      steps[*w].calls.push_back(static_cast<std::uint32_t>(i));
    }
  }
  for (std::size_t i = 0; i < trace.gpu_ops.size(); ++i) {
    if (step_of[i]) {
      TraceStep& step = steps[*step_of[i]];
      step.end_ns = std::max(step.end_ns, trace.gpu_ops[i].end_ns());
    }
  }
  const OpsOutsideSteps outside(trace, launches, streams, step_of, report);
  std::optional<std::int64_t> previous;  // last end of the steps so far
  for (std::size_t w = 0; w < steps.size(); ++w) {
    if (steps[w].gpu_ops.empty()) continue;
    const auto other = outside.last_end(windows[w].start_ns);
    const std::optional<std::int64_t> end = std::max(previous, other);
    const bool overlaps = end && *end >= windows[w].start_ns;
    const bool follows = windows[w].follows && !steps[w - 1].gpu_ops.empty();
    if (end && (overlaps || follows) && *end < steps[w].end_ns) steps[w].previous_end_ns = end;
    previous = std::max(previous, std::optional(steps[w].end_ns));
  }
  std::erase_if(steps, [](const TraceStep& s) { return s.gpu_ops.empty(); });
  if (steps.size() >= 2) {
    const auto last = static_cast<double>(steps.back().gpu_ops.size());
    const auto before = static_cast<double>(steps[steps.size() - 2].gpu_ops.size());
    if (last < kCompleteShare * before) {
      report.add(Severity::DataLoss, "steps cut by the end of the trace (left out)",
                 trace.source + ": step " + std::to_string(steps.back().number));
      steps.pop_back();
    }
  }
  return steps;
}

}  // namespace prism
