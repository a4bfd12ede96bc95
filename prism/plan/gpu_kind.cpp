// SPDX-License-Identifier: Apache-2.0
#include "prism/plan/gpu_kind.hpp"

#include <algorithm>
#include <cctype>

namespace prism {

namespace {

/// Time that a kernel loses at its start and end (ramp, tail wave), which makes small kernels inefficient.
constexpr double kRampUs = 4;

/// Curves from the shares of the peak that large kernels reach: dense products, products of experts, attention core,
/// memory. `half` follows from the ramp: w / (most * peak) + ramp = (w + half) / (most * peak).
std::array<EfficiencyCurve, kKernelClassCount> curves(const GpuKind& gpu, double gemm, double grouped,
                                                      double attention, double memory) {
  const auto compute = [&](double most) {
    return EfficiencyCurve{most, most * gpu.bf16_tflops * 1e12 * kRampUs * 1e-6};
  };
  const auto bytes = [&](double most) {
    return EfficiencyCurve{most, most * gpu.memory_gb_per_s * 1e9 * kRampUs * 1e-6};
  };
  return {compute(gemm), compute(grouped), compute(attention), bytes(memory), bytes(memory)};
}

struct Peaks {
  const char* name;
  double bf16, fp8, fp4, tf32;  // TFLOP/s, dense
  double gb, gb_per_s;          // memory
  double scale_up, peer;        // GB/s, one direction; to one peer where there is no switch
  int domain;
  bool in_switch;
  double nic;
  const char* source;
};

// Dense peaks of vendors' data sheets; where a sheet prints rates with sparsity, half of them.
constexpr Peaks kPeaks[] = {
    {"A100", 312, 0, 0, 156, 80, 2039, 300, 0, 8, false, 25,
     "NVIDIA A100 Tensor Core GPU data sheet (SXM4, 80 GB)"},
    {"A100-40GB", 312, 0, 0, 156, 40, 1555, 300, 0, 8, false, 25,
     "NVIDIA A100 Tensor Core GPU data sheet (SXM4, 40 GB)"},
    {"H100", 989.4, 1978.9, 0, 494.7, 80, 3350, 450, 0, 8, true, 50,
     "NVIDIA H100 Tensor Core GPU data sheet (SXM5)"},
    {"H200", 989.4, 1978.9, 0, 494.7, 141, 4800, 450, 0, 8, true, 50,
     "NVIDIA H200 Tensor Core GPU data sheet (SXM5)"},
    {"H800", 989.4, 1978.9, 0, 494.7, 80, 3350, 200, 0, 8, true, 50,
     "NVIDIA H800: H100 with NVLink of 400 GB/s both ways (DeepSeek-V3, arXiv 2412.19437 and 2505.09343)"},
    {"H20", 148, 296, 0, 74, 96, 4000, 450, 0, 8, true, 50, "NVIDIA H20 data sheet"},
    {"B200", 2250, 4500, 9000, 1125, 180, 7700, 900, 0, 8, true, 50,
     "NVIDIA Blackwell data sheet (HGX B200)"},
    {"GB200", 2500, 5000, 10000, 1250, 186, 8000, 900, 0, 72, true, 50, "NVIDIA GB200 NVL72 data sheet"},
    {"B300", 2250, 4500, 13125, 1125, 270, 7700, 900, 0, 8, true, 100,
     "NVIDIA Blackwell Ultra data sheet (HGX B300)"},
    {"GB300", 2500, 5000, 15000, 1250, 279, 8000, 900, 0, 72, true, 100, "NVIDIA GB300 NVL72 data sheet"},
    {"MI300X", 1307.4, 2614.9, 0, 653.7, 192, 5300, 448, 64, 8, false, 50, "AMD Instinct MI300X data sheet"},
    {"MI325X", 1307.4, 2614.9, 0, 653.7, 256, 6000, 448, 64, 8, false, 50, "AMD Instinct MI325X data sheet"},
    {"MI355X", 2516.6, 5033.2, 10066.3, 0, 288, 8000, 537.6, 76.8, 8, false, 50,
     "AMD Instinct MI355X data sheet"},
};

GpuKind from_peaks(const Peaks& p) {
  GpuKind gpu;
  gpu.name = p.name;
  gpu.bf16_tflops = p.bf16;
  gpu.fp8_tflops = p.fp8;
  gpu.fp4_tflops = p.fp4;
  gpu.tf32_tflops = p.tf32;
  gpu.memory_gb = p.gb;
  gpu.memory_gb_per_s = p.gb_per_s;
  gpu.scale_up_gb_per_s = p.scale_up;
  gpu.scale_up_peer_gb_per_s = p.peer;
  gpu.scale_up_domain = p.domain;
  gpu.in_switch_reduction = p.in_switch;
  gpu.nic_gb_per_s = p.nic;
  gpu.source = p.source;
  return gpu;
}

std::vector<GpuKind> make_table() {
  std::vector<GpuKind> table;
  for (const Peaks& p : kPeaks) {
    GpuKind gpu = from_peaks(p);
    const std::string_view name = gpu.name;
    if (name.starts_with("A100")) {
      gpu.efficiency = curves(gpu, 0.78, 0.60, 0.60, 0.85);
      gpu.attention_backward = 0.85;
      gpu.efficiency_source =
          "large bf16 products 0.7 to 0.8 of peak; FlashAttention-2 (arXiv 2307.08691): 190 to 220 TFLOP/s "
          "forward";
    } else if (name.starts_with("H")) {
      gpu.efficiency = curves(gpu, 0.66, 0.50, 0.50, 0.85);
      gpu.fp8_efficiency = 0.85;
      gpu.attention_backward = 0.80;
      gpu.efficiency_source =
          "large bf16 products 0.6 to 0.7 of peak at the power limit; FlashAttention-3 (arXiv 2407.08608): "
          "up to 0.75 "
          "forward, FlashAttention-2 0.35 to 0.4";
    } else if (name.starts_with("MI")) {
      gpu.efficiency = curves(gpu, 0.52, 0.35, 0.30, 0.75);
      gpu.fp8_efficiency = 0.85;
      gpu.fp4_efficiency = 0.75;
      gpu.attention_backward = 0.75;
      gpu.efficiency_source = "large bf16 products about half of peak";
    } else {
      gpu.efficiency = curves(gpu, 0.66, 0.45, 0.50, 0.85);
      gpu.fp8_efficiency = 0.80;
      gpu.fp4_efficiency = 0.60;
      gpu.attention_backward = 0.80;
      gpu.efficiency_source =
          "large bf16 products 0.6 to 0.75 of peak; attention 0.7 measured on B200 (SimuMax)";
    }
    table.push_back(std::move(gpu));
  }
  return table;
}

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) {
    return std::toupper(static_cast<unsigned char>(x)) == std::toupper(static_cast<unsigned char>(y));
  });
}

}  // namespace

double GpuKind::peak(Precision precision) const {
  switch (precision) {
    case Precision::Bf16:
      return bf16_tflops * 1e12;
    case Precision::Fp8:
      return fp8_tflops * 1e12;
    case Precision::Fp4:
      return fp4_tflops * 1e12;
    case Precision::Tf32:
      break;
  }
  return tf32_tflops * 1e12;
}

std::span<const GpuKind> gpu_kinds() {
  static const std::vector<GpuKind> table = make_table();
  return table;
}

const GpuKind* find_gpu_kind(std::string_view name) {
  for (const GpuKind& gpu : gpu_kinds()) {
    if (same_name(gpu.name, name)) return &gpu;
  }
  return nullptr;
}

double kernel_ns(const Kernel& kernel, const GpuKind& gpu) {
  if (kernel.fixed_ns > 0) return kernel.fixed_ns;
  Precision precision = kernel.precision;
  if (precision == Precision::Fp4 && gpu.fp4_tflops <= 0) precision = Precision::Fp8;
  if (precision == Precision::Fp8 && gpu.fp8_tflops <= 0) precision = Precision::Bf16;
  if (precision == Precision::Tf32 && gpu.tf32_tflops <= 0) precision = Precision::Bf16;
  const EfficiencyCurve& curve = gpu.efficiency[static_cast<std::size_t>(kernel.kind)];
  const EfficiencyCurve& memory = gpu.efficiency[static_cast<std::size_t>(KernelClass::Memory)];
  const double launches = std::max(kernel.launches, 1.0);
  double compute_ns = 0;
  if (kernel.flops > 0 && kernel.kind != KernelClass::Memory && kernel.kind != KernelClass::Optimizer) {
    const double narrow = precision == Precision::Fp8   ? gpu.fp8_efficiency
                          : precision == Precision::Fp4 ? gpu.fp4_efficiency
                                                        : 1;
    const bool core_backward = kernel.kind == KernelClass::Attention && kernel.backward;
    const double rate =
        gpu.peak(precision) * curve.most * narrow * (core_backward ? gpu.attention_backward : 1);
    // The ramp is a time: at other precisions than bf16 the same time is more work.
    const double ramp_s = curve.half / (curve.most * gpu.bf16_tflops * 1e12) * launches;
    compute_ns = (kernel.flops / rate + ramp_s) * 1e9;
  }
  double memory_ns = 0;
  if (kernel.bytes > 0) {
    memory_ns = (kernel.bytes + memory.half * launches) / (memory.most * gpu.memory_gb_per_s * 1e9) * 1e9;
  }
  return std::max({compute_ns, memory_ns, launches * gpu.launch_us * 1e3});
}

}  // namespace prism
