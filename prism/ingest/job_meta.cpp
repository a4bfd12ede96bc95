// SPDX-License-Identifier: Apache-2.0
#include "prism/ingest/job_meta.hpp"

#include <yaml-cpp/yaml.h>

#include "prism/io/csv.hpp"
#include "prism/trace/error.hpp"

namespace prism {

namespace {

constexpr std::size_t kMaxBytes = 1 << 16;  // a metadata file is a few lines
constexpr std::int64_t kMaxSize = 1 << 24;

std::optional<int> size_of(const YAML::Node& root, const char* key, const std::string& file,
                           ImportReport& report) {
  const YAML::Node node = root[key];
  if (!node) return std::nullopt;
  const auto value = node.IsScalar() ? parse_int(node.Scalar()) : std::nullopt;
  if (!value || *value < 1 || *value > kMaxSize) {
    report.add(Severity::DataLoss,
               "metadata value left out: a parallel size must be a whole number of at least 1",
               file + ": " + key);
    return std::nullopt;
  }
  return static_cast<int>(*value);
}

}  // namespace

JobMeta parse_job_meta(std::string_view text, const std::string& file, ImportReport& report) {
  JobMeta meta;
  meta.source = file;
  // Flow collections nest without end on hostile input; a metadata file has none.
  if (text.size() > kMaxBytes || text.find_first_of("[{") != std::string_view::npos) {
    report.add(Severity::DataLoss, "metadata file left out: expected flat 'key: value' lines", file);
    return meta;
  }
  try {
    const YAML::Node root = YAML::Load(std::string(text));
    if (!root.IsMap()) {
      report.add(Severity::DataLoss, "metadata file left out: expected flat 'key: value' lines", file);
      return meta;
    }
    if (const YAML::Node name = root["trial_name"]; name && name.IsScalar()) meta.trial_name = name.Scalar();
    meta.dp_size = size_of(root, "dp_size", file, report);
    meta.pp_size = size_of(root, "pp_size", file, report);
    meta.tp_size = size_of(root, "tp_size", file, report);
    meta.dsp_size = size_of(root, "dsp_size", file, report);
    meta.vpp_size = size_of(root, "vpp_size", file, report);
    meta.world_size = size_of(root, "world_size", file, report);
  } catch (const YAML::Exception& error) {
    report.add(Severity::DataLoss, "metadata file left out: not YAML",
               Place{file, static_cast<std::uint64_t>(error.mark.line + 1), {}}.text() + " " + error.msg);
    return JobMeta{.source = file};
  }
  return meta;
}

std::optional<std::filesystem::path> find_job_meta(const std::filesystem::path& trace) {
  const std::filesystem::path folder = trace.parent_path();
  std::string name = trace.filename().string();
  for (const std::string_view suffix : {".gz", ".zst", ".csv"}) {
    if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  }
  if (name.starts_with("trace-")) {
    const auto named = folder / ("meta-" + name.substr(6) + ".yaml");
    if (std::filesystem::is_regular_file(named)) return named;
  }
  const auto plain = folder / "meta.yaml";
  if (std::filesystem::is_regular_file(plain)) return plain;
  return std::nullopt;
}

}  // namespace prism
