// SPDX-License-Identifier: Apache-2.0
#include "prism/plan/gpu_fleet.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "prism/io/bytes.hpp"
#include "prism/io/csv.hpp"
#include "prism/trace/error.hpp"

namespace prism {

namespace {

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// Times of runs, by what was run or by job, and by GPU.
using JobRuns = std::map<std::string, std::map<std::string, std::vector<double>>>;

}  // namespace

GpuFleet parse_gpu_fleet(std::string_view text, const std::string& source, ImportReport& report) {
  CsvReader csv(text, source);
  const std::optional<std::size_t> perf = csv.column("perf");
  const std::optional<std::size_t> gpu = csv.column("uuid") ? csv.column("uuid") : csv.column("gpu");
  if (!perf || !gpu) {
    throw InputError({source, 1, {}}, std::string("no column '") + (perf ? "uuid" : "perf") + "'",
                     "a CSV of runs with columns perf (time) and uuid (GPU)");
  }
  std::vector<std::size_t> kind_columns;
  for (const char* name : {"exp", "model"}) {
    if (const auto column = csv.column(name)) kind_columns.push_back(*column);
  }
  const std::optional<std::size_t> job_column = csv.column("job_id");
  JobRuns jobs;
  JobRuns kinds;
  GpuFleet fleet;
  while (csv.next()) {
    const auto fields = csv.fields();
    const auto field = [&](std::size_t column) {
      return column < fields.size() ? fields[column] : std::string_view();
    };
    const std::optional<double> time = parse_double(field(*perf));
    if (!time || !(*time > 0) || field(*gpu).empty()) {
      report.add(Severity::DataLoss, "runs of GPUs that do not parse are left out", csv.place().text());
      continue;
    }
    std::string kind;
    for (const std::size_t column : kind_columns) kind += std::string(field(column)) + ",";
    kinds[kind][std::string(field(*gpu))].push_back(*time);
    if (job_column) jobs[kind + std::string(field(*job_column))][std::string(field(*gpu))].push_back(*time);
    ++fleet.runs;
  }
  // Some clusters number every process of a job as a job of its own: such numbers put no two GPUs together.
  const bool jobs_join = std::ranges::any_of(jobs, [](const auto& job) { return job.second.size() >= 2; });
  if (job_column && !jobs_join) {
    report.add(Severity::Info, "jobs of one GPU each: runs are compared over all jobs", source);
  }
  // A GPU is compared with the others of its job; over several jobs its factor is the median.
  std::map<std::string, std::vector<double>> factors;
  for (const auto& [job, gpus] : jobs_join ? jobs : kinds) {
    if (gpus.size() < 2) continue;
    std::vector<double> medians;
    for (const auto& [id, runs] : gpus) medians.push_back(median(runs));
    const double middle = median(medians);
    for (const auto& [id, runs] : gpus) {
      const double own = median(runs);
      factors[id].push_back(own / middle);
      for (const double run : runs) {
        if (runs.size() >= 2) fleet.temporal.push_back(run / own);
      }
    }
  }
  for (const auto& [id, values] : factors) fleet.spatial.push_back(median(values));
  if (fleet.spatial.size() < 2) {
    throw InputError({source, {}, {}}, "runs of fewer than two GPUs of one job", "a fleet to compare");
  }
  if (fleet.temporal.empty()) fleet.temporal.push_back(1);
  std::ranges::sort(fleet.spatial);
  std::ranges::sort(fleet.temporal);
  return fleet;
}

GpuFleet read_gpu_fleet(const std::filesystem::path& path, ImportReport& report) {
  return parse_gpu_fleet(read_bytes(path), path.string(), report);
}

}  // namespace prism
