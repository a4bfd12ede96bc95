// SPDX-License-Identifier: Apache-2.0
// The program's subcommands: plain option structs, filled by main.cpp, and one function each that runs and
// returns the exit code. CLI11 is seen by main.cpp alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/extension.hpp"
#include "prism/analysis/plan_sweep.hpp"
#include "prism/model/sampling.hpp"
#include "prism/model/step_model.hpp"
#include "prism/run/control.hpp"

namespace prism::cli {

/// Exit codes (stable).
inline constexpr int kDone = 0;
inline constexpr int kCheckFailed = 1;
inline constexpr int kUsage = 2;
inline constexpr int kBadInput = 3;
inline constexpr int kInternal = 4;
inline constexpr int kInterrupted = 130;

enum class Format { Text, Json, Csv };

/// What every command takes.
struct CommonOptions {
  std::vector<std::string> inputs;  ///< one, or the profiler traces of a job rank by rank
  bool strict = false;              ///< refuse profiler traces that are not sound JSON
  std::optional<int> rank;          ///< of a profiler trace that does not say it
  std::string communication;        ///< file of names of communication kernels; empty: the built-in list
  Format format = Format::Text;
  std::string output;  ///< file to write to; empty: standard output
  std::optional<std::pair<int, int>> steps;
  std::vector<std::string> fail_if;
  RunControl control;
};

struct SamplingOptions {
  std::uint32_t samples = 1000;
  std::uint32_t seed = 1;
};

struct InspectOptions {
  CommonOptions common;
  ExtensionOptions extension;
};

struct ReplayOptions {
  CommonOptions common;
  LaunchDelays delays = LaunchDelays::Clean;
};

struct ValidateCommandOptions {
  CommonOptions common;
  SamplingOptions sampling{.samples = 2000};
  bool replayed_target = false;
};

struct ForecastCommandOptions {
  CommonOptions common;
  SamplingOptions sampling;
  ExtensionOptions extension;
  std::string anchor;  ///< seconds or a log of step times; empty: none
  std::optional<Sampling> model;
  std::optional<double> precision;
  bool timing = false;
  bool input_intervals = true;
  bool collapse = false;  ///< one replica in place of those that cannot differ
};

struct ModelSaveOptions {
  CommonOptions common;
  bool anonymise = false;
};

struct ExportOptions {
  CommonOptions common;  ///< output: the folder to write
  std::optional<std::pair<int, int>> recorded_steps;
  std::pair<std::uint32_t, std::uint32_t> samples{0, 0};
  std::optional<Sampling> model;
  std::uint32_t seed = 1;
  bool kineto = false;  ///< the only format so far
  bool gzip = false;
};

struct PlanSweepOptions {
  CommonOptions common;
  SweepOptions sweep;
  std::size_t shown = 10;  ///< ways in each table of the text
};

int run_plan_sweep(const PlanSweepOptions& options);
int run_inspect(const InspectOptions& options);
int run_replay(const ReplayOptions& options);
int run_validate(const ValidateCommandOptions& options);
int run_forecast(const ForecastCommandOptions& options);
int run_export(const ExportOptions& options);
int run_model_save(const ModelSaveOptions& options);
int run_model_show(const CommonOptions& options);

}  // namespace prism::cli
