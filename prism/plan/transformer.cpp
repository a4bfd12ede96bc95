// SPDX-License-Identifier: Apache-2.0
#include "prism/plan/transformer.hpp"

#include <utility>

#include "prism/trace/error.hpp"

namespace prism {

namespace {

std::int64_t norm_parameters(const Transformer& m) {
  return m.norm_bias ? 2 * m.hidden : m.hidden;
}

/// Weights of the matrix products of attention: what a token is multiplied with.
std::int64_t attention_matrices(const Transformer& m) {
  const std::int64_t h = m.hidden;
  if (!m.latent) return h * (m.heads + 2 * m.kv_heads) * m.head_size + m.heads * m.head_size * h;
  const LatentAttention& a = *m.latent;
  const std::int64_t query = a.nope_head_size + a.rope_head_size;
  const std::int64_t queries =
      a.query_rank > 0 ? h * a.query_rank + a.query_rank * m.heads * query : h * m.heads * query;
  const std::int64_t keys = h * (a.key_value_rank + a.rope_head_size) +
                            a.key_value_rank * m.heads * (a.nope_head_size + a.value_head_size);
  return queries + keys + m.heads * a.value_head_size * h;
}

std::int64_t attention_parameters(const Transformer& m) {
  std::int64_t sum = attention_matrices(m) + norm_parameters(m);
  if (m.qkv_bias) sum += (m.heads + 2 * m.kv_heads) * m.head_size;
  if (m.projection_bias) sum += m.hidden;
  if (m.qk_norm) sum += 2 * m.head_size;
  if (m.latent) sum += m.latent->query_rank + m.latent->key_value_rank;  // their norms
  return sum;
}

std::int64_t ffn_matrices(const Transformer& m, std::int64_t width) {
  return (m.gated_ffn ? 3 : 2) * m.hidden * width;
}

std::int64_t dense_ffn_parameters(const Transformer& m) {
  std::int64_t sum = ffn_matrices(m, m.ffn) + norm_parameters(m);
  if (m.ffn_bias) sum += (m.gated_ffn ? 2 : 1) * m.ffn + m.hidden;
  return sum;
}

std::int64_t mixture_parameters(const Transformer& m, std::int64_t experts) {
  if (!m.experts) return 0;
  const MixtureOfExperts& e = *m.experts;
  return experts * ffn_matrices(m, e.expert_ffn) + ffn_matrices(m, e.shared_ffn) + m.hidden * e.experts +
         (e.router_bias ? e.experts : 0) + norm_parameters(m);
}

std::int64_t mixture_layers(const Transformer& m) {
  std::int64_t count = 0;
  for (std::int64_t layer = 0; layer < m.layers; ++layer) count += m.is_mixture(layer) ? 1 : 0;
  return count;
}

/// FLOPs of causal attention scores and their product with the values, per token.
double core_flops(const Transformer& m, std::int64_t sequence) {
  const std::int64_t key = m.latent ? m.latent->nope_head_size + m.latent->rope_head_size : m.head_size;
  const std::int64_t value = m.latent ? m.latent->value_head_size : m.head_size;
  return static_cast<double>(sequence) * static_cast<double>(m.heads * (key + value));
}

double ffn_flops(const Transformer& m, bool mixture) {
  if (!mixture) return 2.0 * static_cast<double>(ffn_matrices(m, m.ffn));
  const MixtureOfExperts& e = *m.experts;
  return 2.0 *
         static_cast<double>(ffn_matrices(m, e.top_k * e.expert_ffn + e.shared_ffn) + m.hidden * e.experts);
}

}  // namespace

bool Transformer::is_mixture(std::int64_t layer) const {
  return experts && layer >= experts->dense_layers &&
         layer % experts->layer_period == experts->layer_period - 1;
}

ParameterCount count_parameters(const Transformer& m) {
  ParameterCount count;
  count.embedding = (m.vocabulary + m.learned_positions) * m.hidden;
  count.output = m.tied_embeddings ? 0 : m.vocabulary * m.hidden;
  count.attention = attention_parameters(m);
  count.dense_ffn = dense_ffn_parameters(m);
  count.expert_ffn = m.experts ? mixture_parameters(m, m.experts->experts) : 0;
  count.final_norm = norm_parameters(m);
  const std::int64_t mixtures = mixture_layers(m);
  const std::int64_t rest = count.embedding + count.output + m.layers * count.attention +
                            (m.layers - mixtures) * count.dense_ffn + count.final_norm;
  count.total = rest + mixtures * count.expert_ffn;
  count.active = rest + mixtures * (m.experts ? mixture_parameters(m, m.experts->top_k) : 0);
  // Each prediction layer joins two hidden states (2h x h), norms both and its result, and is a layer like the last one.
  const std::int64_t like_last =
      count.attention + (m.is_mixture(m.layers - 1) ? count.expert_ffn : count.dense_ffn);
  count.prediction = m.prediction_layers * (2 * m.hidden * m.hidden + 3 * norm_parameters(m) + like_last);
  return count;
}

double layer_forward_flops(const Transformer& m, std::int64_t layer, std::int64_t sequence) {
  return 2.0 * static_cast<double>(attention_matrices(m)) + core_flops(m, sequence) +
         ffn_flops(m, m.is_mixture(layer));
}

double model_flops_per_token(const Transformer& m, std::int64_t sequence) {
  const double logits = 2.0 * static_cast<double>(m.hidden * m.vocabulary);
  double forward = logits;
  for (std::int64_t layer = 0; layer < m.layers; ++layer) forward += layer_forward_flops(m, layer, sequence);
  const double prediction = 2.0 * static_cast<double>(2 * m.hidden * m.hidden) + logits +
                            layer_forward_flops(m, m.layers - 1, sequence);
  forward += static_cast<double>(m.prediction_layers) * prediction;
  return 3 * forward;
}

void check_transformer(const Transformer& m, const std::string& source) {
  const auto refuse = [&](const std::string& problem, const std::string& fix) {
    throw InputError({source, {}, {}}, problem, fix);
  };
  constexpr std::int64_t kMostLayers = 1'000'000;
  constexpr std::int64_t kMostWidth = std::int64_t{1} << 24;
  const std::pair<const char*, std::int64_t> sizes[] = {
      {"hidden", m.hidden},       {"heads", m.heads}, {"kv_heads", m.kv_heads},
      {"head_size", m.head_size}, {"ffn", m.ffn},     {"vocabulary", m.vocabulary}};
  if (m.layers < 1 || m.layers > kMostLayers) {
    refuse("layers = " + std::to_string(m.layers), "from 1 to 1000000");
  }
  for (const auto& [name, size] : sizes) {
    if (size < 1 || size > kMostWidth) {
      refuse(std::string(name) + " = " + std::to_string(size), "from 1 to " + std::to_string(kMostWidth));
    }
  }
  if (m.heads % m.kv_heads != 0) {
    refuse(
        "heads = " + std::to_string(m.heads) + " is no multiple of kv_heads = " + std::to_string(m.kv_heads),
        "each key and value head serves the same number of query heads");
  }
  if (!m.experts) return;
  const MixtureOfExperts& e = *m.experts;
  if (e.experts < 1 || e.experts > kMostWidth || e.expert_ffn < 1 || e.expert_ffn > kMostWidth ||
      e.shared_ffn < 0 || e.layer_period < 1 || e.dense_layers < 0) {
    refuse("a mixture of " + std::to_string(e.experts) + " experts of width " + std::to_string(e.expert_ffn),
           "positive sizes");
  }
  if (e.top_k < 1 || e.top_k > e.experts) {
    refuse("top_k = " + std::to_string(e.top_k) + " of " + std::to_string(e.experts) + " experts",
           "at least 1 and at most all");
  }
}

}  // namespace prism
