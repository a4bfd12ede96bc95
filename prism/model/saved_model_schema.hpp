// SPDX-License-Identifier: Apache-2.0
// The saved model's tables and limits, shared by its writer and its reader. Documented for users in
// docs/formats.md.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>

#include "prism/model/step_model.hpp"

namespace prism::saved_model {

inline constexpr std::int64_t kApplicationId = 0x5052534D;  // "PRSM"
inline constexpr std::int64_t kVersion = 2;
inline constexpr std::int64_t kFirstVersion = 1;  // without cells, phases, kinds of steps and activity

struct Table {
  const char* name;
  const char* columns;
  std::int64_t since = kFirstVersion;
};

inline constexpr std::array<Table, 12> kTables = {
    {{"meta", "key TEXT PRIMARY KEY, value TEXT"},
     {"node",
      "id INTEGER PRIMARY KEY, kind TEXT, name TEXT, rank INTEGER, stage INTEGER, microbatch INTEGER, "
      "stable_id INTEGER, draw_id INTEGER, draw_group_size INTEGER, draw_group_stride INTEGER, "
      "class INTEGER, member INTEGER, phase TEXT, cell INTEGER, over_replicas INTEGER, lane INTEGER, "
      "replica_group_size INTEGER, replica_group_stride INTEGER"},
     {"edge", "before INTEGER, after INTEGER"},
     {"duration_class",
      "id INTEGER PRIMARY KEY, key TEXT, category TEXT, rank INTEGER, members INTEGER, size INTEGER, "
      "per_replica INTEGER, exchangeable INTEGER, offset INTEGER"},
     {"step", "number INTEGER, observed_ns REAL, kind INTEGER"},
     {"activity", "rank INTEGER, busy REAL, communicating REAL, waiting_host REAL, waiting_ranks REAL", 2},
     {"inference", "kind TEXT, what TEXT"},
     {"report", "severity TEXT, reason TEXT, count INTEGER, places TEXT"},
     {"array", "name TEXT, part INTEGER, data BLOB, PRIMARY KEY(name, part)"},
     {"recorded_op",
      "id INTEGER PRIMARY KEY, type TEXT, stage INTEGER, seq INTEGER, chunk INTEGER, microbatch INTEGER"},
     {"recorded_step", "number INTEGER"},
     {"recorded_rank", "replica INTEGER, stage INTEGER, rank INTEGER"}}};

inline constexpr std::size_t kValuesPerPart = std::size_t{1} << 20;
inline constexpr std::size_t kValueBytes = 8;

// Largest of what a file may claim; far above any job, far below what would overflow.
inline constexpr std::int64_t kMaxIndex = 1
                                          << 24;  // ranks, replicas, stages, sizes: as the readers of traces
inline constexpr std::int64_t kMaxCount = std::numeric_limits<std::int32_t>::max();
inline constexpr std::size_t kMaxReportEntries = 1000;
inline constexpr std::size_t kMaxRecords = std::size_t{1} << 48;  // that an entry of the report stands for
inline constexpr double kMaxNs = 1e18;                            // 30 years

/// When each node started, against the end of the step before: the one array that may hold NaN.
inline constexpr std::string_view kNodeStarts = "node_start_ns";

inline constexpr std::size_t kNodeKindCount = 3;
inline constexpr std::size_t kPhaseCount = 5;

inline std::string_view node_kind_name(NodeKind kind) {
  constexpr std::array<std::string_view, kNodeKindCount> kNames = {"op", "delay", "join"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace prism::saved_model
