// SPDX-License-Identifier: Apache-2.0
// Logs of nccl-tests (all_reduce_perf and its like): console output, or a CSV of parsed rows.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "prism/plan/collective_cost.hpp"
#include "prism/trace/import_report.hpp"

namespace prism {

/// Adds the out-of-place times of a log's rows. Knows the column layouts of nccl-tests 2.x (with and without `root`, `error`
/// or `#wrong`); takes ranks, hosts and the collective from the header lines. Rows that do not parse, and rows with wrong
/// results, are counted in `report` and left out. Throws InputError for text that is no such log.
void read_nccl_tests_log(std::string_view text, const std::string& source, MeasuredCollectives& into,
                         ImportReport& report);

/// The same of a CSV with columns collective, n_ranks, n_nodes, size_b, oop_time_us, and, if there, file and cluster.
void read_nccl_tests_csv(std::string_view text, const std::string& source, MeasuredCollectives& into,
                         ImportReport& report);

/// A log, a CSV (plain or compressed) or a folder of logs; told from content.
MeasuredCollectives read_measured_collectives(const std::filesystem::path& path, ImportReport& report);

}  // namespace prism
