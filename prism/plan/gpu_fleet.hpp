// SPDX-License-Identifier: Apache-2.0
// Repeated runs of one kernel on many GPUs -> how GPUs differ, and how runs of one GPU do.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "prism/trace/import_report.hpp"

namespace prism {

struct GpuFleet {
  std::vector<double> spatial;  ///< median of each GPU over the median of their job shape; ascending
  std::vector<double>
      temporal;  ///< runs over their GPU's median, of GPUs with at least two; ascending; {1} if there are none
  std::size_t runs = 0;
};

/// From a CSV with a column `perf` (time of one run, any unit) and a GPU's identity in `uuid` (or `gpu`). Rows are compared
/// within what was run and the job (columns exp, model and job_id where there are such; job_id only if it puts GPUs together).
/// Rows that do not parse are counted in `report`. Throws InputError without these columns or with fewer than two GPUs.
GpuFleet parse_gpu_fleet(std::string_view csv, const std::string& source, ImportReport& report);

/// The same of a file, plain or compressed.
GpuFleet read_gpu_fleet(const std::filesystem::path& path, ImportReport& report);

}  // namespace prism
