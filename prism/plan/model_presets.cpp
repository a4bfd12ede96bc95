// SPDX-License-Identifier: Apache-2.0
#include "prism/plan/model_presets.hpp"

#include <algorithm>
#include <vector>

namespace prism {

namespace {

struct Dense {
  const char* name;
  std::int64_t layers, hidden, heads, kv_heads, head_size, ffn, vocabulary, sequence;
  const char* source;
};

// Decoders with gated feed-forward layers, RMSNorm, rotary positions and untied embeddings.
constexpr Dense kGated[] = {
    {"llama-2-7b", 32, 4096, 32, 32, 128, 11008, 32000, 4096, "Touvron et al. 2023 (arXiv 2307.09288)"},
    {"llama-2-13b", 40, 5120, 40, 40, 128, 13824, 32000, 4096, "Touvron et al. 2023 (arXiv 2307.09288)"},
    {"llama-2-70b", 80, 8192, 64, 8, 128, 28672, 32000, 4096, "Touvron et al. 2023 (arXiv 2307.09288)"},
    {"llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256, 8192, "Llama Team 2024 (arXiv 2407.21783), table 3"},
    {"llama-3-70b", 80, 8192, 64, 8, 128, 28672, 128256, 8192, "Llama Team 2024 (arXiv 2407.21783), table 3"},
    {"llama-3-405b", 126, 16384, 128, 8, 128, 53248, 128256, 8192,
     "Llama Team 2024 (arXiv 2407.21783), table 3"},
};

// GPT: plain feed-forward layers of width 4h, LayerNorm and biases, learned positions, tied embeddings.
constexpr Dense kGpt[] = {
    {"gpt-3-22b", 48, 6144, 64, 64, 96, 24576, 51200, 2048,
     "Korthikanti et al. 2022 (arXiv 2205.05198), table 3"},
    {"gpt-3-175b", 96, 12288, 96, 96, 128, 49152, 51200, 2048,
     "Brown et al. 2020 (arXiv 2005.14165), vocabulary padded to 51,200"},
    {"gpt-530b", 105, 20480, 128, 128, 160, 81920, 51200, 2048, "Smith et al. 2022 (arXiv 2201.11990)"},
    {"gpt-1t", 128, 25600, 160, 160, 160, 102400, 51200, 2048,
     "Narayanan et al. 2021 (arXiv 2104.04473), table 1"},
};

Transformer shape_of(const Dense& d) {
  Transformer m;
  m.name = d.name;
  m.layers = d.layers;
  m.hidden = d.hidden;
  m.heads = d.heads;
  m.kv_heads = d.kv_heads;
  m.head_size = d.head_size;
  m.ffn = d.ffn;
  m.vocabulary = d.vocabulary;
  return m;
}

Transformer gpt(const Dense& d) {
  Transformer m = shape_of(d);
  m.learned_positions = d.sequence;
  m.gated_ffn = false;
  m.tied_embeddings = true;
  m.qkv_bias = m.projection_bias = m.ffn_bias = m.norm_bias = true;
  return m;
}

Transformer gpt_neox() {
  Transformer m = shape_of({"gpt-neox-20b", 44, 6144, 64, 64, 96, 24576, 50432, 2048, ""});
  m.gated_ffn = false;
  m.qkv_bias = m.projection_bias = m.ffn_bias = m.norm_bias = true;
  m.parallel_blocks = true;
  return m;
}

Transformer mixtral(const Dense& d) {
  Transformer m = shape_of(d);
  m.experts = MixtureOfExperts{.experts = 8, .top_k = 2, .expert_ffn = d.ffn};
  return m;
}

Transformer deepseek_v3() {
  Transformer m = shape_of({"deepseek-v3", 61, 7168, 128, 128, 192, 18432, 129280, 4096, ""});
  m.latent = LatentAttention{.query_rank = 1536};
  m.experts = MixtureOfExperts{.experts = 256,
                               .top_k = 8,
                               .expert_ffn = 2048,
                               .shared_ffn = 2048,
                               .dense_layers = 3,
                               .router_bias = true};
  m.prediction_layers = 1;
  return m;
}

std::vector<ModelPreset> make_presets() {
  std::vector<ModelPreset> presets;
  for (const Dense& d : kGated) presets.push_back({shape_of(d), d.sequence, d.source});
  for (const Dense& d : kGpt) presets.push_back({gpt(d), d.sequence, d.source});
  presets.push_back({gpt_neox(), 2048, "Black et al. 2022 (arXiv 2204.06745)"});
  presets.push_back({mixtral({"mixtral-8x7b", 32, 4096, 32, 8, 128, 14336, 32000, 32768, ""}), 32768,
                     "Jiang et al. 2024 (arXiv 2401.04088), table 1"});
  presets.push_back({mixtral({"mixtral-8x22b", 56, 6144, 48, 8, 128, 16384, 32768, 65536, ""}), 65536,
                     "Mistral AI 2024, published configuration"});
  presets.push_back({deepseek_v3(), 4096, "DeepSeek-AI 2024 (arXiv 2412.19437), section 4.2"});
  return presets;
}

}  // namespace

std::span<const ModelPreset> model_presets() {
  static const std::vector<ModelPreset> presets = make_presets();
  return presets;
}

const ModelPreset* find_model_preset(std::string_view name) {
  const auto place = std::ranges::find(model_presets(), name,
                                       [](const ModelPreset& p) { return std::string_view(p.model.name); });
  return place == model_presets().end() ? nullptr : &*place;
}

}  // namespace prism
