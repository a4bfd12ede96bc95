// SPDX-License-Identifier: Apache-2.0
#include "prism/plan/transformer.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

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
  if (!m.experts) return 0;
  // The last of each layer_period layers, less those among the dense ones.
  const std::int64_t period = m.experts->layer_period;
  return m.layers / period - std::min(m.experts->dense_layers, m.layers) / period;
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
  struct Size {
    const char* name;
    std::int64_t value;
    std::int64_t least;
    std::int64_t most;  // far above what is built, and low enough that products of sizes fit into 64 bits
  };
  constexpr std::int64_t kMostLayers = 10'000;
  constexpr std::int64_t kMostHidden = std::int64_t{1} << 20;
  constexpr std::int64_t kMostWidth = std::int64_t{1} << 24;
  constexpr std::int64_t kMostHeads = std::int64_t{1} << 16;
  std::vector<Size> sizes = {{"layers", m.layers, 1, kMostLayers},
                             {"hidden", m.hidden, 1, kMostHidden},
                             {"heads", m.heads, 1, kMostHeads},
                             {"kv_heads", m.kv_heads, 1, kMostHeads},
                             {"head_size", m.head_size, 1, kMostHeads},
                             {"ffn", m.ffn, 1, kMostWidth},
                             {"vocabulary", m.vocabulary, 1, kMostWidth},
                             {"learned_positions", m.learned_positions, 0, std::int64_t{1} << 31},
                             {"prediction_layers", m.prediction_layers, 0, 16}};
  if (m.latent) {
    const LatentAttention& a = *m.latent;
    sizes.insert(sizes.end(), {{"query_rank", a.query_rank, 0, kMostHidden},
                               {"key_value_rank", a.key_value_rank, 1, kMostHidden},
                               {"nope_head_size", a.nope_head_size, 1, kMostHeads},
                               {"rope_head_size", a.rope_head_size, 0, kMostHeads},
                               {"value_head_size", a.value_head_size, 1, kMostHeads}});
  }
  if (m.experts) {
    const MixtureOfExperts& e = *m.experts;
    sizes.insert(sizes.end(), {{"number of experts", e.experts, 1, std::int64_t{1} << 16},
                               {"width of an expert", e.expert_ffn, 1, kMostHidden},
                               {"width of shared experts", e.shared_ffn, 0, kMostWidth},
                               {"number of first dense layers", e.dense_layers, 0, kMostLayers},
                               {"layer_period", e.layer_period, 1, kMostLayers},
                               {"top_k", e.top_k, 1, std::int64_t{1} << 16}});
  }
  for (const Size& size : sizes) {
    if (size.value >= size.least && size.value <= size.most) continue;
    refuse(std::string(size.name) + " = " + std::to_string(size.value),
           "from " + std::to_string(size.least) + " to " + std::to_string(size.most));
  }
  if (m.heads % m.kv_heads != 0) {
    refuse(
        "heads = " + std::to_string(m.heads) + " is no multiple of kv_heads = " + std::to_string(m.kv_heads),
        "each key and value head serves the same number of query heads");
  }
  if (m.experts && m.experts->top_k > m.experts->experts) {
    refuse("top_k = " + std::to_string(m.experts->top_k) + " of " + std::to_string(m.experts->experts) +
               " experts",
           "at least 1 and at most all");
  }
  constexpr double kMostParameters = 1e15;
  const std::int64_t expert_ffn = m.experts ? mixture_parameters(m, m.experts->experts) : 0;
  const double parameters =
      static_cast<double>(m.layers + m.prediction_layers) *
      static_cast<double>(attention_parameters(m) + dense_ffn_parameters(m) + expert_ffn);
  if (parameters > kMostParameters) {
    refuse("layers of 10^" + std::to_string(std::llround(std::log10(parameters))) + " parameters in all",
           "at most 10^15");
  }
}

}  // namespace prism
