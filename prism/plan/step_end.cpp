// SPDX-License-Identifier: Apache-2.0
// What a pipeline rank does after its last pass.
#include <string>

#include "prism/plan/data_parallel.hpp"
#include "prism/plan/program_writer.hpp"
#include "prism/plan/stage_programs.hpp"

namespace prism {

namespace {

/// Bytes an Adam update moves per parameter: states read and written, gradient read, bf16 weight written.
double update_bytes(const Parallel& parallel) {
  constexpr double kWeightBytes = 2;
  return 2 * parallel.optimizer_state_bytes + parallel.main_gradient_bytes + kWeightBytes;
}

/// Weights that are whole on each tensor rank and see its part of the sequence only: norms, routers, shared experts and what
/// joins the inputs of prediction layers. Their gradients are added up over tp.
double sequence_split_weights(const Transformer& model, const StageLayers& stage) {
  const std::int64_t norm = model.norm_bias ? 2 * model.hidden : model.hidden;
  const auto of_layer = [&](std::int64_t layer) {
    if (!model.is_mixture(layer)) return 2 * norm;
    const MixtureOfExperts& e = *model.experts;
    return 2 * norm + model.hidden * (e.experts + (model.gated_ffn ? 3 : 2) * e.shared_ffn);
  };
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < stage.count; ++i) sum += of_layer(stage.first + i);
  if (stage.loss) {
    const std::int64_t joined = 3 * norm + 2 * model.hidden * model.hidden;
    sum += norm + model.prediction_layers * (of_layer(model.layers - 1) + joined);
  }
  return static_cast<double>(sum);
}

/// Parameters that one rank updates: its shard.
double updated(const RankParameters& held, const Parallel& parallel) {
  const std::int64_t copies = parallel.dp * parallel.cp;
  const std::int64_t shard = parallel.zero == 0 ? 1 : parallel.shard == 0 ? copies : parallel.shard;
  const std::int64_t expert_copies = copies * parallel.tp / (parallel.ep * parallel.etp);
  const std::int64_t expert_shard = parallel.zero == 0 ? 1 : expert_copies;
  return static_cast<double>(held.dense) / static_cast<double>(shard) +
         static_cast<double>(held.expert) / static_cast<double>(expert_shard);
}

}  // namespace

PassProgram transformer_step_end(const Transformer& model, const Parallel& parallel,
                                 const Precisions& precisions, const std::vector<StageLayers>& stages) {
  ProgramWriter w;
  RankParameters held;
  bool embedding = false;
  bool loss = false;
  double sequence_split = 0;
  for (const StageLayers& stage : stages) {
    const RankParameters parameters = rank_parameters(model, parallel, stage);
    held.dense += parameters.dense;
    held.expert += parameters.expert;
    embedding = embedding || stage.embedding;
    loss = loss || stage.loss;
    sequence_split += sequence_split_weights(model, stage);
  }
  const DataParallel data(model, parallel, precisions, stages.empty() ? StageLayers{} : stages.front());
  const double width = parallel.main_gradient_bytes;
  if (parallel.zero < 3 && !parallel.overlap_gradients) data.reduce(w, held, {kPassInput}, When::Always);
  const bool two_tables = model.tied_embeddings || model.prediction_layers > 0;
  if (two_tables && parallel.pp > 1 && (embedding != loss)) {
    const double table =
        static_cast<double>(model.vocabulary * model.hidden) / static_cast<double>(parallel.tp);
    w.communicate_aside("reduce embedding gradients",
                        {CollectiveOp::AllReduce, GroupAxis::Embedding, width * table}, {kPassInput});
  }
  if (parallel.tp > 1 && parallel.sequence_parallel && sequence_split > 0) {
    w.communicate_aside("reduce norm gradients",
                        {CollectiveOp::AllReduce, GroupAxis::Tp, width * sequence_split}, {kPassInput});
  }
  // The norm of all gradients: one value, over all ranks that hold different parts.
  std::vector<int> before;
  for (int op = 0; op <= w.last(); ++op) before.push_back(op);
  before.push_back(kPassInput);
  const GroupAxis different = parallel.zero == 0 ? GroupAxis::Model : GroupAxis::World;
  const int norm =
      w.communicate_aside("reduce gradient norm", {CollectiveOp::AllReduce, different, 4}, before);
  if (held.dense + held.expert == 0) return w.take();
  w.compute_aside("optimizer",
                  {{.name = "optimizer",
                    .kind = KernelClass::Optimizer,
                    .bytes = updated(held, parallel) * update_bytes(parallel)}},
                  {norm});
  if (parallel.zero > 0 && parallel.zero < 3 && !parallel.overlap_parameters) {
    data.gather(w, held, {w.last_compute()}, When::Always);
  }
  return w.take();
}

}  // namespace prism
