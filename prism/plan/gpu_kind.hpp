// SPDX-License-Identifier: Apache-2.0
// What a GPU can do: the shipped table, and the form of a user's own entries.
//
// Rates are dense, per GPU; GB/s are 1e9 bytes per second. Sources are named per entry.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "prism/plan/pass_program.hpp"

namespace prism {

/// Share of a peak rate that a kernel reaches, growing with its size: most * w / (w + half), w the kernel's work. Fitted
/// per kernel class and precision.
struct EfficiencyCurve {
  double most = 0.75;  ///< reached by large kernels
  double half = 0;     ///< work (FLOPs; bytes for memory-bound kernels) at which half of `most` is reached
};

struct GpuKind {
  std::string name;  ///< "H100", as plans name it
  double bf16_tflops = 0;
  double fp8_tflops = 0;  ///< 0: not supported
  double fp4_tflops = 0;
  double tf32_tflops = 0;
  double memory_gb = 0;  ///< 1e9 bytes
  double memory_gb_per_s = 0;
  double scale_up_gb_per_s = 0;       ///< NVLink, Infinity Fabric: one direction, per GPU
  double scale_up_peer_gb_per_s = 0;  ///< to one peer, where there is no switch; 0: switched
  int scale_up_domain = 8;            ///< GPUs that reach each other over it
  bool in_switch_reduction = false;   ///< NVLink SHARP
  double nic_gb_per_s = 0;            ///< usual, per GPU, one direction
  double launch_us = 3;               ///< least duration of a kernel
  std::array<EfficiencyCurve, kKernelClassCount> efficiency;  ///< by KernelClass, at bf16
  double fp8_efficiency = 1;  ///< further factor of matrix products in fp8 (casts, scaling)
  double fp4_efficiency = 1;
  double attention_backward = 1;  ///< rate of the attention core backward over that forward
  std::string source;             ///< of the peaks
  std::string efficiency_source;

  /// Dense peak in FLOP/s; 0 if the GPU has no such unit.
  [[nodiscard]] double peak(Precision precision) const;
};

/// The shipped table, A100 to GB300 and MI300X to MI355X.
std::span<const GpuKind> gpu_kinds();

/// The entry of that name (upper or lower case); nothing if there is none.
const GpuKind* find_gpu_kind(std::string_view name);

/// Duration of one kernel on a GPU in nanoseconds: the longest of compute (FLOPs over the achieved rate), memory (bytes over
/// the achieved bandwidth) and launch (per kernel launched). Precision that the GPU lacks: the next wider one.
double kernel_ns(const Kernel& kernel, const GpuKind& gpu);

}  // namespace prism
