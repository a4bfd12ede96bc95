// SPDX-License-Identifier: Apache-2.0
// Key names and default values are those of the transformers library's configuration classes.
#include "prism/plan/hf_config.hpp"

#include <nlohmann/json.hpp>

#include "prism/trace/error.hpp"

namespace prism {

namespace {

using Json = nlohmann::json;

constexpr const char* kKnown =
    "known: llama, mistral, qwen2, qwen3, mixtral, qwen2_moe, qwen3_moe, deepseek_v2, deepseek_v3, gpt_neox, "
    "gpt2";

class Config {
 public:
  Config(const Json& json, const std::string& source) : json_(json), source_(source) {}

  [[nodiscard]] std::int64_t number(const char* key) const {
    const auto value = json_.find(key);
    if (value == json_.end() || value->is_null()) {
      throw InputError({source_, {}, {}}, std::string("no key '") + key + "'", "a whole config.json");
    }
    return checked(*value, key);
  }
  [[nodiscard]] std::int64_t number(const char* key, std::int64_t otherwise) const {
    const auto value = json_.find(key);
    return value == json_.end() || value->is_null() ? otherwise : checked(*value, key);
  }
  /// `absent` where there is no such key, `null` where its value is null.
  [[nodiscard]] std::int64_t number(const char* key, std::int64_t absent, std::int64_t null) const {
    return json_.contains(key) ? number(key, null) : absent;
  }
  /// Number of layers that a list of layer numbers holds, which must be the first ones; 0 without the list.
  [[nodiscard]] std::int64_t first_layers(const char* key) const {
    const auto value = json_.find(key);
    if (value == json_.end() || value->is_null()) return 0;
    if (!value->is_array()) wrong(key, "a list of layers");
    for (std::size_t i = 0; i < value->size(); ++i) {
      if ((*value)[i] != i) wrong(key, "the first layers in order, the only form that is known");
    }
    return static_cast<std::int64_t>(value->size());
  }
  [[nodiscard]] bool flag(const char* key, bool otherwise) const {
    const auto value = json_.find(key);
    if (value == json_.end() || value->is_null()) return otherwise;
    if (!value->is_boolean()) wrong(key, "true or false");
    return value->get<bool>();
  }
  /// The key may be absent, and has no other value.
  void require(const char* key, std::int64_t only) const {
    if (number(key, only) != only)
      wrong(key, (std::to_string(only) + ", the only value that is known").c_str());
  }
  [[nodiscard]] std::string text(const char* key) const {
    const auto value = json_.find(key);
    if (value == json_.end() || !value->is_string()) wrong(key, "a text");
    return value->get<std::string>();
  }

 private:
  [[noreturn]] void wrong(const char* key, const char* expected) const {
    throw InputError({source_, {}, {}}, std::string("key '") + key + "' is not " + expected,
                     "a config.json as published");
  }
  std::int64_t checked(const Json& value, const char* key) const {
    constexpr std::int64_t kMost = std::int64_t{1} << 31;
    if (!value.is_number_integer()) wrong(key, "a whole number");
    // Numbers beyond 64 bits are doubles to the parser and are refused above.
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(kMost)) {
      wrong(key, "a sensible size");
    }
    const auto number = value.get<std::int64_t>();
    if (number < 0 || number > kMost) wrong(key, "a sensible size");
    return number;
  }

  const Json& json_;
  const std::string& source_;
};

/// What all the decoders of the Llama family have. `kv_heads`: where the key is absent; 0: as many as heads.
Transformer llama_like(const Config& c, std::int64_t kv_heads = 0) {
  Transformer m;
  m.layers = c.number("num_hidden_layers");
  m.hidden = c.number("hidden_size");
  m.heads = c.number("num_attention_heads");
  m.kv_heads = c.number("num_key_value_heads", kv_heads > 0 ? kv_heads : m.heads, m.heads);
  m.head_size = c.number("head_dim", m.heads > 0 ? m.hidden / m.heads : 0);
  m.ffn = c.number("intermediate_size");
  m.vocabulary = c.number("vocab_size");
  m.tied_embeddings = c.flag("tie_word_embeddings", false);
  m.qkv_bias = c.flag("attention_bias", false);
  m.projection_bias = m.qkv_bias;
  m.ffn_bias = c.flag("mlp_bias", false);
  return m;
}

Transformer qwen(const Config& c, const std::string& type) {
  const bool second = type.starts_with("qwen2");
  const bool mixture = type.ends_with("_moe");
  Transformer m = mixture ? llama_like(c, second ? 16 : 4) : llama_like(c, 32);
  m.qkv_bias = second ? c.flag("qkv_bias", true) : c.flag("attention_bias", false);
  m.projection_bias = !second && m.qkv_bias;
  m.qk_norm = !second;
  if (type == "qwen3") m.head_size = c.number("head_dim", 128);
  if (!mixture) return m;
  MixtureOfExperts e;
  e.experts = c.number("num_experts");
  e.top_k = c.number("num_experts_per_tok");
  e.expert_ffn = c.number("moe_intermediate_size");
  if (second) e.shared_ffn = c.number("shared_expert_intermediate_size", 5632, 0);
  e.dense_layers = c.first_layers("mlp_only_layers");
  e.layer_period = c.number("decoder_sparse_step", 1);
  m.experts = e;
  return m;
}

Transformer mixtral(const Config& c) {
  Transformer m = llama_like(c, 8);
  m.experts = MixtureOfExperts{.experts = c.number("num_local_experts", 8),
                               .top_k = c.number("num_experts_per_tok", 2),
                               .expert_ffn = m.ffn};
  return m;
}

Transformer deepseek(const Config& c, bool third) {
  Transformer m = llama_like(c);
  LatentAttention a;
  a.query_rank = c.number("q_lora_rank", 1536, 0);
  a.key_value_rank = c.number("kv_lora_rank", 512);
  a.nope_head_size = c.number("qk_nope_head_dim", 128);
  a.rope_head_size = c.number("qk_rope_head_dim", 64);
  a.value_head_size = c.number("v_head_dim", 128);
  m.latent = a;
  m.head_size = a.nope_head_size + a.rope_head_size;
  m.kv_heads = m.heads;
  const std::int64_t routed = third ? c.number("n_routed_experts") : c.number("n_routed_experts", 0);
  if (routed > 0) {
    MixtureOfExperts e;
    e.experts = routed;
    e.top_k = c.number("num_experts_per_tok");
    e.expert_ffn = c.number("moe_intermediate_size");
    e.shared_ffn = c.number("n_shared_experts", third ? 1 : 0, 0) * e.expert_ffn;
    e.dense_layers = c.number("first_k_dense_replace", third ? 3 : 0, 0);
    c.require("moe_layer_freq", 1);
    e.router_bias = third;
    m.experts = e;
  }
  m.prediction_layers = c.number("num_nextn_predict_layers", 0);
  return m;
}

Transformer gpt_neox(const Config& c) {
  Transformer m = llama_like(c);
  m.gated_ffn = false;
  m.qkv_bias = c.flag("attention_bias", true);
  m.projection_bias = m.qkv_bias;
  m.ffn_bias = true;
  m.norm_bias = true;
  m.parallel_blocks = c.flag("use_parallel_residual", true);
  return m;
}

Transformer gpt2(const Config& c) {
  Transformer m;
  m.layers = c.number("n_layer");
  m.hidden = c.number("n_embd");
  m.heads = c.number("n_head");
  m.kv_heads = m.heads;
  m.head_size = m.heads > 0 ? m.hidden / m.heads : 0;
  m.ffn = c.number("n_inner", 4 * m.hidden);
  m.vocabulary = c.number("vocab_size");
  m.learned_positions = c.number("n_positions", 1024);
  m.gated_ffn = false;
  m.tied_embeddings = c.flag("tie_word_embeddings", true);
  m.qkv_bias = m.projection_bias = m.ffn_bias = m.norm_bias = true;
  return m;
}

Transformer of_type(const Config& c, const std::string& type, const std::string& source) {
  if (type == "llama") return llama_like(c);
  if (type == "mistral") return llama_like(c, 8);
  if (type == "qwen2" || type == "qwen3" || type == "qwen2_moe" || type == "qwen3_moe") return qwen(c, type);
  if (type == "mixtral") return mixtral(c);
  if (type == "deepseek_v2" || type == "deepseek_v3") return deepseek(c, type == "deepseek_v3");
  if (type == "gpt_neox") return gpt_neox(c);
  if (type == "gpt2") return gpt2(c);
  throw InputError({source, {}, {}}, "model_type '" + type.substr(0, 60) + "' is not known",
                   std::string(kKnown) + "; or give the shape in [model]");
}

}  // namespace

Transformer parse_hf_config(std::string_view json, const std::string& source) {
  const Json parsed = Json::parse(json, nullptr, false);
  if (!parsed.is_object()) {
    throw InputError({source, {}, {}}, "no JSON object",
                     "a model's config.json, as published with its weights");
  }
  const Config config(parsed, source);
  const std::string type = config.text("model_type");
  Transformer model = of_type(config, type, source);
  model.name = type;
  check_transformer(model, source);
  return model;
}

}  // namespace prism
