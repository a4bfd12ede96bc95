// SPDX-License-Identifier: Apache-2.0
// Step times that a job wrote down by itself, without a profiler: a CSV column, or lines of a training log.
//
//   CSV           a column step_time_s, step_time_ms, iteration_time_ms, seconds, ... or a lone column of numbers
//   Megatron      "... | elapsed time per iteration (ms): 1727.1 | ..."
//   torchtitan    "2026-01-16 07:00:02,123 - root - INFO - step:  2  loss: ... tps: ...": differences of the times
//   MLLOG         ":::MLLOG {... "value": {"train_step_time": 1.114}, ...}"
//   others        "step_time: 1.23 s", "step time=850ms", "iter 10: loss 4.2, time 1234.5ms", ...
//
// Any prefix, colour codes and other lines may stand around them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "prism/trace/import_report.hpp"

namespace prism {

struct LoggedStep {
  double time_ns = 0;      ///< above 0
  std::uint64_t line = 0;  ///< from 1
};

struct StepLog {
  std::string source;
  std::string pattern;            ///< what the times were read from: a column or a key
  std::vector<LoggedStep> steps;  ///< in the file's order; never empty
  std::uint64_t averaged = 1;     ///< steps that each time is the mean of
};

/// The step times of a log. A time that is not a number above 0 (and at most 1e6 seconds) is reported and left
/// out; so is a unit that had to be guessed: milliseconds if the median is 50 or more, else seconds. Of
/// several patterns in one log, that with the most lines counts. Throws InputError if there is no step time.
StepLog parse_step_log(std::string_view text, const std::string& name, ImportReport& report);

}  // namespace prism
