// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <system_error>

#include "cli/commands.hpp"
#include "cli/input.hpp"
#include "cli/output.hpp"
#include "prism/analysis/simulated_trace.hpp"
#include "prism/io/atomic_folder.hpp"
#include "prism/io/output_file.hpp"
#include "prism/report/json.hpp"
#include "prism/report/kineto_json.hpp"
#include "prism/report/text.hpp"

namespace prism::cli {

namespace {

/// Writes one file per rank and returns their names.
std::vector<std::string> write_traces(const SimulatedTraces& traces, const ExportOptions& options) {
  std::vector<std::string> files;
  AtomicFolder folder(options.common.output);
  for (std::size_t i = 0; i < traces.rank_count(); ++i) {
    options.common.control.check_cancelled();
    const RankTrace trace = traces.rank(i);
    files.push_back("rank" + std::to_string(*trace.rank) + (options.gzip ? ".json.gz" : ".json"));
    OutputFile file(folder.temporary() / files.back());
    write_kineto_json(trace, files.back(), [&](std::string_view piece) { file.write(piece); });
    file.commit();
  }
  folder.commit();
  return files;
}

}  // namespace

int run_export(const ExportOptions& options) {
  const CommonOptions& common = options.common;
  const StepModel model = open_input(common);
  const std::vector<SimulatedStep> steps = simulate_steps(model,
                                                          {.recorded_steps = options.recorded_steps,
                                                           .samples = options.samples,
                                                           .sampling = options.model,
                                                           .seed = options.seed},
                                                          common.control);
  const bool replayed = options.recorded_steps.has_value();
  ExportResult result{
      .folder = common.output,
      .sampling = replayed ? Sampling::Recorded : options.model.value_or(default_sampling(model))};
  for (const SimulatedStep& step : steps) result.steps.push_back({step.number, step.times.step_ns});
  try {
    result.files = write_traces(SimulatedTraces(model, steps), options);
  } catch (const std::system_error& error) {
    throw UsageError(error.what());
  }
  CommonOptions to_stdout = common;
  to_stdout.output.clear();
  const RunInfo info{.seed = replayed ? std::optional<std::uint32_t>() : options.seed};
  emit(to_stdout,
       common.format == Format::Json ? export_json(model, result, info) : export_text(model, result, info));
  return kDone;
}

}  // namespace prism::cli
