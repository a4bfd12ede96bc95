// SPDX-License-Identifier: Apache-2.0
#include "prism/ingest/kineto.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "prism/ingest/kineto_notes.hpp"
#include "prism/ingest/kineto_numbers.hpp"
#include "prism/ingest/kineto_reader.hpp"
#include "prism/io/byte_stream.hpp"
#include "prism/run/parallel.hpp"
#include "prism/trace/error.hpp"

namespace prism {

namespace {

constexpr std::size_t kFirstBytes = 16 * 1024;

/// A number after "rank", "worker" or "-r"; of several the last.
std::optional<int> rank_of_name(const std::string& name) {
  constexpr int kMostRank = 100'000'000;
  std::optional<int> rank;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (const std::string_view word : {"-r", "worker", "rank"}) {
    if (rank) break;
    for (std::size_t at = name.find(word); at != std::string::npos; at = name.find(word, at + 1)) {
      std::size_t first = at + word.size();
      if (word != "-r" && first < name.size() &&
          std::string_view("-_.=").find(name[first]) != std::string_view::npos) {
        ++first;
      }
      std::size_t last = first;
      while (last < name.size() && is_digit(name[last])) ++last;
      const auto number = kineto_int(std::string_view(name).substr(first, last - first), 0, kMostRank);
      if (number) rank = static_cast<int>(*number);
    }
  }
  return rank;
}

/// `only`: whether a rank may be assumed.
RankTrace read_one(ByteStream& stream, const KinetoOptions& options, const RunControl& control, bool only,
                   ImportReport& report) {
  const std::string file = stream.place().file;
  KinetoNotes notes(file, options.strict);
  RankTrace trace = read_kineto_stream(stream, control, notes);
  trace.source = file;
  if (!trace.rank) trace.rank = options.rank;
  if (!trace.rank) {
    trace.rank = rank_of_name(std::filesystem::path(file).filename().string());
    if (trace.rank) {
      notes.add(KinetoNote::RankFromName);
    } else if (only) {
      trace.rank = 0;
      notes.add(KinetoNote::RankAssumed);
    }
  }
  notes.put_into(report);
  return trace;
}

void merge(ImportReport& into, const ImportReport& from) {
  for (const ImportEntry& entry : from.entries()) into.add(entry);
}

}  // namespace

bool looks_like_kineto(std::string_view first_bytes) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (first_bytes.starts_with(kMark)) first_bytes.remove_prefix(kMark.size());
  first_bytes.remove_prefix(std::min(first_bytes.size(), first_bytes.find_first_not_of(" \t\r\n")));
  const auto has = [&](std::string_view key) { return first_bytes.find(key) != std::string_view::npos; };
  if (first_bytes.starts_with('[')) return has("\"ph\"") && has("\"pid\"");
  if (!first_bytes.starts_with('{')) return false;
  // The list of devices can be longer than the bytes that are looked at.
  return has("\"traceEvents\"") || has("\"baseTimeNanoseconds\"") || has("\"distributedInfo\"") ||
         (has("\"schemaVersion\"") && has("\"deviceProperties\""));
}

RankTrace read_kineto(const std::filesystem::path& path, const KinetoOptions& options, ImportReport& report) {
  ByteStream stream(path);
  return read_one(stream, options, {}, true, report);
}

RankTrace read_kineto_bytes(std::string_view bytes, const std::string& name, const KinetoOptions& options,
                            ImportReport& report) {
  ByteStream stream(bytes, name);
  return read_one(stream, options, {}, true, report);
}

std::vector<RankTrace> read_kineto_files(std::span<const std::filesystem::path> paths,
                                         const KinetoOptions& options, const RunControl& control,
                                         ImportReport& report) {
  std::vector<RankTrace> traces(paths.size());
  std::vector<ImportReport> reports(paths.size());
  // One option cannot be the rank of several files.
  KinetoOptions each = options;
  if (paths.size() > 1) each.rank.reset();
  parallel_for(paths.size(), control, [&](std::size_t i, std::size_t) {
    ByteStream stream(paths[i]);
    traces[i] = read_one(stream, each, control, paths.size() == 1, reports[i]);
  });
  for (const ImportReport& of_file : reports) merge(report, of_file);
  for (const RankTrace& trace : traces) {
    if (trace.rank) continue;
    throw InputError({trace.source, {}, {}}, "does not say its rank, and neither does its name",
                     "name the files by rank: rank0.json, rank1.json, ...");
  }
  std::ranges::stable_sort(traces, {}, [](const RankTrace& trace) { return *trace.rank; });
  const auto twice =
      std::ranges::adjacent_find(traces, {}, [](const RankTrace& trace) { return *trace.rank; });
  if (twice != traces.end()) {
    throw InputError({std::next(twice)->source, {}, {}},
                     "has rank " + std::to_string(*twice->rank) + ", and so has " + twice->source,
                     "give one file per rank, of one job and one profiling window");
  }
  return traces;
}

std::vector<std::filesystem::path> kineto_files_in(const std::filesystem::path& folder,
                                                   ImportReport& report) {
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->is_regular_file(error)) files.push_back(entry->path());
  }
  if (error) {
    throw InputError({folder.string(), {}, {}}, "cannot be listed (" + error.message() + ")",
                     "check the path");
  }
  std::ranges::sort(files);
  std::erase_if(files, [&](const std::filesystem::path& file) {
    try {
      std::string first(kFirstBytes, '\0');
      ByteStream stream(file);
      first.resize(stream.read(first));
      if (looks_like_kineto(first)) return false;
      report.add(Severity::Info, "file skipped: no PyTorch profiler trace", file.string());
    } catch (const InputError& unusable) {
      report.add(Severity::DataLoss, "file skipped: it cannot be read", unusable.what());
    }
    return true;
  });
  return files;
}

}  // namespace prism
