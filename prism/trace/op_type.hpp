// SPDX-License-Identifier: Apache-2.0
// Operation types of an op-level timeline: what a training framework's timers record, one level above
// kernels.
//
// Names are those of the NDTimeline family of traces ("forward-compute", "grads-reduce-scatter", ...). What
// each type does (compute, point-to-point, collective, local) decides the dependency rules and the sampling
// rule.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace prism {

enum class OpType : std::uint8_t {
  ForwardCompute,
  BackwardCompute,
  ForwardSend,
  ForwardRecv,
  BackwardSend,
  BackwardRecv,
  ParamsAllGather,
  GradsReduceScatter,
  SeparateGradsAllReduce,
  LayernormGradsAllReduce,
  EmbeddingGradsAllReduce,
  OptimizerClipMainGrad,
  Optimizer,
  Gc,
};

inline constexpr std::size_t kOpTypeCount = 14;

/// All types, in the enumeration's order.
constexpr std::array<OpType, kOpTypeCount> all_op_types() {
  std::array<OpType, kOpTypeCount> types{};
  for (std::size_t i = 0; i < kOpTypeCount; ++i) types[i] = static_cast<OpType>(i);
  return types;
}

/// "forward-compute", ...
std::string_view op_type_name(OpType type);

/// The type of that name; nothing if unknown.
std::optional<OpType> op_type_from_name(std::string_view name);

constexpr bool is_compute(OpType type) {
  return type == OpType::ForwardCompute || type == OpType::BackwardCompute;
}
constexpr bool is_send(OpType type) {
  return type == OpType::ForwardSend || type == OpType::BackwardSend;
}
constexpr bool is_recv(OpType type) {
  return type == OpType::ForwardRecv || type == OpType::BackwardRecv;
}

/// Data-parallel collectives that share one stream of a stage.
constexpr bool is_dp_stream(OpType type) {
  return type == OpType::ParamsAllGather || type == OpType::GradsReduceScatter;
}

/// Ops that move data with other workers of the trace; all others run locally. The tensor-parallel layer-norm
/// reduction counts as local: only one worker of a tensor-parallel group is recorded.
constexpr bool is_communication(OpType type) {
  switch (type) {
    case OpType::ForwardSend:
    case OpType::ForwardRecv:
    case OpType::BackwardSend:
    case OpType::BackwardRecv:
    case OpType::ParamsAllGather:
    case OpType::GradsReduceScatter:
    case OpType::SeparateGradsAllReduce:
    case OpType::EmbeddingGradsAllReduce:
    case OpType::OptimizerClipMainGrad:
      return true;
    default:
      return false;
  }
}

/// Collectives whose group also spans all data-parallel replicas of a step.
constexpr bool spans_replicas(OpType type) {
  return is_dp_stream(type) || type == OpType::SeparateGradsAllReduce ||
         type == OpType::OptimizerClipMainGrad;
}

}  // namespace prism
