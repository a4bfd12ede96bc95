// SPDX-License-Identifier: Apache-2.0
// The metadata file beside an op-level timeline: flat YAML with the job's parallel sizes.
//
// Keys: trial_name, dp_size, pp_size, tp_size, dsp_size, vpp_size, world_size. All are optional; others are
// ignored. What is declared is only a claim: the model checks it against the trace.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "prism/trace/import_report.hpp"
#include "prism/trace/op_timeline.hpp"

namespace prism {

/// The metadata in `text`. A value that is not a positive whole number is reported and left out; text that is
/// not YAML is reported as a whole and gives an empty result: a trace can be used without it.
JobMeta parse_job_meta(std::string_view text, const std::string& file, ImportReport& report);

/// The metadata file that belongs to a trace file: `meta-T.yaml` for `trace-T.csv[.gz]`, else `meta.yaml` in
/// the same folder. Nothing if neither exists.
std::optional<std::filesystem::path> find_job_meta(const std::filesystem::path& trace);

}  // namespace prism
