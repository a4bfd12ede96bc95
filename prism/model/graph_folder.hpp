// SPDX-License-Identifier: Apache-2.0
// A user's own graph and pools: a folder with nodes.csv, edges.csv and pools.csv (format: docs/formats.md).
//
//   nodes.csv  node,pool[,rank][,stage][,microbatch][,category][,group_size][,group_stride]
//   edges.csv  before,after
//   pools.csv  pool,duration_s            one row per value
//   mesh.csv   axis,size                  optional; axes tp, cp, ep, dp, pp; dp is the number of replicas of
//   the graph
//
// Columns may come in any order. An empty pool makes a node a join of zero duration, category "launch-delay"
// a delay; other categories are compute (where it is left empty), collective, point-to-point, local, and those
// of kernel-level models (graph_folder_categories.hpp). Left empty, rank is 0, stage and microbatch are -1. group_size and group_stride make a node wait for other
// replicas ("all": every replica, also should there be more), and these replicas share its draws. Times are seconds, read as exact
// decimals: 0.000000001 is one nanosecond.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "prism/model/step_model.hpp"

namespace prism {

/// The model of the folder, with `replicas` copies of the graph if given, else as many as mesh.csv says, else
/// one.
///
/// Ranks are renumbered 0, 1, ... in their order; stable ids are hashes of the node names. A value in
/// pools.csv that is no time of 0 to 1e8 seconds is reported and left out, as are pools that no node uses.
/// Everything else that is wrong throws InputError with file and line: a row of nodes.csv or edges.csv that
/// cannot be read, a node that is there twice or whose pool has no value, nodes of different categories that
/// share a pool, an edge to an unknown node, a replica group that does not divide the replicas; and a cycle,
/// by the names of its nodes.
StepModel read_graph_folder(const std::filesystem::path& folder, std::optional<std::uint32_t> replicas = {});

/// Writes `model` as such a folder (made if absent), so that read_graph_folder gives a model with the same
/// nodes, edges, replicas and pool values.
///
/// What the format does not hold is lost: profiled steps and per-replica pools (all values of a pool become
/// one list), stable ids, draws shared by nodes or by other replicas than those the node waits for, the
/// mesh's order, the import report. Values below zero (clock scatter) become 0. Equal pool keys or node names
/// are told apart as "name (2)". Throws std::system_error if a file cannot be written.
void write_graph_folder(const StepModel& model, const std::filesystem::path& folder);

}  // namespace prism
