// SPDX-License-Identifier: Apache-2.0
// Reader for traces of the PyTorch profiler: the JSON that its library Kineto writes (docs/formats.md says
// what is read, tolerated and refused).
//
// Event by event, in one pass and little memory, whatever the size of the file. What profilers and crashes do
// to such files costs the events concerned, not the file, and is counted in the import report.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "prism/run/control.hpp"
#include "prism/trace/import_report.hpp"
#include "prism/trace/rank_trace.hpp"

namespace prism {

struct KinetoOptions {
  bool strict = false;      ///< refuse every file that is not sound JSON, instead of reading what is sound
  std::optional<int> rank;  ///< for a file that does not say its rank
};

/// Whether unpacked text that begins like this is such a trace. 16 KiB are enough to tell.
[[nodiscard]] bool looks_like_kineto(std::string_view first_bytes);

/// One rank, from a file (plain, gzip, zstd) or standard input ("-").
///
/// The rank is that of `distributedInfo`; else `options.rank`; else a number after "rank", "worker" or "-r" in
/// the file's name; else 0. Throws InputError if the file cannot be opened, is empty, is no such trace, or,
/// with `strict`, is not sound.
[[nodiscard]] RankTrace read_kineto(const std::filesystem::path& path, const KinetoOptions& options,
                                    ImportReport& report);

/// As read_kineto, from bytes in memory, packed or not; `name` stands for the file.
[[nodiscard]] RankTrace read_kineto_bytes(std::string_view bytes, const std::string& name,
                                          const KinetoOptions& options, ImportReport& report);

/// The ranks of one job, in order of rank, which several files must say or be named by. Files are read in
/// parallel. Throws InputError as read_kineto, also if two files have one rank; Cancelled if a stop was
/// requested.
[[nodiscard]] std::vector<RankTrace> read_kineto_files(std::span<const std::filesystem::path> paths,
                                                       const KinetoOptions& options,
                                                       const RunControl& control, ImportReport& report);

/// The files directly in `folder` that are such traces, in order of name; the others are named in `report`.
/// Throws InputError if the folder cannot be read.
[[nodiscard]] std::vector<std::filesystem::path> kineto_files_in(const std::filesystem::path& folder,
                                                                 ImportReport& report);

}  // namespace prism
