// SPDX-License-Identifier: Apache-2.0
// Activations are counted as in Korthikanti et al. 2022 (arXiv 2205.05198), section 4, with the attention core fused (no scores
// are kept), without dropout masks, and with the widths of grouped-query attention and gated feed-forward layers.
#include "prism/plan/memory.hpp"

#include <algorithm>

#include "prism/plan/layer_kernels.hpp"

namespace prism {

namespace {

constexpr double kWeightBytes = 2;      // bf16
constexpr double kActivationBytes = 2;  // bf16
constexpr double kLogitBytes = 6;       // bf16 logits and their fp32 form

double attention_width(const Transformer& m, double tp) {
  const auto heads = static_cast<double>(m.heads);
  if (m.latent) {
    const LatentAttention& a = *m.latent;
    const auto key = static_cast<double>(a.nope_head_size + a.rope_head_size);
    const auto value = static_cast<double>(a.value_head_size);
    // Low-rank inputs of the up projections, then queries, keys, values and the result.
    return static_cast<double>(a.query_rank + a.key_value_rank) + heads * (2 * key + 2 * value) / tp;
  }
  const double kv = std::max(static_cast<double>(m.kv_heads), tp);
  return static_cast<double>(m.head_size) * (2 * heads + 2 * kv) / tp;
}

double shard_of(const Parallel& p) {
  return static_cast<double>(p.shard == 0 ? p.dp * p.cp : p.shard);
}

}  // namespace

double layer_activation_bytes(const Transformer& m, const Parallel& p, const Precisions& precisions,
                              const Microbatch& microbatch, std::int64_t layer) {
  const LayerKernels kernels(m, p, precisions, microbatch);
  const auto tp = static_cast<double>(p.tp);
  const auto h = static_cast<double>(m.hidden);
  const double tokens = kernels.tokens();
  const double split = kernels.sequence_split();
  if (p.recompute == Recompute::Full) return kActivationBytes * tokens * h / split;  // the layer's input
  // Inputs of both norms and both norms' results; attention; feed-forward.
  double values = 4 * h / split + attention_width(m, tp);
  const double up = m.gated_ffn ? 3 : 2;  // results of the up projection(s) and of the activation
  if (!m.is_mixture(layer)) {
    values += up * static_cast<double>(m.ffn) / tp;
  } else {
    const MixtureOfExperts& e = *m.experts;
    const double routed = static_cast<double>(e.top_k) * p.expert_load / split;
    values += routed * (2 * h + up * static_cast<double>(e.expert_ffn));
    values += up * static_cast<double>(e.shared_ffn) / split;
  }
  return kActivationBytes * tokens * values;
}

std::vector<MemoryUse> memory_use(const Transformer& m, const Parallel& p, const Precisions& precisions,
                                  const Microbatch& microbatch, const PipelineSchedule& schedule,
                                  const std::vector<StageLayers>& layers, const std::string& source) {
  const ScheduleTimes times = time_schedule(schedule, {}, source);
  const LayerKernels kernels(m, p, precisions, microbatch);
  std::vector<MemoryUse> uses(static_cast<std::size_t>(schedule.ranks));
  const double expert_shard = static_cast<double>(p.dp * p.cp * p.tp) / static_cast<double>(p.ep * p.etp);
  for (std::size_t rank = 0; rank < uses.size(); ++rank) {
    MemoryUse& use = uses[rank];
    double stages = 0;
    double activations = 0;  // of one microbatch in all stages of the rank
    double widest_layer = 0;
    for (std::int32_t copy = 0; copy < schedule.copies; ++copy) {
      for (std::int32_t stage = 0; stage < schedule.stages; ++stage) {
        if (schedule.rank(copy, stage) != static_cast<std::int32_t>(rank)) continue;
        const StageLayers& held = layers[static_cast<std::size_t>(stage)];
        const RankParameters parameters = rank_parameters(m, p, held);
        const auto dense = static_cast<double>(parameters.dense);
        const auto expert = static_cast<double>(parameters.expert);
        const auto sharded = [&](bool is) {
          return is ? dense / shard_of(p) + expert / expert_shard : dense + expert;
        };
        use.weights += kWeightBytes * sharded(p.zero >= 3);
        use.gradients += p.main_gradient_bytes * sharded(p.zero >= 2);
        use.optimizer += p.optimizer_state_bytes * sharded(p.zero >= 1) / schedule.copies;
        ++stages;
        for (std::int64_t i = 0; i < held.count; ++i) {
          activations += layer_activation_bytes(m, p, precisions, microbatch, held.first + i);
          widest_layer = std::max(
              widest_layer, (dense + expert) / static_cast<double>(std::max<std::int64_t>(held.count, 1)));
        }
        if (held.loss) {
          use.workspace =
              kLogitBytes * kernels.tokens() * static_cast<double>(m.vocabulary) / static_cast<double>(p.tp);
        }
      }
    }
    use.in_flight = times.most_alive[rank];
    if (stages > 0) use.activations = use.in_flight * activations / stages;
    // Recomputation holds one whole layer at a time; sharded weights are gathered for two layers.
    if (p.recompute == Recompute::Full && m.layers > 0) {
      Parallel kept = p;
      kept.recompute = Recompute::None;
      use.workspace += layer_activation_bytes(m, kept, precisions, microbatch, m.layers - 1);
    }
    if (p.zero >= 3) use.workspace += 2 * kWeightBytes * widest_layer;
  }
  return uses;
}

}  // namespace prism
