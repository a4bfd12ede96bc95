// SPDX-License-Identifier: Apache-2.0
#include "prism/analysis/open_model.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "prism/ingest/job_meta.hpp"
#include "prism/ingest/kineto.hpp"
#include "prism/ingest/op_timeline_csv.hpp"
#include "prism/io/byte_stream.hpp"
#include "prism/io/bytes.hpp"
#include "prism/io/sqlite.hpp"
#include "prism/kernels/build_kernel_model.hpp"
#include "prism/model/build_step_model.hpp"
#include "prism/model/clocks.hpp"
#include "prism/model/graph_folder.hpp"
#include "prism/model/saved_model.hpp"
#include "prism/plan/build_plan_model.hpp"
#include "prism/plan/read_plan.hpp"
#include "prism/trace/error.hpp"

namespace prism {

namespace {

namespace fs = std::filesystem;

constexpr const char* kInputs =
    "give traces of the PyTorch profiler (JSON), an op-level timeline (CSV), both may be gzip or zstd, a "
    "plan (TOML), a "
    "saved "
    "model, or a folder with traces, one timeline, or nodes.csv, edges.csv and pools.csv";

/// The only timeline of a folder.
fs::path timeline_in(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && name.find(".csv") != std::string::npos) found.push_back(entry.path());
  }
  std::ranges::sort(found);
  if (found.size() == 1) return found.front();
  if (found.empty())
    throw InputError({folder.string(), {}, {}}, "the folder holds no trace: no profiler JSON and no CSV file",
                     kInputs);
  throw InputError({folder.string(), {}, {}},
                   "the folder holds " + std::to_string(found.size()) + " CSV files (" +
                       found[0].filename().string() + ", " + found[1].filename().string() + ", ...)",
                   "name one of them; each job is one input");
}

void keep_steps(OpTimeline& timeline, std::pair<int, int> range) {
  std::erase_if(timeline.records,
                [&](const OpRecord& r) { return r.step < range.first || r.step > range.second; });
  if (timeline.records.empty()) {
    throw InputError({timeline.source, {}, {}},
                     "no row in steps " + std::to_string(range.first) + " to " + std::to_string(range.second),
                     "prism inspect lists the steps");
  }
}

/// A model of traces, with those of its steps that were asked for.
StepModel open_traces(std::vector<RankTrace> traces, ImportReport report, const OpenOptions& options);

/// The first bytes of a file's content, unpacked.
std::string first_content(const fs::path& path) {
  constexpr std::size_t kEnoughToTell = std::size_t{16} << 10;
  std::string bytes(kEnoughToTell, '\0');
  ByteStream stream(path);
  bytes.resize(stream.read(bytes));
  return bytes;
}

StepModel open_plan_text(const std::string& text, const std::string& name, const OpenOptions& options) {
  if (options.steps) {
    throw InputError({name, {}, {}}, "a plan has no profiled steps to choose from", "leave --steps out");
  }
  return build_plan_model(parse_plan(text, name, fs::path(name).parent_path()));
}

StepModel open_text(const std::string& text, const std::string& name, const std::optional<fs::path>& meta,
                    const OpenOptions& options) {
  if (looks_like_kineto(text)) {
    ImportReport report;
    std::vector<RankTrace> traces;
    traces.push_back(read_kineto_bytes(text, name, {.strict = options.strict, .rank = options.rank}, report));
    return open_traces(std::move(traces), std::move(report), options);
  }
  if (looks_like_plan(text)) return open_plan_text(text, name, options);
  if (!looks_like_op_timeline(text)) throw InputError({name, {}, {}}, "format not recognised", kInputs);
  ImportReport report;
  OpTimeline timeline = parse_op_timeline(text, name, report);
  if (meta) timeline.meta = parse_job_meta(read_bytes(*meta), meta->string(), report);
  if (options.steps) keep_steps(timeline, *options.steps);
  auto job = std::make_shared<RecordedJob>(align(timeline, report));
  std::vector<double> offsets = align_clocks(*job, report);
  StepModel model = build_step_model(job, options.delays, std::move(report));
  model.clock_offsets_ns = std::move(offsets);
  model.digest = digest_text(content_digest(text));
  return model;
}

/// The model with those of its steps that lie in `range` and, if given, are among `among`.
StepModel select_steps(const StepModel& model, const std::optional<std::pair<int, int>>& range,
                       const std::vector<int>* among = nullptr) {
  std::vector<std::size_t> kept;
  for (std::size_t k = 0; k < model.steps.size(); ++k) {
    const int step = model.steps[k];
    const bool in_range = !range || (step >= range->first && step <= range->second);
    if (in_range && (among == nullptr || std::ranges::find(*among, step) != among->end())) kept.push_back(k);
  }
  if (kept.empty()) {
    const std::string text =
        range ? std::to_string(range->first) + " to " + std::to_string(range->second) : "the saved selection";
    throw InputError({model.source, {}, {}}, "no profiled step in " + text, "prism inspect lists the steps");
  }
  StepModel selected = with_steps(model, kept);
  if (kept.size() < model.steps.size() && !model.activity.empty()) {
    selected.report.add(Severity::Info,
                        "where each rank's time goes is of all profiled steps, not of those selected");
  }
  return selected;
}

/// The saved report with what building found now in place of what building found then.
ImportReport merged(const ImportReport& saved, const ImportReport& built) {
  ImportReport result;
  for (const ImportEntry& entry : saved.entries()) {
    const auto same = [&](const ImportEntry& other) { return other.reason == entry.reason; };
    if (std::ranges::none_of(built.entries(), same)) result.add(entry);
  }
  for (const ImportEntry& entry : built.entries()) result.add(entry);
  return result;
}

StepModel open_saved(const fs::path& path, const OpenOptions& options) {
  StepModel model = load_model(path);
  if (options.delays == model.delays) return options.steps ? select_steps(model, options.steps) : model;
  if (model.recording == nullptr) {
    throw InputError({path.string(), {}, {}}, "this saved model holds no recording to rebuild from",
                     "use the default launch delays, or the trace it was made from");
  }
  StepModel rebuilt = build_step_model(model.recording, options.delays);
  rebuilt.report = merged(model.report, rebuilt.report);
  rebuilt.digest = model.digest;
  rebuilt.clock_offsets_ns = model.clock_offsets_ns;
  return select_steps(rebuilt, options.steps, &model.steps);
}

/// One digest for several files, whatever their order.
std::uint64_t digest_of(const std::vector<RankTrace>& traces) {
  std::string text;
  for (const RankTrace& trace : traces) text += digest_text(trace.digest);
  return traces.size() == 1 ? traces.front().digest : content_digest(text);
}

StepModel open_traces(std::vector<RankTrace> traces, ImportReport report, const OpenOptions& options) {
  const std::uint64_t digest = digest_of(traces);
  const std::vector<CommunicationPattern> patterns =
      options.communication
          ? parse_communication_patterns(read_bytes(*options.communication), options.communication->string())
          : default_communication_patterns();
  const KernelRecording job = record_ranks(std::move(traces), options.control, report, patterns);
  StepModel model = build_kernel_model(job, std::move(report));
  model.digest = digest_text(digest);
  return options.steps ? select_steps(model, options.steps) : model;
}

StepModel open_trace_files(std::span<const fs::path> files, const std::string& source, ImportReport report,
                           const OpenOptions& options) {
  const KinetoOptions reading{.strict = options.strict, .rank = options.rank};
  std::vector<RankTrace> traces = read_kineto_files(files, reading, options.control, report);
  StepModel model = open_traces(std::move(traces), std::move(report), options);
  model.source = source;
  return model;
}

StepModel open_folder(const fs::path& path, const OpenOptions& options) {
  if (!fs::exists(path / "nodes.csv")) {
    ImportReport report;
    const std::vector<fs::path> traces = kineto_files_in(path, report);
    if (!traces.empty()) return open_trace_files(traces, path.string(), std::move(report), options);
    return open_model(timeline_in(path), options);
  }
  if (options.steps) {
    throw InputError({path.string(), {}, {}}, "a graph of your own has no profiled steps to choose from",
                     "leave --steps out");
  }
  return read_graph_folder(path);
}

}  // namespace

StepModel open_model(const fs::path& path, const OpenOptions& options) {
  if (path == "-") return open_text(read_bytes(path), "standard input", {}, options);
  std::error_code ignored;  // what cannot be looked at is said by read_bytes
  if (fs::is_directory(path, ignored)) return open_folder(path, options);
  // Only regular files can be read twice; a pipe's first bytes would be gone.
  if (fs::is_regular_file(path, ignored) && is_sqlite(read_first_bytes(path, 16)))
    return open_saved(path, options);
  if (fs::is_regular_file(path, ignored) && looks_like_kineto(first_content(path))) {
    return open_trace_files(std::span(&path, 1), path.string(), {}, options);
  }
  return open_text(read_bytes(path), path.string(), find_job_meta(path), options);
}

std::optional<Plan> open_plan(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return std::nullopt;
  if (is_sqlite(read_first_bytes(path, 16)) || !looks_like_plan(first_content(path))) return std::nullopt;
  return read_plan(path);
}

StepModel open_model(std::span<const fs::path> paths, const OpenOptions& options) {
  if (paths.size() == 1) return open_model(paths.front(), options);
  std::string source = paths.front().string() + " and " + std::to_string(paths.size() - 1) + " more";
  return open_trace_files(paths, source, {}, options);
}

}  // namespace prism
