// SPDX-License-Identifier: Apache-2.0
#include "prism/plan/pass_program.hpp"

namespace prism {

const char* kernel_class_name(KernelClass kernel) {
  switch (kernel) {
    case KernelClass::Gemm:
      return "gemm";
    case KernelClass::GroupedGemm:
      return "grouped-gemm";
    case KernelClass::Attention:
      return "attention";
    case KernelClass::Memory:
      return "memory";
    case KernelClass::Optimizer:
      break;
  }
  return "optimizer";
}

const char* precision_name(Precision precision) {
  switch (precision) {
    case Precision::Bf16:
      return "bf16";
    case Precision::Fp8:
      return "fp8";
    case Precision::Fp4:
      return "fp4";
    case Precision::Tf32:
      break;
  }
  return "tf32";
}

const char* collective_name(CollectiveOp kind) {
  switch (kind) {
    case CollectiveOp::AllReduce:
      return "all-reduce";
    case CollectiveOp::AllGather:
      return "all-gather";
    case CollectiveOp::ReduceScatter:
      return "reduce-scatter";
    case CollectiveOp::AllToAll:
      return "all-to-all";
    case CollectiveOp::Broadcast:
      return "broadcast";
    case CollectiveOp::SendReceive:
      break;
  }
  return "send-receive";
}

const char* group_axis_name(GroupAxis axis) {
  static constexpr const char* kNames[kGroupAxisCount] = {
      "tp", "cp", "ep", "etp", "shard", "replicate", "dp", "expert-dp", "embedding", "model", "world", "pp"};
  return kNames[static_cast<std::size_t>(axis)];
}

}  // namespace prism
