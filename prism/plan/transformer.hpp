// SPDX-License-Identifier: Apache-2.0
// The shape of a transformer, and what follows from it alone: parameters and floating-point operations.
//
// Dense and mixture-of-experts decoders: multi-head, grouped-query and latent attention (DeepSeek-V2/V3),
// plain and gated feed-forward layers, routed and shared experts. A multiply-add counts as two operations.
// Nothing here depends on how the model is split over ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace prism {

/// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): queries and keys/values go through low-rank
/// projections.
struct LatentAttention {
  std::int64_t query_rank = 0;  ///< 0: queries are projected directly
  std::int64_t key_value_rank = 512;
  std::int64_t nope_head_size = 128;  ///< part of a query/key head without rotary position
  std::int64_t rope_head_size = 64;   ///< rotary part; the key's is shared by all heads
  std::int64_t value_head_size = 128;
  friend bool operator==(const LatentAttention&, const LatentAttention&) = default;
};

struct MixtureOfExperts {
  std::int64_t experts = 8;       ///< routed experts of a layer
  std::int64_t top_k = 2;         ///< experts a token is sent to
  std::int64_t expert_ffn = 0;    ///< feed-forward width of a routed expert
  std::int64_t shared_ffn = 0;    ///< total width of experts every token passes; 0: none
  std::int64_t dense_layers = 0;  ///< first layers that have a plain feed-forward layer instead
  std::int64_t layer_period = 1;  ///< every so many layers is a mixture, the others are plain
  bool router_bias = false;       ///< one correction value per expert
  friend bool operator==(const MixtureOfExperts&, const MixtureOfExperts&) = default;
};

struct Transformer {
  std::string name;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;             ///< h
  std::int64_t heads = 0;              ///< n, query heads
  std::int64_t kv_heads = 0;           ///< n_kv; n for multi-head attention
  std::int64_t head_size = 0;          ///< d
  std::int64_t ffn = 0;                ///< f, of plain layers
  std::int64_t vocabulary = 0;         ///< V, as trained (padding included if it is)
  std::int64_t learned_positions = 0;  ///< rows of a learned position table; 0: rotary or none
  bool gated_ffn = true;               ///< SwiGLU and its like: three matrices instead of two
  bool tied_embeddings = false;        ///< the output layer shares the embedding's weights
  bool qkv_bias = false;
  bool projection_bias = false;  ///< of the attention's output projection
  bool ffn_bias = false;
  bool norm_bias = false;              ///< LayerNorm rather than RMSNorm
  bool qk_norm = false;                ///< norms of queries and keys, one per head size
  bool parallel_blocks = false;        ///< attention and feed-forward read the same input (GPT-NeoX)
  std::int64_t prediction_layers = 0;  ///< extra multi-token prediction layers (DeepSeek-V3)
  std::optional<LatentAttention> latent;
  std::optional<MixtureOfExperts> experts;

  [[nodiscard]] bool is_mixture(std::int64_t layer) const;  ///< has layer `layer` (from 0) routed experts?
  friend bool operator==(const Transformer&, const Transformer&) = default;
};

/// Numbers of weights, biases and norms included.
struct ParameterCount {
  std::int64_t embedding = 0;   ///< token and position tables
  std::int64_t output = 0;      ///< output layer; 0 if tied
  std::int64_t attention = 0;   ///< of one layer, with its norm
  std::int64_t dense_ffn = 0;   ///< of one plain layer, with its norm
  std::int64_t expert_ffn = 0;  ///< of one mixture layer, all experts, router, shared experts and norm
  std::int64_t final_norm = 0;
  std::int64_t prediction = 0;  ///< of all multi-token prediction layers, without the shared tables
  std::int64_t total = 0;
  std::int64_t active = 0;  ///< that one token passes, embedding table included
};
ParameterCount count_parameters(const Transformer& model);

/// Model FLOPs of training one token at sequence length `sequence`: forward and backward (three times
/// forward), causal attention counted as the half it needs, no recomputation. The denominator's numerator of
/// MFU.
double model_flops_per_token(const Transformer& model, std::int64_t sequence);

/// Forward FLOPs per token of one layer, causal.
double layer_forward_flops(const Transformer& model, std::int64_t layer, std::int64_t sequence);

/// Throws InputError (place: `source`) naming the key that makes the shape impossible: a size that is not
/// positive or absurd (more than 10,000 layers, 10^15 parameters in all), heads not a multiple of kv_heads, more
/// experts per token than experts. All functions above are for shapes that pass.
void check_transformer(const Transformer& model, const std::string& source);

}  // namespace prism
