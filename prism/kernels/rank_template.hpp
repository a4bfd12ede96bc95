// SPDX-License-Identifier: Apache-2.0
// The template of one rank: the union of its profiled steps.
//
// Steps of a real job are nearly equal: some run a few launches more (a logged loss, an optimizer that works
// every other step). Each lane (stream or thread) of the template is the merged list of what the steps ran on
// it; every step is a part of it. An activity that a step did not run takes no time there.
//
// Vertices are numbered: GPU ops, begins of calls, ends of calls that block, starts of lanes.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "prism/kernels/rank_recording.hpp"

namespace prism {

inline constexpr std::uint32_t kAbsent = std::numeric_limits<std::uint32_t>::max();

enum class VertexKind : std::uint8_t { GpuOp, CallBegin, CallEnd, StreamStart, ThreadStart };

struct TemplateVertex {
  VertexKind kind = VertexKind::GpuOp;
  std::uint32_t lane = 0;        ///< stream (index into StreamOrder) or thread
  std::uint64_t signature = 0;   ///< of the op or call: equal for equal work
  std::uint32_t occurrence = 0;  ///< of the signature on the lane
};

struct TemplateEdge {
  std::uint32_t before = 0;  ///< vertex
  std::uint32_t after = 0;
  DependencyKind kind = DependencyKind::Stream;
  friend auto operator<=>(const TemplateEdge&, const TemplateEdge&) = default;
};

struct RankTemplate {
  std::size_t step_count = 0;
  std::vector<TemplateVertex> vertices;
  std::vector<TemplateEdge> edges;  ///< by `after`
  std::vector<std::uint32_t>
      instance;  ///< [vertex * step_count + step] GPU op or call of the trace, or kAbsent
  std::vector<std::uint32_t> op_vertex;  ///< [GPU op of the trace] vertex, or kAbsent
  std::size_t contradicted = 0;          ///< inferred edges of one step that times of another forbid, dropped
  std::size_t unsupported = 0;           ///< inferred edges seen in less than half of the steps, dropped

  [[nodiscard]] std::uint32_t at(std::uint32_t vertex, std::size_t step) const {
    return instance[vertex * step_count + step];
  }
};

/// The union of the steps `chosen` (indices into rank.steps). Throws InputError if they are so different that the union
/// would not fit memory.
RankTemplate make_rank_template(const RankRecording& rank, std::span<const std::size_t> chosen);

}  // namespace prism
