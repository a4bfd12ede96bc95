// SPDX-License-Identifier: Apache-2.0
// The anchor of a forecast: unprofiled step times that a forecast of profiled steps is scaled to.
//
// A profiler slows steps down, often by a tenth, sometimes by a quarter. A forecast is in proportion to the
// steps it was made from, so one number corrects its level: the median unprofiled step over the median
// profiled one. With enough unprofiled steps the spread is theirs, too (docs/model.md).
//
//   AnchorSteps steps = read_anchor("train.log", report);        // or "1.25s"
//   Anchor anchor = make_anchor(steps, model.observed_ns);
//   samples_ns = anchored(std::move(samples_ns), anchor, seed);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "prism/ingest/step_log.hpp"
#include "prism/trace/import_report.hpp"

namespace prism {

/// Unprofiled step times: one number that was given, or what is steady in a log.
struct AnchorSteps {
  std::string source;  ///< as given
  bool is_log = false;
  std::vector<double> times_ns;  ///< not empty; one if it is no log
  std::uint64_t averaged = 1;    ///< steps that each time is the mean of
};

/// Seconds ("1.25", "1.25s", "850ms"), or the log of that path. Throws InputError if it is neither.
AnchorSteps read_anchor(const std::string& text, ImportReport& report);

/// The log without its warm-up (the first steps while they are above the usual range, at most a tenth), steps
/// of more than 1.5 times the median (checkpoints, evaluations, hiccups: events, not the law of a step) and
/// of less than half of it. All that is left out is reported.
AnchorSteps steady_steps(const StepLog& log, ImportReport& report);

struct Anchor {
  std::string source;
  double factor = 1;      ///< median unprofiled over median profiled step
  std::size_t steps = 0;  ///< unprofiled steps it rests on
  bool uses_log_variation = false;
  std::vector<double> deviations;     ///< of the log's steps from their median, relative; empty if not used
  std::vector<std::string> warnings;  ///< what makes it doubtful
};

/// Fewest steps of a log whose spread is used; they must be single steps with 10 different times.
inline constexpr std::size_t kMinVariationSteps = 30;

/// The anchor for profiled steps of these times (not empty).
Anchor make_anchor(const AnchorSteps& steps, std::span<const double> observed_ns);

/// Samples 0, 1, ... times the factor. With the log's variation, their coefficient of variation becomes that
/// of the log: if the samples vary less, each is multiplied by 1 + c r, r drawn from the log's deviations and
/// c in (0, 1] so that the product varies as the log does; if they vary more, their deviations from the median
/// shrink. Nothing is counted twice, and the median stays the model's.
std::vector<double> anchored(std::vector<double> samples_ns, const Anchor& anchor, std::uint32_t seed);

}  // namespace prism
