// SPDX-License-Identifier: Apache-2.0
// How the ranks of a traced job are laid out along the parallel axes, as far as its process groups say.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "prism/kernels/group_table.hpp"
#include "prism/model/mesh.hpp"
#include "prism/trace/rank_trace.hpp"

namespace prism {

/// The axis that a process group's description names: "TENSOR_MODEL_PARALLEL_GROUP", "mesh_dp_shard", "pp".
std::optional<Axis> axis_of_description(std::string_view description);

struct ParallelLayout {
  bool known = false;  ///< the groups agree with one mesh over the whole world
  Mesh mesh;           ///< sizes 1 where unknown
  std::int64_t world = 1;
  std::vector<std::optional<Axis>> axis_of_group;  ///< [group]
  /// [trace] which data-parallel replica the rank is part of, numbered from 0 among the traced; a number of its own
  /// for each rank where the layout is unknown.
  std::vector<std::int32_t> cell_of;
  std::uint32_t cells = 1;
};

/// A job whose only group is the world is taken as data-parallel.
ParallelLayout find_layout(std::span<const RankTrace> traces, const GroupTable& groups);

}  // namespace prism
