// SPDX-License-Identifier: Apache-2.0
#include "prism/plan/layer_kernels.hpp"

#include <algorithm>
#include <string>

namespace prism {

namespace {

constexpr double kActivationBytes = 2;  // bf16
constexpr double kGradientBytes = 4;    // weight gradients are added up in fp32
constexpr double kCoreBackward = 2.5;

double operand_bytes(Precision precision) {
  switch (precision) {
    case Precision::Fp8:
      return 1;
    case Precision::Fp4:
      return 0.5;
    case Precision::Bf16:
      return 2;
    case Precision::Tf32:
      break;
  }
  return 4;
}

/// Kernels of a product forward and backward; `batch` products of that shape.
void add_product(BlockKernels& block, const std::string& name, KernelClass kind, Precision precision,
                 double m, double n, double k, double batch = 1) {
  const double width = operand_bytes(precision);
  const auto kernel = [&](const char* what, double km, double kn, double kk, double bytes) {
    return Kernel{.name = name + what,
                  .kind = kind,
                  .precision = precision,
                  .flops = 2 * m * n * k * batch,
                  .bytes = bytes * batch,
                  .m = km,
                  .n = kn,
                  .k = kk,
                  .batch = batch};
  };
  block.forward.push_back(kernel("", m, n, k, width * (m * k + k * n) + kActivationBytes * m * n));
  block.dgrad.push_back(kernel(" dgrad", m, k, n, width * (m * n + k * n) + kActivationBytes * m * k));
  block.wgrad.push_back(kernel(" wgrad", k, n, m, width * (m * k + m * n) + 2 * kGradientBytes * k * n));
}

/// A memory-bound kernel that moves `forward` bytes, and `backward` in the backward pass.
void add_memory(BlockKernels& block, const std::string& name, double forward, double backward) {
  block.forward.push_back({.name = name, .kind = KernelClass::Memory, .bytes = forward});
  block.dgrad.push_back({.name = name + " backward", .kind = KernelClass::Memory, .bytes = backward});
}

}  // namespace

LayerKernels::LayerKernels(const Transformer& model, const Parallel& parallel, const Precisions& precisions,
                           const Microbatch& microbatch)
    : model_(model),
      parallel_(parallel),
      precisions_(precisions),
      microbatch_(microbatch),
      tokens_(static_cast<double>(microbatch.sequences * microbatch.sequence) /
              static_cast<double>(parallel.cp)),
      tp_(static_cast<double>(parallel.tp)),
      sequence_split_(parallel.sequence_parallel ? tp_ : 1) {}

double LayerKernels::activation_bytes() const {
  return tokens_ * static_cast<double>(model_.hidden) * kActivationBytes;
}

LayerKernels::HeadBytes LayerKernels::head_bytes() const {
  const double heads = static_cast<double>(model_.heads) / tp_;
  double kv_heads = std::max(static_cast<double>(model_.kv_heads) / tp_, 1.0);
  double key = static_cast<double>(model_.head_size);
  double value = key;
  if (model_.latent) {
    kv_heads = heads;
    key = static_cast<double>(model_.latent->nope_head_size + model_.latent->rope_head_size);
    value = static_cast<double>(model_.latent->value_head_size);
  }
  const double each = tokens_ * kActivationBytes;
  return {.queries = each * heads * key,
          .keys_and_values = each * kv_heads * (key + value),
          .results = each * heads * value};
}

AttentionKernels LayerKernels::attention() const {
  AttentionKernels kernels;
  const auto h = static_cast<double>(model_.hidden);
  const auto heads = static_cast<double>(model_.heads) / tp_;
  const double whole = activation_bytes() / sequence_split_;
  const Precision precision = precisions_.matmul;
  // Norm: read, write; backward reads two and writes one. Residual: reads two and writes one; its gradient is a sum.
  add_memory(kernels.before, "attention norm", 2 * whole, 3 * whole);
  double key = static_cast<double>(model_.head_size);
  double value = key;
  double kv_heads = std::max(static_cast<double>(model_.kv_heads) / tp_, 1.0);
  if (model_.latent) {
    const LatentAttention& a = *model_.latent;
    key = static_cast<double>(a.nope_head_size + a.rope_head_size);
    value = static_cast<double>(a.value_head_size);
    const auto rope = static_cast<double>(a.rope_head_size);
    const auto kv_rank = static_cast<double>(a.key_value_rank);
    const auto q_rank = static_cast<double>(a.query_rank);
    // Down projections are not split over tp.
    if (q_rank > 0) {
      add_product(kernels.before, "query down", KernelClass::Gemm, precision, tokens_, q_rank, h);
      add_product(kernels.before, "query up", KernelClass::Gemm, precision, tokens_, heads * key, q_rank);
    } else {
      add_product(kernels.before, "query", KernelClass::Gemm, precision, tokens_, heads * key, h);
    }
    add_product(kernels.before, "key value down", KernelClass::Gemm, precision, tokens_, kv_rank + rope, h);
    add_product(kernels.before, "key value up", KernelClass::Gemm, precision, tokens_,
                heads * (static_cast<double>(a.nope_head_size) + value), kv_rank);
    kv_heads = heads;
  } else {
    add_product(kernels.before, "qkv", KernelClass::Gemm, precision, tokens_, (heads + 2 * kv_heads) * key,
                h);
  }
  if (model_.learned_positions == 0) {
    const double rotated = tokens_ * (heads + kv_heads) * key * kActivationBytes;
    add_memory(kernels.before, "rotary", 2 * rotated, 2 * rotated);
  }
  // Causal: half of the scores; context-parallel ranks hold matching early and late parts.
  const auto sequence = static_cast<double>(microbatch_.sequence);
  const double flops = tokens_ * sequence * heads * (key + value);
  const HeadBytes each = head_bytes();
  const double bytes = each.queries + each.keys_and_values + each.results;
  const Kernel core{.name = "attention core",
                    .kind = KernelClass::Attention,
                    .precision = precisions_.attention,
                    .flops = flops,
                    .bytes = bytes};
  kernels.core.forward.push_back(core);
  Kernel back = core;
  back.name = "attention core backward";
  back.flops = kCoreBackward * flops;
  back.bytes = 2 * bytes;
  back.backward = true;
  kernels.core.dgrad.push_back(back);
  add_product(kernels.after, "attention projection", KernelClass::Gemm, precision, tokens_, h, heads * value);
  add_memory(kernels.after, "attention residual", 3 * whole, 2 * whole);
  return kernels;
}

BlockKernels LayerKernels::dense_ffn() const {
  BlockKernels block;
  const auto h = static_cast<double>(model_.hidden);
  const double f = static_cast<double>(model_.ffn) / tp_;
  const double whole = activation_bytes() / sequence_split_;
  const double wide = tokens_ * f * kActivationBytes;
  const double up = model_.gated_ffn ? 2 : 1;
  add_memory(block, "ffn norm", 2 * whole, 3 * whole);
  add_product(block, "ffn up", KernelClass::Gemm, precisions_.matmul, tokens_, up * f, h);
  add_memory(block, "activation", (up + 1) * wide, (2 * up + 1) * wide);
  add_product(block, "ffn down", KernelClass::Gemm, precisions_.matmul, tokens_, h, f);
  add_memory(block, "ffn residual", 3 * whole, 2 * whole);
  return block;
}

BlockKernels LayerKernels::router() const {
  BlockKernels block;
  const auto h = static_cast<double>(model_.hidden);
  const double tokens = tokens_ / sequence_split_;
  const double whole = activation_bytes() / sequence_split_;
  add_memory(block, "ffn norm", 2 * whole, 3 * whole);
  add_product(block, "router", KernelClass::Gemm, Precision::Bf16, tokens,
              static_cast<double>(model_.experts->experts), h);
  const auto k = static_cast<double>(model_.experts->top_k);
  add_memory(block, "permute", (1 + k) * whole, (1 + k) * whole);
  return block;
}

BlockKernels LayerKernels::experts() const {
  BlockKernels block;
  const MixtureOfExperts& e = *model_.experts;
  const auto h = static_cast<double>(model_.hidden);
  const auto etp = static_cast<double>(parallel_.etp);
  const double up = model_.gated_ffn ? 2 : 1;
  // Each rank routes its tokens to top_k experts and, in the mean, receives as many; the fullest sets the pace.
  const double local = static_cast<double>(e.experts) / static_cast<double>(parallel_.ep);
  const double routed =
      tokens_ / sequence_split_ * static_cast<double>(e.top_k) * etp * parallel_.expert_load;
  const double f = static_cast<double>(e.expert_ffn) / etp;
  const double wide = routed * f * kActivationBytes;
  add_product(block, "experts up", KernelClass::GroupedGemm, precisions_.expert, routed / local, up * f, h,
              local);
  add_memory(block, "experts activation", (up + 1) * wide, (2 * up + 1) * wide);
  add_product(block, "experts down", KernelClass::GroupedGemm, precisions_.expert, routed / local, h, f,
              local);
  const double whole = activation_bytes() / sequence_split_;
  const auto k = static_cast<double>(e.top_k);
  add_memory(block, "unpermute and residual", (3 + k) * whole, (2 + k) * whole);
  return block;
}

BlockKernels LayerKernels::shared_experts() const {
  BlockKernels block;
  if (model_.experts->shared_ffn == 0) return block;
  const auto h = static_cast<double>(model_.hidden);
  const double tokens = tokens_ / sequence_split_;
  const auto f = static_cast<double>(model_.experts->shared_ffn);
  const double up = model_.gated_ffn ? 2 : 1;
  const double wide = tokens * f * kActivationBytes;
  add_product(block, "shared experts up", KernelClass::Gemm, precisions_.matmul, tokens, up * f, h);
  add_memory(block, "shared experts activation", (up + 1) * wide, (2 * up + 1) * wide);
  add_product(block, "shared experts down", KernelClass::Gemm, precisions_.matmul, tokens, h, f);
  return block;
}

BlockKernels LayerKernels::prediction_input() const {
  BlockKernels block;
  const auto h = static_cast<double>(model_.hidden);
  const double whole = activation_bytes() / sequence_split_;
  add_memory(block, "prediction norms", 2 * 2 * whole, 2 * 3 * whole);
  add_product(block, "prediction input", KernelClass::Gemm, precisions_.matmul, tokens_ / sequence_split_, h,
              2 * h);
  return block;
}

BlockKernels LayerKernels::embedding() const {
  BlockKernels block;
  block.forward.push_back(
      {.name = "embedding", .kind = KernelClass::Memory, .bytes = 2 * activation_bytes()});
  // The gradient is scattered into rows of the table: read, add, write in fp32.
  block.wgrad.push_back({.name = "embedding backward",
                         .kind = KernelClass::Memory,
                         .bytes = activation_bytes() * (1 + 2 * kGradientBytes / kActivationBytes)});
  return block;
}

BlockKernels LayerKernels::loss() const {
  BlockKernels block;
  const auto h = static_cast<double>(model_.hidden);
  const double vocabulary = static_cast<double>(model_.vocabulary) / tp_;
  const double whole = activation_bytes() / sequence_split_;
  add_memory(block, "final norm", 2 * whole, 3 * whole);
  add_product(block, "output layer", KernelClass::Gemm, precisions_.output, tokens_, vocabulary, h);
  // Maximum, sum of exponentials and the target's logit, in fp32 from bf16 logits; backward writes their gradient.
  add_memory(block, "cross-entropy", 3 * tokens_ * vocabulary * kActivationBytes,
             2 * tokens_ * vocabulary * kActivationBytes);
  return block;
}

}  // namespace prism
