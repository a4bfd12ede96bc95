// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/parallel_layout.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <string>
#include <utility>

namespace prism {

namespace {

/// Words of a description in lower case: "mesh_dp_shard" -> mesh, dp, shard.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  return words;
}

bool agrees(const Mesh& mesh, const std::vector<CommGroup>& groups,
            const std::vector<std::optional<Axis>>& axes) {
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (!axes[g] || groups[g].members.empty()) continue;
    const std::vector<std::int64_t> expected = mesh.group(groups[g].members.front(), *axes[g]);
    if (!std::ranges::equal(expected, groups[g].members)) return false;
  }
  return true;
}

}  // namespace

std::optional<Axis> axis_of_description(std::string_view description) {
  constexpr std::array<std::pair<std::string_view, Axis>, 13> kWords = {{{"tp", Axis::Tp},
                                                                         {"tensor", Axis::Tp},
                                                                         {"cp", Axis::Cp},
                                                                         {"context", Axis::Cp},
                                                                         {"ep", Axis::Ep},
                                                                         {"expert", Axis::Ep},
                                                                         {"pp", Axis::Pp},
                                                                         {"pipeline", Axis::Pp},
                                                                         {"pipe", Axis::Pp},
                                                                         {"dp", Axis::Dp},
                                                                         {"data", Axis::Dp},
                                                                         {"fsdp", Axis::Dp},
                                                                         {"ddp", Axis::Dp}}};
  std::optional<Axis> axis;
  for (const std::string& word : words_of(description)) {
    for (const auto& [known, names] : kWords) {
      if (word != known) continue;
      if (axis && *axis != names) return std::nullopt;  // "DATA_PARALLEL_GROUP_WITH_CP" spans both
      axis = names;
    }
  }
  return axis;
}

ParallelLayout find_layout(std::span<const RankTrace> traces, const GroupTable& groups) {
  ParallelLayout layout;
  layout.world = static_cast<std::int64_t>(traces.size());
  for (const RankTrace& trace : traces)
    layout.world = std::max<std::int64_t>(layout.world, trace.world_size.value_or(1));
  bool described = !groups.groups.empty();
  for (const CommGroup& group : groups.groups) {
    std::optional<Axis> axis = axis_of_description(group.description);
    const bool is_world = group.size == layout.world && group.identity == GroupIdentity::Name;
    if (!axis && is_world && groups.groups.size() == 1) axis = Axis::Dp;
    layout.axis_of_group.push_back(axis);
    if (axis) layout.mesh.size(*axis) = std::max(layout.mesh.size(*axis), group.size);
    described = described && (axis || is_world || group.size <= 1);
  }
  layout.known = described && layout.mesh.world_size() == layout.world;
  if (layout.known && !agrees(layout.mesh, groups.groups, layout.axis_of_group)) {
    layout.mesh.order = {Axis::Tp, Axis::Cp, Axis::Ep, Axis::Pp, Axis::Dp};
    layout.known = agrees(layout.mesh, groups.groups, layout.axis_of_group);
  }
  if (!layout.known) layout.mesh = {};
  std::map<int, std::int32_t> numbered;  // data-parallel coordinate -> cell
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const int coordinate =
        layout.known ? layout.mesh.coordinate(traces[i].rank.value_or(static_cast<int>(i)), Axis::Dp)
                     : static_cast<int>(i);
    layout.cell_of.push_back(
        numbered.try_emplace(coordinate, static_cast<std::int32_t>(numbered.size())).first->second);
  }
  layout.cells = static_cast<std::uint32_t>(std::max<std::size_t>(1, numbered.size()));
  return layout;
}

}  // namespace prism
