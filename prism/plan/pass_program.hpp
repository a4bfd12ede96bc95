// SPDX-License-Identifier: Apache-2.0
// What one pass of one microbatch through one virtual stage does on a rank: kernels and communication.
//
// A PassProgram is a list of ops that every rank of a stage runs alike. Compute ops of a rank run one after the other, in
// the list's order. An op also waits for the ops in its `after`. A communication op takes place once per process group of
// its axis: it starts when what it waits for has ended on all members and its channel (one per axis) is free, and all
// members end together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace prism {

/// What a kernel's speed and its spread depend on.
enum class KernelClass : std::uint8_t {
  Gemm,         ///< dense matrix products
  GroupedGemm,  ///< products of many experts at once
  Attention,    ///< fused attention core
  Memory,       ///< bound by memory: norms, activations, residuals, casts, permutations
  Optimizer,    ///< the optimizer's update
};
inline constexpr std::size_t kKernelClassCount = 5;
/// "gemm", "grouped-gemm", "attention", "memory" or "optimizer".
const char* kernel_class_name(KernelClass kernel);

enum class Precision : std::uint8_t { Bf16, Fp8, Fp4, Tf32 };
/// "bf16", "fp8", "fp4" or "tf32".
const char* precision_name(Precision precision);

/// One kernel, or several alike.
struct Kernel {
  std::string name;  ///< "qkv", "ffn up dgrad"
  KernelClass kind = KernelClass::Gemm;
  Precision precision = Precision::Bf16;
  double flops = 0;
  double bytes = 0;  ///< moved to and from memory
  double m = 0;      ///< shape of the matrix product, for its efficiency: m x k times k x n; 0: none
  double n = 0;
  double k = 0;
  double batch = 1;       ///< products of that shape
  double launches = 1;    ///< kernels that are launched for it
  bool backward = false;  ///< of the attention core: its backward
  double fixed_ns = 0;    ///< duration, if it is given rather than computed
};

enum class CollectiveOp : std::uint8_t {
  AllReduce,
  AllGather,
  ReduceScatter,
  AllToAll,
  Broadcast,
  SendReceive
};
/// "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast" or "send-receive".
const char* collective_name(CollectiveOp kind);

/// Process groups: ranks that differ along these axes only.
enum class GroupAxis : std::uint8_t {
  Tp,
  Cp,
  Ep,         ///< expert-parallel group
  Etp,        ///< tensor-parallel group of experts
  Shard,      ///< dense weights' shard group (of dp x cp)
  Replicate,  ///< ranks that hold the same dense shard
  Dp,         ///< dp x cp: dense gradients
  ExpertDp,   ///< expert gradients
  Embedding,  ///< first and last pipeline rank
  Model,      ///< all ranks of one replica
  World,      ///< all ranks
  Pp,         ///< neighbours along the pipeline
};
inline constexpr std::size_t kGroupAxisCount = 12;
/// "tp", "cp", "ep", "etp", "shard", "replicate", "dp", "expert-dp", "embedding", "model", "world" or "pp".
const char* group_axis_name(GroupAxis axis);

struct Communication {
  CollectiveOp kind = CollectiveOp::AllReduce;
  GroupAxis axis = GroupAxis::Tp;
  double bytes =
      0;  ///< S as nccl-tests counts: the full gathered or unreduced size; what one rank sends, for all-to-all
          ///< the whole buffer of one rank, for send-receive one message
  double hidden = 0;  ///< share of the transfer that runs behind the compute it belongs to (tp_overlap)
};

/// When an op of a pass takes place.
enum class When : std::uint8_t { Always, FirstMicrobatch, LastMicrobatch };

/// Index in PassOp::after that stands for the pass's input (the received activations or gradients).
inline constexpr int kPassInput = -1;

struct PassOp {
  std::string name;             ///< "attention", "gather tokens"
  std::vector<Kernel> kernels;  ///< compute op, run one after the other; empty for communication
  std::optional<Communication> communication;  ///< or a communication op
  std::vector<int> after;                      ///< earlier ops of the list, or kPassInput
  When when = When::Always;
  std::int32_t layer = -1;  ///< of the model, from 0; -1: none
};

struct PassProgram {
  std::vector<PassOp> ops;
  int output = kPassInput;  ///< what is passed on is ready when this op has ended
};

/// Everything a virtual stage does.
struct StagePrograms {
  PassProgram forward;
  PassProgram backward;        ///< input and weight gradients together
  PassProgram backward_input;  ///< and apart
  PassProgram backward_weight;
};

}  // namespace prism
