// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "prism/io/bytes.hpp"
#include "prism/plan/hf_config.hpp"
#include "prism/plan/model_presets.hpp"
#include "prism/plan/plan_sections.hpp"

namespace prism {

namespace {

constexpr std::int64_t kMostLayers = 10'000;
constexpr std::int64_t kMostWidth = std::int64_t{1} << 24;

std::string preset_names() {
  std::string names;
  for (const ModelPreset& preset : model_presets()) names += (names.empty() ? "" : ", ") + preset.model.name;
  return names;
}

/// Keys of the shape that are given, in place of what a preset or config.json says.
void override_shape(PlanTable& table, Transformer& m) {
  const auto size = [&](const char* key, std::int64_t& value) {
    if (const auto given = table.integer(key, 1, kMostWidth)) value = *given;
  };
  const auto flag = [&](const char* key, bool& value) {
    if (const auto given = table.flag(key)) value = *given;
  };
  if (const auto layers = table.integer("layers", 1, kMostLayers)) m.layers = *layers;
  size("hidden", m.hidden);
  size("heads", m.heads);
  size("kv_heads", m.kv_heads);
  size("head_size", m.head_size);
  size("ffn", m.ffn);
  size("vocabulary", m.vocabulary);
  if (const auto given = table.integer("learned_positions", 0, kMostWidth)) m.learned_positions = *given;
  if (const auto given = table.integer("prediction_layers", 0, 16)) m.prediction_layers = *given;
  flag("gated_ffn", m.gated_ffn);
  flag("tied_embeddings", m.tied_embeddings);
  flag("qkv_bias", m.qkv_bias);
  flag("projection_bias", m.projection_bias);
  flag("ffn_bias", m.ffn_bias);
  flag("norm_bias", m.norm_bias);
  flag("qk_norm", m.qk_norm);
  flag("parallel_blocks", m.parallel_blocks);
  PlanTable experts = table.table("experts");
  if (experts.present()) {
    MixtureOfExperts e = m.experts.value_or(MixtureOfExperts{});
    e.experts = experts.integer("count", 1, kMostWidth).value_or(e.experts);
    e.top_k = experts.integer("top_k", 1, kMostWidth).value_or(e.top_k);
    e.expert_ffn = experts.integer("ffn", 1, kMostWidth).value_or(e.expert_ffn == 0 ? m.ffn : e.expert_ffn);
    e.shared_ffn = experts.integer("shared_ffn", 0, kMostWidth).value_or(e.shared_ffn);
    e.dense_layers = experts.integer("dense_layers", 0, kMostLayers).value_or(e.dense_layers);
    e.layer_period = experts.integer("layer_period", 1, kMostLayers).value_or(e.layer_period);
    m.experts = e;
  }
  experts.finish();
  PlanTable latent = table.table("latent_attention");
  if (latent.present()) {
    LatentAttention a = m.latent.value_or(LatentAttention{});
    a.query_rank = latent.integer("query_rank", 0, kMostWidth).value_or(a.query_rank);
    a.key_value_rank = latent.integer("key_value_rank", 1, kMostWidth).value_or(a.key_value_rank);
    a.nope_head_size = latent.integer("nope_head_size", 1, kMostWidth).value_or(a.nope_head_size);
    a.rope_head_size = latent.integer("rope_head_size", 0, kMostWidth).value_or(a.rope_head_size);
    a.value_head_size = latent.integer("value_head_size", 1, kMostWidth).value_or(a.value_head_size);
    m.latent = a;
    m.kv_heads = m.heads;
    m.head_size = a.nope_head_size + a.rope_head_size;
  }
  latent.finish();
}

}  // namespace

void read_model(PlanTable root, const std::filesystem::path& folder, Plan& plan) {
  PlanTable table = root.table("model");
  if (!table.present()) return;
  Transformer m;
  const std::optional<std::string> preset = table.text("preset");
  const std::optional<std::string> config = table.text("hf_config");
  if (preset && config) table.refuse("hf_config", "there is a preset too", "one of them");
  std::optional<std::int64_t> sequence;
  std::string sequence_source;
  if (preset) {
    const ModelPreset* known = find_model_preset(*preset);
    if (known == nullptr)
      table.refuse("preset", "'" + *preset + "' is not known", "known: " + preset_names());
    m = known->model;
    sequence = known->sequence;
    sequence_source = "preset: " + known->source;
    table.record("shape", std::to_string(m.layers) + " layers, hidden " + std::to_string(m.hidden),
                 "preset: " + known->source);
  } else if (config) {
    const std::filesystem::path file = named_file(folder, *config);
    m = parse_hf_config(read_bytes(file), file.string());
  }
  override_shape(table, m);
  if (!preset && !config) {
    // What follows from the other sizes where it is not given.
    const auto follows = [&](const char* key, std::int64_t& value, std::int64_t otherwise,
                             const char* source) {
      if (value != 0) return;
      value = otherwise;
      table.record(key, std::to_string(otherwise), source);
    };
    follows("kv_heads", m.kv_heads, m.heads, "default: as many as heads");
    follows("head_size", m.head_size, m.heads > 0 ? m.hidden / m.heads : 0, "default: hidden / heads");
    follows("ffn", m.ffn, 4 * m.hidden, "default: 4 x hidden");
    for (const auto& [key, value] : {std::pair("layers", m.layers), std::pair("hidden", m.hidden),
                                     std::pair("heads", m.heads), std::pair("vocabulary", m.vocabulary)}) {
      if (value == 0)
        table.refuse(key, "is missing",
                     "give the shape, preset = \"llama-3-8b\", or hf_config = \"config.json\"");
    }
  }
  m.name = table.text("name").value_or(preset.value_or(m.name));
  const std::optional<std::int64_t> given = table.integer("sequence", 1, std::int64_t{1} << 31);
  if (given) sequence = given;
  if (!sequence) table.refuse("sequence", "is missing", "tokens of one sequence, such as sequence = 8192");
  if (!given) table.record("sequence", std::to_string(*sequence), sequence_source);
  plan.microbatch.sequence = *sequence;
  table.finish();
  check_transformer(m, plan.source);
  plan.model = m;
}

void read_batch(PlanTable root, Plan& plan) {
  PlanTable table = root.table("batch");
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  plan.microbatch.sequences = table.integer("micro_batch", 1, kMost, 1, "default: one sequence");
  const std::optional<std::int64_t> microbatches = table.integer("microbatches", 1, kMost);
  const std::optional<std::int64_t> global = table.integer("global_batch", 1, std::int64_t{1} << 40);
  const std::int64_t per_round = plan.microbatch.sequences * plan.parallel.dp;
  if (microbatches && global && *microbatches * per_round != *global) {
    table.refuse("global_batch",
                 std::to_string(*global) + " is not " + std::to_string(*microbatches) + " microbatches x " +
                     std::to_string(plan.microbatch.sequences) + " sequences x dp " +
                     std::to_string(plan.parallel.dp) + " = " + std::to_string(*microbatches * per_round),
                 "leave one of them out");
  }
  if (microbatches) {
    plan.microbatches = *microbatches;
    table.record("global_batch", std::to_string(plan.global_batch()), "microbatches x micro_batch x dp");
  } else if (global) {
    if (*global % per_round != 0) {
      table.refuse(
          "global_batch",
          std::to_string(*global) + " is no multiple of micro_batch x dp = " + std::to_string(per_round),
          "change the batch, micro_batch or dp");
    }
    plan.microbatches = *global / per_round;
    if (plan.microbatches > kMost)
      table.refuse("global_batch", "makes too many microbatches", "a smaller batch");
    table.record("microbatches", std::to_string(plan.microbatches), "global_batch / (micro_batch x dp)");
  } else {
    table.refuse("microbatches", "is missing",
                 "microbatches per replica and step, or global_batch in sequences");
  }
  table.finish();
}

}  // namespace prism
