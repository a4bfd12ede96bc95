// SPDX-License-Identifier: Apache-2.0
#include "prism/plan/transformer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prism/plan/hf_config.hpp"
#include "prism/plan/model_presets.hpp"
#include "prism/trace/error.hpp"

namespace prism {
namespace {

using testing::HasSubstr;

double billions(const char* preset) {
  return static_cast<double>(count_parameters(find_model_preset(preset)->model).total) / 1e9;
}

TEST(Transformer, ParameterCountsAreThePublishedOnes) {
  // Exact totals of the published weights; GPT-3 as in its paper (174.6 with 50,257 words; ours is padded to 51,200).
  EXPECT_NEAR(billions("llama-2-7b"), 6.738415616, 1e-9);
  EXPECT_NEAR(billions("llama-2-13b"), 13.015864320, 1e-9);
  EXPECT_NEAR(billions("llama-2-70b"), 68.976648192, 1e-9);
  EXPECT_NEAR(billions("llama-3-8b"), 8.030261248, 1e-9);
  EXPECT_NEAR(billions("llama-3-70b"), 70.553706496, 1e-9);
  EXPECT_NEAR(billions("llama-3-405b"), 405.853388800, 1e-9);
  EXPECT_NEAR(billions("gpt-3-175b"), 174.6, 0.005 * 174.6);
  EXPECT_NEAR(billions("gpt-neox-20b"), 20.554567680, 0.001 * 20.55);
  EXPECT_NEAR(billions("mixtral-8x7b"), 46.702792704, 1e-9);
  EXPECT_NEAR(billions("mixtral-8x22b"), 140.62, 0.005 * 140.62);
  EXPECT_NEAR(billions("deepseek-v3"), 671.0, 0.001 * 671.0);
  EXPECT_NEAR(billions("gpt-3-22b"), 22.0, 0.02 * 22);
  EXPECT_NEAR(billions("gpt-530b"), 529.6, 0.005 * 529.6);
  EXPECT_NEAR(billions("gpt-1t"), 1008.0, 0.005 * 1008);
}

TEST(Transformer, ActiveParametersCountTheExpertsOfOneToken) {
  const auto active = [](const char* preset) {
    return static_cast<double>(count_parameters(find_model_preset(preset)->model).active) / 1e9;
  };
  EXPECT_NEAR(active("mixtral-8x7b"), 12.9, 0.05);
  EXPECT_NEAR(active("deepseek-v3"), 37.0, 0.015 * 37);  // published as 37 billion
  EXPECT_EQ(active("llama-3-8b"), billions("llama-3-8b"));
  // The multi-token prediction module: 14 billion with its share of the tables, which are counted with the main model.
  const double prediction =
      static_cast<double>(count_parameters(find_model_preset("deepseek-v3")->model).prediction) / 1e9;
  EXPECT_NEAR(prediction, 14 - 2 * 129280 * 7168 / 1e9, 0.6);
}

TEST(Transformer, FlopsAreThoseOfTheClosedForm) {
  // One layer of GPT-3 on one sequence, 24sh^2 + 4s^2h with all scores; causal needs half of the second term.
  const Transformer& gpt = find_model_preset("gpt-3-175b")->model;
  constexpr double s = 2048;
  constexpr double h = 12288;
  EXPECT_DOUBLE_EQ(layer_forward_flops(gpt, 0, 2048) * s, 24 * s * h * h + 2 * s * s * h);
  // Llama 3: six FLOPs per weight of a matrix product and token, plus attention.
  const Transformer& llama = find_model_preset("llama-3-405b")->model;
  const ParameterCount count = count_parameters(llama);
  const double norms = 16384.0 * (2 * 126 + 1);
  const double products = static_cast<double>(count.total - count.embedding) - norms;
  const double core = 126 * 8192.0 * 128 * 2 * 128;
  EXPECT_NEAR(model_flops_per_token(llama, 8192), 6 * products + 3 * core, 1e-6 * 6 * products);
}

TEST(HfConfig, GivesTheShapesOfItsFormats) {
  const auto total = [](const std::string& json) {
    return static_cast<double>(count_parameters(parse_hf_config(json, "config.json")).total) / 1e9;
  };
  EXPECT_NEAR(
      total(R"({"model_type":"llama","num_hidden_layers":32,"hidden_size":4096,"num_attention_heads":32,
    "num_key_value_heads":8,"intermediate_size":14336,"vocab_size":128256})"),
      8.030261248, 1e-9);
  // Qwen2.5 72B and Qwen3 32B, as published with their weights.
  EXPECT_NEAR(
      total(R"({"model_type":"qwen2","num_hidden_layers":80,"hidden_size":8192,"num_attention_heads":64,
    "num_key_value_heads":8,"intermediate_size":29568,"vocab_size":152064,"tie_word_embeddings":false})"),
      72.706203648, 1e-6);
  EXPECT_NEAR(
      total(
          R"({"model_type":"qwen3","num_hidden_layers":64,"hidden_size":5120,"num_attention_heads":64,"head_dim":128,
    "num_key_value_heads":8,"intermediate_size":25600,"vocab_size":151936})"),
      32.762123264, 1e-6);
  EXPECT_NEAR(
      total(
          R"({"model_type":"qwen3_moe","num_hidden_layers":94,"hidden_size":4096,"num_attention_heads":64,"head_dim":128,
    "num_key_value_heads":4,"intermediate_size":12288,"moe_intermediate_size":1536,"num_experts":128,"num_experts_per_tok":8,
    "vocab_size":151936})"),
      235.1, 0.2);
  EXPECT_NEAR(
      total(R"({"model_type":"mixtral","num_hidden_layers":32,"hidden_size":4096,"num_attention_heads":32,
    "num_key_value_heads":8,"intermediate_size":14336,"vocab_size":32000})"),
      46.702792704, 1e-9);
  EXPECT_NEAR(
      total(
          R"({"model_type":"deepseek_v3","num_hidden_layers":61,"hidden_size":7168,"num_attention_heads":128,
    "num_key_value_heads":128,"intermediate_size":18432,"moe_intermediate_size":2048,"n_routed_experts":256,"n_shared_experts":1,
    "num_experts_per_tok":8,"first_k_dense_replace":3,"q_lora_rank":1536,"kv_lora_rank":512,"qk_nope_head_dim":128,
    "qk_rope_head_dim":64,"v_head_dim":128,"vocab_size":129280,"num_nextn_predict_layers":1})"),
      671.0, 0.1);
  EXPECT_NEAR(
      total(R"({"model_type":"gpt_neox","num_hidden_layers":44,"hidden_size":6144,"num_attention_heads":64,
    "intermediate_size":24576,"vocab_size":50432})"),
      20.554567680, 1e-6);
  EXPECT_NEAR(
      total(
          R"({"model_type":"gpt2","n_layer":12,"n_embd":768,"n_head":12,"n_positions":1024,"vocab_size":50257})"),
      0.124439808, 1e-9);
}

std::string config_error(const std::string& json) {
  try {
    parse_hf_config(json, "config.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(HfConfig, SaysWhatIsWrong) {
  EXPECT_THAT(config_error("[1]"), HasSubstr("config.json: no JSON object"));
  EXPECT_THAT(config_error("{"), HasSubstr("no JSON object"));
  EXPECT_THAT(config_error(R"({"model_type":"mamba"})"), HasSubstr("known: llama"));
  EXPECT_THAT(config_error(R"({"model_type":7})"), HasSubstr("model_type"));
  EXPECT_THAT(config_error(R"({"model_type":"llama","num_hidden_layers":2})"), HasSubstr("hidden_size"));
  EXPECT_THAT(config_error(R"({"model_type":"llama","num_hidden_layers":-2})"),
              HasSubstr("num_hidden_layers"));
  EXPECT_THAT(config_error(R"({"model_type":"llama","num_hidden_layers":1e99})"),
              HasSubstr("num_hidden_layers"));
  EXPECT_THAT(
      config_error(R"({"model_type":"llama","num_hidden_layers":2,"hidden_size":64,"num_attention_heads":6,
    "num_key_value_heads":4,"intermediate_size":64,"vocab_size":100})"),
      HasSubstr("multiple of kv_heads"));
  EXPECT_THAT(
      config_error(R"({"model_type":"mixtral","num_hidden_layers":2,"hidden_size":64,"num_attention_heads":4,
    "num_key_value_heads":4,"intermediate_size":64,"vocab_size":100,"num_local_experts":2,"num_experts_per_tok":3})"),
      HasSubstr("top_k = 3 of 2"));
}

TEST(HfConfig, AbsentKeysHaveTheDefaultsOfTheirFormat) {
  const auto shape = [](const std::string& type, const std::string& rest) {
    return parse_hf_config(
        R"({"num_hidden_layers":4,"hidden_size":4096,"num_attention_heads":32,"intermediate_size":64,
        "vocab_size":100,"model_type":")" +
            type + "\"" + rest + "}",
        "config.json");
  };
  const std::string experts = R"(,"num_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":32)";
  EXPECT_EQ(shape("llama", "").kv_heads, 32);
  EXPECT_EQ(shape("mistral", "").kv_heads, 8);
  EXPECT_EQ(shape("mistral", R"(,"num_key_value_heads":null)").kv_heads, 32);
  EXPECT_EQ(shape("mixtral", "").kv_heads, 8);
  EXPECT_EQ(shape("qwen3", "").head_size, 128);
  EXPECT_EQ(shape("qwen3_moe", experts).kv_heads, 4);
  EXPECT_EQ(shape("qwen3_moe", experts).experts->shared_ffn, 0);
  EXPECT_EQ(shape("qwen2_moe", experts).experts->shared_ffn, 5632);
  EXPECT_EQ(shape("qwen2_moe", experts + R"(,"mlp_only_layers":[0,1])").experts->dense_layers, 2);
  EXPECT_FALSE(shape("qwen2_moe", experts + R"(,"qkv_bias":false)").qkv_bias);
  const std::string routed = R"(,"n_routed_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":32)";
  EXPECT_EQ(shape("deepseek_v3", routed).latent->query_rank, 1536);
  EXPECT_EQ(shape("deepseek_v2", R"(,"q_lora_rank":null)").latent->query_rank, 0);  // as in the Lite model
  EXPECT_EQ(shape("deepseek_v3", routed).experts->dense_layers, 3);
  EXPECT_EQ(shape("deepseek_v3", routed).experts->shared_ffn, 32);
  EXPECT_THROW(shape("deepseek_v3", ""), InputError);
  EXPECT_THROW(shape("deepseek_v3", routed + R"(,"moe_layer_freq":2)"), InputError);
  EXPECT_THROW(shape("qwen2_moe", experts + R"(,"mlp_only_layers":[2])"), InputError);
}

TEST(HfConfig, RefusesAbsurdSizesBeforeTheyOverflow) {
  const std::string mixture =
      R"("model_type":"deepseek_v3","num_hidden_layers":4,"hidden_size":64,"num_attention_heads":4,"intermediate_size":64,
    "vocab_size":100,"num_experts_per_tok":1,)";
  const auto with = [&](const std::string& rest) { return config_error("{" + mixture + rest + "}"); };
  EXPECT_EQ(with(R"("n_routed_experts":8,"moe_intermediate_size":32)"), "");
  EXPECT_THAT(with(R"("n_routed_experts":16777216,"moe_intermediate_size":16777216)"),
              HasSubstr("number of experts = 16777216"));
  EXPECT_THAT(with(R"("n_routed_experts":8,"moe_intermediate_size":32,"n_shared_experts":2147483648)"),
              HasSubstr("width of shared experts"));
  EXPECT_THAT(with(R"("n_routed_experts":8,"moe_intermediate_size":32,"kv_lora_rank":2147483648)"),
              HasSubstr("key_value_rank"));
  EXPECT_THAT(
      with(R"("n_routed_experts":8,"moe_intermediate_size":32,"num_nextn_predict_layers":2147483648)"),
      HasSubstr("prediction_layers"));
  EXPECT_THAT(
      config_error(
          R"({"model_type":"llama","num_hidden_layers":1000000,"hidden_size":64,"num_attention_heads":4,
    "intermediate_size":64,"vocab_size":100})"),
      HasSubstr("layers = 1000000\n  fix: from 1 to 10000"));
  EXPECT_THAT(
      config_error(
          R"({"model_type":"llama","num_hidden_layers":10000,"hidden_size":1048576,"num_attention_heads":64,
    "intermediate_size":16777216,"vocab_size":100})"),
      HasSubstr("parameters in all"));
}

TEST(Transformer, MixturesAreTheLastOfEachPeriodAfterTheDenseLayers) {
  Transformer m = find_model_preset("mixtral-8x7b")->model;
  m.layers = 11;
  for (const std::int64_t dense : {0, 1, 3, 4, 11, 20}) {
    for (const std::int64_t period : {1, 2, 3, 4, 12}) {
      m.experts->dense_layers = dense;
      m.experts->layer_period = period;
      std::int64_t mixtures = 0;
      for (std::int64_t layer = 0; layer < m.layers; ++layer) mixtures += m.is_mixture(layer) ? 1 : 0;
      const ParameterCount count = count_parameters(m);
      EXPECT_EQ(count.total, count.embedding + count.output + count.final_norm + 11 * count.attention +
                                 (11 - mixtures) * count.dense_ffn + mixtures * count.expert_ffn)
          << dense << " dense, period " << period;
    }
  }
}

}  // namespace
}  // namespace prism
