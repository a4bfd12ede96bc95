// SPDX-License-Identifier: Apache-2.0
// Which layers and which weights a virtual stage holds.
#include <algorithm>
#include <numeric>
#include <string>

#include "prism/plan/stage_programs.hpp"
#include "prism/trace/error.hpp"

namespace prism {

namespace {

[[noreturn]] void refuse(const std::string& source, const std::string& problem, const std::string& fix) {
  throw InputError({source, {}, {}}, problem, fix);
}

void check_divides(std::int64_t what, std::int64_t by, const std::string& text, const std::string& source) {
  if (what % by == 0) return;
  refuse(source, text + ": " + std::to_string(what) + " is no multiple of " + std::to_string(by),
         "change the degree, or the shape");
}

}  // namespace

std::vector<StageLayers> split_layers(const Transformer& model, const ScheduleChoice& choice,
                                      std::int64_t stages, const std::string& source) {
  std::vector<std::int64_t> counts = choice.layers;
  if (counts.empty()) {
    const std::int64_t first_free = choice.embedding_alone ? 1 : 0;
    const std::int64_t last_free = stages - (choice.loss_alone ? 1 : 0);
    const std::int64_t sharing = last_free - first_free;
    if (sharing < 1) {
      refuse(source, std::to_string(stages) + " virtual stages leave none for the layers", "more stages");
    }
    // The embedding and the output layer may take the place of a layer each, as in Megatron's accounting.
    const std::int64_t places =
        model.layers + (choice.embedding_counts ? 1 : 0) + (choice.loss_counts ? 1 : 0);
    if (places < sharing) {
      refuse(
          source,
          std::to_string(model.layers) + " layers cannot fill " + std::to_string(sharing) + " virtual stages",
          "smaller pp or fewer virtual stages");
    }
    counts.assign(static_cast<std::size_t>(stages), 0);
    for (std::int64_t stage = 0; stage < sharing; ++stage) {
      // A remainder goes to the stages in the middle: the first and last have the embedding and the loss besides.
      const std::int64_t extra = places % sharing;
      const std::int64_t from = (sharing - extra) / 2;
      counts[static_cast<std::size_t>(first_free + stage)] =
          places / sharing + (stage >= from && stage < from + extra ? 1 : 0);
    }
    if (choice.embedding_counts) --counts[static_cast<std::size_t>(first_free)];
    if (choice.loss_counts) --counts[static_cast<std::size_t>(last_free - 1)];
  }
  const std::int64_t sum = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  if (std::ssize(counts) != stages || sum != model.layers || std::ranges::min(counts) < 0) {
    refuse(source,
           "the split names " + std::to_string(counts.size()) + " virtual stages with " +
               std::to_string(sum) + " layers; there are " + std::to_string(stages) + " with " +
               std::to_string(model.layers),
           "one number per virtual stage, adding up to the model's layers");
  }
  std::vector<StageLayers> result;
  std::int64_t first = 0;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    const std::int64_t count = counts[static_cast<std::size_t>(stage)];
    result.push_back({.first = first, .count = count, .embedding = stage == 0, .loss = stage == stages - 1});
    first += count;
  }
  return result;
}

void check_split(const Transformer& model, const Parallel& parallel, const Microbatch& microbatch,
                 const std::string& source) {
  if (microbatch.sequence < 1 || microbatch.sequences < 1 || microbatch.sequence > (std::int64_t{1} << 31) ||
      microbatch.sequences > (std::int64_t{1} << 20)) {
    refuse(source,
           "a microbatch of " + std::to_string(microbatch.sequences) + " sequences of " +
               std::to_string(microbatch.sequence) + " tokens",
           "positive numbers");
  }
  check_divides(model.heads, parallel.tp, "heads over tp", source);
  if (model.kv_heads > parallel.tp) check_divides(model.kv_heads, parallel.tp, "kv_heads over tp", source);
  check_divides(microbatch.sequence, parallel.cp * (parallel.sequence_parallel ? parallel.tp : 1),
                parallel.cp > 1 ? "sequence over cp (and tp with sequence parallelism)" : "sequence over tp",
                source);
  if (parallel.cp > 1 && parallel.cp_exchange == ContextExchange::Ring) {
    check_divides(microbatch.sequence, 2 * parallel.cp, "sequence over two parts for each context rank",
                  source);
  }
  if (parallel.cp > 1 && parallel.cp_exchange == ContextExchange::AllToAll) {
    check_divides(model.heads / parallel.tp, parallel.cp, "heads of a tensor rank over cp", source);
  }
  if (!model.experts) {
    if (parallel.ep > 1)
      refuse(source, "ep = " + std::to_string(parallel.ep) + " and the model has no experts", "ep = 1");
    return;
  }
  check_divides(model.experts->experts, parallel.ep, "experts over ep", source);
  check_divides(model.experts->expert_ffn, parallel.etp, "width of an expert over etp", source);
  if (parallel.tp > 1 && !parallel.sequence_parallel) {
    refuse(source, "experts with tp > 1 need sequence parallelism", "sequence_parallel = true");
  }
}

RankParameters rank_parameters(const Transformer& model, const Parallel& parallel,
                               const StageLayers& layers) {
  const ParameterCount count = count_parameters(model);
  const std::int64_t norm = model.norm_bias ? 2 * model.hidden : model.hidden;
  const auto split = [&](std::int64_t weights) { return (weights + parallel.tp - 1) / parallel.tp; };
  // Norms are on every tensor rank; in latent attention so are the down projections.
  std::int64_t whole = norm;
  if (model.latent) {
    whole += model.hidden *
             (model.latent->query_rank + model.latent->key_value_rank + model.latent->rope_head_size);
  }
  const std::int64_t attention = split(count.attention - whole) + whole;
  RankParameters sum;
  const auto add_layer = [&](std::int64_t layer) {
    sum.dense += attention;
    if (!model.is_mixture(layer)) {
      sum.dense += split(count.dense_ffn - norm) + norm;
      return;
    }
    const MixtureOfExperts& e = *model.experts;
    const std::int64_t routed = e.experts * (model.gated_ffn ? 3 : 2) * model.hidden * e.expert_ffn;
    sum.dense += count.expert_ffn - routed;  // router, shared experts and norm
    sum.expert += routed / (parallel.ep * parallel.etp);
  };
  for (std::int64_t i = 0; i < layers.count; ++i) add_layer(layers.first + i);
  const std::int64_t table = split(model.vocabulary * model.hidden);
  if (layers.embedding) sum.dense += table + model.learned_positions * model.hidden;
  if (layers.loss) {
    sum.dense += norm + (model.tied_embeddings && layers.embedding ? 0 : table);
    // Prediction layers look their tokens up in the embedding: a copy of it where it is on another stage.
    if (model.prediction_layers > 0 && !model.tied_embeddings && !layers.embedding) sum.dense += table;
    for (std::int64_t i = 0; i < model.prediction_layers; ++i) {
      add_layer(model.layers - 1);
      sum.dense += 2 * model.hidden * model.hidden + 3 * norm;
    }
  }
  return sum;
}

}  // namespace prism
