// SPDX-License-Identifier: Apache-2.0
#include "prism/plan/stage_programs.hpp"

#include <map>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "prism/plan/memory.hpp"
#include "prism/plan/model_presets.hpp"
#include "prism/plan/schedule.hpp"
#include "prism/trace/error.hpp"

namespace prism {
namespace {

using testing::HasSubstr;

constexpr double kMega = 1e6;

const Transformer& preset(const char* name) {
  return find_model_preset(name)->model;
}

/// Bytes that a program's messages carry, by axis and kind (S as nccl-tests counts, all messages added up).
std::map<std::pair<GroupAxis, CollectiveOp>, double> volumes(const PassProgram& program) {
  std::map<std::pair<GroupAxis, CollectiveOp>, double> sum;
  for (const PassOp& op : program.ops) {
    if (op.communication) sum[{op.communication->axis, op.communication->kind}] += op.communication->bytes;
  }
  return sum;
}

double flops(const PassProgram& program) {
  double sum = 0;
  for (const PassOp& op : program.ops) {
    for (const Kernel& kernel : op.kernels) sum += kernel.flops;
  }
  return sum;
}

StagePrograms middle_layer(const Transformer& model, const Parallel& parallel, const Microbatch& microbatch) {
  return transformer_passes(model, parallel, {}, microbatch, {.first = 4, .count = 1});
}

Parallel unsharded(std::int64_t tp) {
  Parallel p;
  p.tp = tp;
  p.zero = 0;
  p.overlap_gradients = false;
  return p;
}

TEST(StagePrograms, TensorParallelVolumesAreThoseOfTheTable) {
  const Transformer& m = preset("llama-3-8b");
  const Microbatch microbatch{8192, 2};
  const double s = 2.0 * 8192 * 4096 * 2;
  Parallel p = unsharded(4);
  p.sequence_parallel = false;
  auto forward = volumes(middle_layer(m, p, microbatch).forward);
  auto backward = volumes(middle_layer(m, p, microbatch).backward);
  EXPECT_EQ(forward.size(), 1U);
  EXPECT_DOUBLE_EQ((forward[{GroupAxis::Tp, CollectiveOp::AllReduce}]), 2 * s);
  EXPECT_DOUBLE_EQ((backward[{GroupAxis::Tp, CollectiveOp::AllReduce}]), 2 * s);
  p.sequence_parallel = true;
  forward = volumes(middle_layer(m, p, microbatch).forward);
  backward = volumes(middle_layer(m, p, microbatch).backward);
  EXPECT_DOUBLE_EQ((forward[{GroupAxis::Tp, CollectiveOp::AllGather}]), 2 * s);
  EXPECT_DOUBLE_EQ((forward[{GroupAxis::Tp, CollectiveOp::ReduceScatter}]), 2 * s);
  EXPECT_DOUBLE_EQ((backward[{GroupAxis::Tp, CollectiveOp::AllGather}]),
                   4 * s);  // gradients, and inputs again
  EXPECT_DOUBLE_EQ((backward[{GroupAxis::Tp, CollectiveOp::ReduceScatter}]), 2 * s);
  EXPECT_TRUE(volumes(middle_layer(m, unsharded(1), microbatch).forward).empty());
}

TEST(StagePrograms, ContextParallelVolumesAreThoseOfTheTable) {
  const Transformer& m = preset("llama-3-8b");
  const Microbatch microbatch{8192, 1};
  Parallel p = unsharded(2);
  p.cp = 4;
  const double kv = 2.0 * (8192.0 / 4) * (8 * 128 / 2) * 2;
  auto forward = volumes(middle_layer(m, p, microbatch).forward);
  auto backward = volumes(middle_layer(m, p, microbatch).backward);
  EXPECT_DOUBLE_EQ((forward[{GroupAxis::Cp, CollectiveOp::SendReceive}]), 3 * kv);
  EXPECT_DOUBLE_EQ((backward[{GroupAxis::Cp, CollectiveOp::SendReceive}]), 2 * 3 * kv);
  p.cp_exchange = ContextExchange::AllGather;
  forward = volumes(middle_layer(m, p, microbatch).forward);
  backward = volumes(middle_layer(m, p, microbatch).backward);
  EXPECT_DOUBLE_EQ((forward[{GroupAxis::Cp, CollectiveOp::AllGather}]), 4 * kv);
  EXPECT_DOUBLE_EQ((backward[{GroupAxis::Cp, CollectiveOp::AllGather}]), 4 * kv);
  EXPECT_DOUBLE_EQ((backward[{GroupAxis::Cp, CollectiveOp::ReduceScatter}]), 4 * kv);
  p.cp_exchange = ContextExchange::AllToAll;
  const double q = (8192.0 / 4) * (32 * 128 / 2) * 2;
  forward = volumes(middle_layer(m, p, microbatch).forward);
  backward = volumes(middle_layer(m, p, microbatch).backward);
  EXPECT_DOUBLE_EQ((forward[{GroupAxis::Cp, CollectiveOp::AllToAll}]), 2 * q + kv);
  EXPECT_DOUBLE_EQ((backward[{GroupAxis::Cp, CollectiveOp::AllToAll}]), 2 * q + kv);
}

TEST(StagePrograms, LatentAttentionExchangesKeysAndValuesOfTheirOwnWidths) {
  // 128 heads over tp 2; keys of 128 + 64, values of 128.
  const Transformer& m = preset("deepseek-v3");
  Parallel p = unsharded(2);
  p.cp = 4;
  const double tokens = 4096.0 / 4;
  const double kv = tokens * 64 * (192 + 128) * 2;
  const Microbatch microbatch{4096, 1};
  auto forward = volumes(middle_layer(m, p, microbatch).forward);
  EXPECT_DOUBLE_EQ((forward[{GroupAxis::Cp, CollectiveOp::SendReceive}]), 3 * kv);
  p.cp_exchange = ContextExchange::AllToAll;
  forward = volumes(middle_layer(m, p, microbatch).forward);
  const double queries = tokens * 64 * 192 * 2;
  const double results = tokens * 64 * 128 * 2;
  EXPECT_DOUBLE_EQ((forward[{GroupAxis::Cp, CollectiveOp::AllToAll}]), queries + kv + results);
}

TEST(StagePrograms, ParallelBlocksGoOverTpOnce) {
  const Transformer& m = preset("gpt-neox-20b");
  const double s = 2048.0 * 6144 * 2;
  for (const std::int64_t cp : {1, 2}) {
    Parallel p = unsharded(4);
    p.cp = cp;
    const StagePrograms layer = middle_layer(m, p, {2048 * cp, 1});
    auto forward = volumes(layer.forward);
    EXPECT_DOUBLE_EQ((forward[{GroupAxis::Tp, CollectiveOp::AllGather}]), s);
    EXPECT_DOUBLE_EQ((forward[{GroupAxis::Tp, CollectiveOp::ReduceScatter}]), s);
    auto backward = volumes(layer.backward);
    EXPECT_DOUBLE_EQ((backward[{GroupAxis::Tp, CollectiveOp::AllGather}]), 2 * s);  // gradients, input again
    EXPECT_DOUBLE_EQ((backward[{GroupAxis::Tp, CollectiveOp::ReduceScatter}]), s);
    EXPECT_DOUBLE_EQ((volumes(layer.backward_weight)[{GroupAxis::Tp, CollectiveOp::AllGather}]), s);
  }
}

/// Does op `at` wait for the op named `name`, directly or through others?
bool waits_for(const PassProgram& program, std::size_t at, const std::string& name) {
  std::vector<std::size_t> todo{at};
  while (!todo.empty()) {
    const PassOp& op = program.ops[todo.back()];
    todo.pop_back();
    for (const int before : op.after) {
      if (before == kPassInput) continue;
      const auto index = static_cast<std::size_t>(before);
      if (program.ops[index].name == name) return true;
      todo.push_back(index);
    }
  }
  return false;
}

TEST(StagePrograms, SharedExpertsRunWhileTokensAreOnTheirWay) {
  Parallel p = unsharded(1);
  p.ep = 8;
  p.dp = 8;
  const StagePrograms layer = middle_layer(preset("deepseek-v3"), p, {4096, 1});
  for (const auto& [program, message] :
       {std::pair(&layer.forward, "dispatch tokens"), std::pair(&layer.backward, "dispatch gradients")}) {
    std::vector<std::string> computed;
    for (std::size_t i = 0; i < program->ops.size(); ++i) {
      const PassOp& op = program->ops[i];
      if (op.name == "shared experts" || op.name == "experts") {
        computed.push_back(op.name);
        EXPECT_EQ(waits_for(*program, i, message), op.name == "experts") << message;
      }
    }
    EXPECT_THAT(computed, testing::ElementsAre("shared experts", "experts"));
  }
}

TEST(StagePrograms, ExpertVolumesAreThoseOfTheTable) {
  const Transformer& m = preset("mixtral-8x7b");
  const Microbatch microbatch{4096, 1};
  Parallel p = unsharded(2);
  p.ep = 4;
  p.dp = 4;
  p.expert_load = 1.5;
  const double buffer = 4096.0 / 2 * 2 * 4096 * 2 * 1.5;  // b s / tp * k * h * 2 bytes * load
  auto forward = volumes(middle_layer(m, p, microbatch).forward);
  auto backward = volumes(middle_layer(m, p, microbatch).backward);
  EXPECT_DOUBLE_EQ((forward[{GroupAxis::Ep, CollectiveOp::AllToAll}]), 2 * buffer);
  EXPECT_DOUBLE_EQ((backward[{GroupAxis::Ep, CollectiveOp::AllToAll}]), 2 * buffer);
  p.etp = 2;
  forward = volumes(middle_layer(m, p, microbatch).forward);
  EXPECT_DOUBLE_EQ((forward[{GroupAxis::Etp, CollectiveOp::AllGather}]), 2 * buffer);
  EXPECT_DOUBLE_EQ((forward[{GroupAxis::Etp, CollectiveOp::ReduceScatter}]), 2 * buffer);
  Precisions fp8;
  fp8.dispatch = Precision::Fp8;
  const StagePrograms halved = transformer_passes(m, p, fp8, microbatch, {.first = 4, .count = 1});
  EXPECT_DOUBLE_EQ((volumes(halved.forward)[{GroupAxis::Ep, CollectiveOp::AllToAll}]), 1.5 * buffer);
}

TEST(StagePrograms, VocabularyVolumesAreThoseOfTheTable) {
  const Transformer& m = preset("llama-3-8b");
  const Microbatch microbatch{8192, 1};
  const double s = 8192.0 * 4096 * 2;
  const Parallel p = unsharded(8);
  const StagePrograms first = transformer_passes(m, p, {}, microbatch, {.count = 0, .embedding = true});
  EXPECT_DOUBLE_EQ((volumes(first.forward)[{GroupAxis::Tp, CollectiveOp::ReduceScatter}]), s);
  const StagePrograms last =
      transformer_passes(m, p, {}, microbatch, {.first = 32, .count = 0, .loss = true});
  auto loss = volumes(last.forward);
  EXPECT_DOUBLE_EQ((loss[{GroupAxis::Tp, CollectiveOp::AllGather}]), s);
  EXPECT_DOUBLE_EQ((loss[{GroupAxis::Tp, CollectiveOp::AllReduce}]), 3 * 8192 * 4);
  EXPECT_DOUBLE_EQ((volumes(last.backward)[{GroupAxis::Tp, CollectiveOp::ReduceScatter}]), s);
}

/// Bytes of dp communication of a stage's passes and step end, for one step of one microbatch.
double dp_bytes(const Transformer& m, const Parallel& p, CollectiveOp kind, GroupAxis axis,
                const StageLayers& layers) {
  const StagePrograms passes = transformer_passes(m, p, {}, {4096, 1}, layers);
  const PassProgram end = transformer_step_end(m, p, {}, {layers});
  return volumes(passes.forward)[{axis, kind}] + volumes(passes.backward)[{axis, kind}] +
         volumes(end)[{axis, kind}];
}

TEST(StagePrograms, DataParallelVolumesAreThoseOfTheTable) {
  const Transformer& m = preset("llama-3-8b");
  const StageLayers layers{.first = 8, .count = 8};
  Parallel p;
  p.tp = 2;
  p.pp = 4;
  p.dp = 8;
  const auto weights = static_cast<double>(rank_parameters(m, p, layers).dense);
  EXPECT_NEAR(weights, 8 * (218.1e6 / 2), 0.01 * weights);  // 218.1 million a layer
  for (const bool overlap : {true, false}) {
    p.overlap_gradients = p.overlap_parameters = overlap;
    p.zero = 1;
    EXPECT_DOUBLE_EQ(dp_bytes(m, p, CollectiveOp::ReduceScatter, GroupAxis::Shard, layers), 4 * weights);
    EXPECT_DOUBLE_EQ(dp_bytes(m, p, CollectiveOp::AllGather, GroupAxis::Shard, layers), 2 * weights);
    p.zero = 0;
    EXPECT_DOUBLE_EQ(dp_bytes(m, p, CollectiveOp::AllReduce, GroupAxis::Shard, layers), 4 * weights);
  }
  p.pp = 1;
  p.zero = 3;
  EXPECT_DOUBLE_EQ(dp_bytes(m, p, CollectiveOp::AllGather, GroupAxis::Shard, layers), 2 * 2 * weights);
  EXPECT_DOUBLE_EQ(dp_bytes(m, p, CollectiveOp::ReduceScatter, GroupAxis::Shard, layers), 4 * weights);
  p.reshard_after_forward = false;
  EXPECT_DOUBLE_EQ(dp_bytes(m, p, CollectiveOp::AllGather, GroupAxis::Shard, layers), 2 * weights);
  p.shard = 4;  // hybrid: gradients of a shard are added up over the replicas of the shard group
  EXPECT_DOUBLE_EQ(dp_bytes(m, p, CollectiveOp::AllReduce, GroupAxis::Replicate, layers), 4 * weights / 4);
}

TEST(StagePrograms, SharedTablesAreReducedOnce) {
  for (const char* name : {"gpt-3-22b", "deepseek-v3"}) {  // tied; looked up by the prediction layer
    Transformer m = preset(name);
    m.layers = 4;
    Parallel p;
    p.dp = 4;
    p.zero = 0;
    const StageLayers whole{.count = 4, .embedding = true, .loss = true};
    const ParameterCount count = count_parameters(m);
    EXPECT_DOUBLE_EQ(dp_bytes(m, p, CollectiveOp::AllReduce, GroupAxis::Shard, whole) +
                         dp_bytes(m, p, CollectiveOp::AllReduce, GroupAxis::ExpertDp, whole),
                     4.0 * static_cast<double>(count.total + count.prediction))
        << name;
  }
}

TEST(StagePrograms, EndOfStepAddsUpWhatSeveralRanksHold) {
  const auto volume = [](const Transformer& m, const Parallel& p, const StageLayers& layers, GroupAxis axis) {
    return volumes(transformer_step_end(m, p, {}, {layers}))[{axis, CollectiveOp::AllReduce}];
  };
  Parallel p = unsharded(8);
  p.pp = 8;
  // GPT-3: two LayerNorms a layer, one at the end; the table of 51,200 words is on the first and the last stage.
  const Transformer& gpt = preset("gpt-3-175b");
  EXPECT_DOUBLE_EQ(volume(gpt, p, {.first = 12, .count = 12}, GroupAxis::Tp), 4 * 12 * 2 * 2 * 12288.0);
  EXPECT_DOUBLE_EQ(volume(gpt, p, {.first = 84, .count = 12, .loss = true}, GroupAxis::Tp),
                   4 * (12 * 2 + 1) * 2 * 12288.0);
  const double table = 51200.0 * 12288 / 8;
  EXPECT_DOUBLE_EQ(volume(gpt, p, {.first = 0, .count = 12, .embedding = true}, GroupAxis::Embedding),
                   4 * table);
  EXPECT_DOUBLE_EQ(volume(gpt, p, {.first = 84, .count = 12, .loss = true}, GroupAxis::Embedding), 4 * table);
  EXPECT_DOUBLE_EQ(volume(gpt, p, {.first = 12, .count = 12}, GroupAxis::Embedding), 0);
  // Mixtral: a router of 8 experts a layer besides its two norms. One table for each end.
  const Transformer& mixtral = preset("mixtral-8x7b");
  EXPECT_DOUBLE_EQ(volume(mixtral, p, {.first = 4, .count = 4}, GroupAxis::Tp), 4 * 4 * (2 + 8) * 4096.0);
  EXPECT_DOUBLE_EQ(volume(mixtral, p, {.first = 28, .count = 4, .loss = true}, GroupAxis::Embedding), 0);
  // DeepSeek-V3's prediction layer looks up tokens on the last stage: a copy of the embedding, kept equal.
  const Transformer& deepseek = preset("deepseek-v3");
  const StageLayers last{.first = 60, .count = 1, .loss = true};
  const double words = 129280.0 * 7168 / 8;
  EXPECT_DOUBLE_EQ(volume(deepseek, p, last, GroupAxis::Embedding), 4 * words);
  Transformer without = deepseek;
  without.prediction_layers = 0;
  const double more = static_cast<double>(rank_parameters(deepseek, unsharded(1), last).dense -
                                          rank_parameters(without, unsharded(1), last).dense);
  // Attention 187.1, shared expert and router 45.9, the joining product 102.8 million, and 926.7 of the table.
  EXPECT_NEAR(more, 187.1e6 + 45.9e6 + 102.8e6 + 926.7e6, 0.1e6);
}

TEST(StagePrograms, BucketsFollowTheirSize) {
  const Transformer& m = preset("llama-3-8b");
  Parallel p;
  p.dp = 8;
  p.bucket_parameters = 500'000'000;  // three layers of 218 million reach it
  const StagePrograms passes = transformer_passes(m, p, {}, {4096, 1}, {.first = 0, .count = 7});
  std::vector<double> buckets;
  for (const PassOp& op : passes.backward.ops) {
    if (op.communication && op.communication->kind == CollectiveOp::ReduceScatter) {
      buckets.push_back(op.communication->bytes / 4 / kMega);
      EXPECT_EQ(op.when, When::LastMicrobatch);
    }
  }
  EXPECT_THAT(buckets, testing::ElementsAre(testing::DoubleNear(654.3, 0.1), testing::DoubleNear(654.3, 0.1),
                                            testing::DoubleNear(218.1, 0.1)));
}

TEST(StagePrograms, WorkAddsUpToTheModels) {
  const Transformer& gpt = preset("gpt-3-175b");
  // Twelve layers over tp 8: 11.44 TFLOP with all scores; causal attention needs half of 4 s^2 h a layer.
  const StagePrograms twelve =
      transformer_passes(gpt, unsharded(8), {}, {2048, 1}, {.first = 12, .count = 12});
  const double all_scores = 12 * 2.0 * 2048 * 2048 * 12288 / 8;
  EXPECT_NEAR((flops(twelve.forward) + all_scores) / 1e12, 11.4418, 0.0001);
  for (const char* name : {"llama-3-8b", "gpt-3-175b", "deepseek-v3", "mixtral-8x7b"}) {
    const Transformer& m = preset(name);
    Parallel p = unsharded(1);
    const Microbatch microbatch{4096, 2};
    const StagePrograms whole = transformer_passes(
        m, p, {}, microbatch, {.first = 0, .count = m.layers, .embedding = true, .loss = true});
    const double expected = model_flops_per_token(m, 4096) / 3 * 4096 * 2;
    EXPECT_NEAR(flops(whole.forward), expected, 1e-9 * expected) << name;
    // Backward: twice the products, and the core again (2.5 instead of 2).
    double core = 0;
    for (const PassOp& op : whole.forward.ops) {
      for (const Kernel& kernel : op.kernels)
        core += kernel.kind == KernelClass::Attention ? kernel.flops : 0;
    }
    EXPECT_NEAR(flops(whole.backward), 2 * expected + 0.5 * core, 1e-9 * expected) << name;
    EXPECT_NEAR(flops(whole.backward_input) + flops(whole.backward_weight), flops(whole.backward),
                1e-9 * expected)
        << name;
    p.recompute = Recompute::Full;
    const StagePrograms again = transformer_passes(m, p, {}, microbatch, {.first = 0, .count = 2});
    p.recompute = Recompute::None;
    const StagePrograms kept = transformer_passes(m, p, {}, microbatch, {.first = 0, .count = 2});
    EXPECT_NEAR(flops(again.backward), flops(kept.backward) + flops(kept.forward), 1e-9 * expected) << name;
  }
}

void check_well_formed(const PassProgram& program) {
  const auto size = static_cast<int>(program.ops.size());
  RC_ASSERT(program.output >= kPassInput && program.output < std::max(size, 1));
  for (int i = 0; i < size; ++i) {
    const PassOp& op = program.ops[static_cast<std::size_t>(i)];
    RC_ASSERT(op.communication.has_value() == op.kernels.empty());
    for (const int before : op.after) RC_ASSERT(before >= kPassInput && before < i);
    for (const Kernel& kernel : op.kernels) RC_ASSERT(kernel.flops > 0 || kernel.bytes > 0);
    if (op.communication) RC_ASSERT(op.communication->bytes > 0);
  }
}

RC_GTEST_PROP(StageProgramsProperty, AllSplitsGiveSoundPrograms, ()) {
  constexpr const char* kModels[] = {"llama-3-8b", "gpt-3-22b", "mixtral-8x7b", "deepseek-v3",
                                     "gpt-neox-20b"};
  const Transformer& m = preset(kModels[*rc::gen::inRange<std::size_t>(0, std::size(kModels))]);
  Parallel p;
  p.tp = std::int64_t{1} << *rc::gen::inRange(0, 4);
  p.cp = std::int64_t{1} << *rc::gen::inRange(0, 3);
  p.pp = *rc::gen::inRange<std::int64_t>(1, 5);
  p.dp = 8;
  p.ep = m.experts ? std::int64_t{1} << *rc::gen::inRange(0, 4) : 1;
  p.sequence_parallel = m.experts || *rc::gen::arbitrary<bool>();
  p.zero = *rc::gen::inRange(0, 4);
  p.overlap_gradients = *rc::gen::arbitrary<bool>();
  p.overlap_parameters = *rc::gen::arbitrary<bool>();
  p.cp_exchange = static_cast<ContextExchange>(*rc::gen::inRange(0, 3));
  p.recompute = static_cast<Recompute>(*rc::gen::inRange(0, 3));
  const Microbatch microbatch{4096, *rc::gen::inRange<std::int64_t>(1, 4)};
  try {
    check_split(m, p, microbatch, "plan");
  } catch (const InputError&) {
    return;
  }
  const auto first = *rc::gen::inRange<std::int64_t>(0, 3);
  const StageLayers layers{.first = first,
                           .count = *rc::gen::inRange<std::int64_t>(0, 4),
                           .embedding = *rc::gen::arbitrary<bool>(),
                           .loss = *rc::gen::arbitrary<bool>()};
  const StagePrograms passes = transformer_passes(m, p, {}, microbatch, layers);
  for (const PassProgram* program :
       {&passes.forward, &passes.backward, &passes.backward_input, &passes.backward_weight}) {
    check_well_formed(*program);
  }
  check_well_formed(transformer_step_end(m, p, {}, {layers}));
  RC_ASSERT(std::abs(flops(passes.backward_input) + flops(passes.backward_weight) - flops(passes.backward)) <=
            1e-9 * flops(passes.backward));
}

// Splitting and weights

TEST(SplitLayers, TablesCountAsLayersWhereAsked) {
  const Transformer& m = preset("llama-3-405b");
  ScheduleChoice choice;
  const auto counts = [&](std::int64_t stages) {
    std::vector<std::int64_t> result;
    std::int64_t next = 0;
    for (const StageLayers& s : split_layers(m, choice, stages, "plan")) {
      EXPECT_EQ(s.first, next);
      next += s.count;
      result.push_back(s.count);
    }
    EXPECT_EQ(next, 126);
    return result;
  };
  choice.embedding_counts = choice.loss_counts = true;
  EXPECT_THAT(counts(16), testing::ElementsAre(7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7));
  choice = {};
  EXPECT_THAT(counts(4), testing::ElementsAre(31, 32, 32, 31));
  choice.embedding_alone = choice.loss_alone = true;
  EXPECT_THAT(counts(4), testing::ElementsAre(0, 63, 63, 0));
  choice = {};
  choice.layers = {100, 26};
  EXPECT_THAT(counts(2), testing::ElementsAre(100, 26));
  EXPECT_THROW(split_layers(m, choice, 3, "plan"), InputError);
  choice.layers = {};
  EXPECT_THROW(split_layers(m, choice, 127, "plan"), InputError);
}

TEST(RankParameters, AddUpToTheModels) {
  for (const char* name : {"llama-3-8b", "gpt-3-22b", "mixtral-8x7b", "deepseek-v3"}) {
    Transformer m = preset(name);
    m.prediction_layers = 0;
    m.tied_embeddings = false;
    Parallel p;
    p.pp = 3;
    p.dp = 8;
    p.ep = m.experts ? 8 : 1;
    std::int64_t dense = 0;
    std::int64_t expert = 0;
    for (const StageLayers& s : split_layers(m, {}, 3, "plan")) {
      const RankParameters held = rank_parameters(m, p, s);
      dense += held.dense;
      expert += held.expert * p.ep;
    }
    EXPECT_EQ(dense + expert, count_parameters(m).total) << name;
  }
}

// Memory

TEST(Memory, LayerActivationsAreThoseOfTheClosedForm) {
  const Transformer& m = preset("gpt-3-175b");
  const Microbatch microbatch{2048, 1};
  Parallel p;
  p.tp = 8;
  // Korthikanti et al.: 34 sbh / t without the scores; 2 sbh / t of it are dropout masks, which are not counted here.
  const double sbh = 2048.0 * 12288;
  EXPECT_DOUBLE_EQ(layer_activation_bytes(m, p, {}, microbatch, 0), (34 - 2) * sbh / 8);
  p.recompute = Recompute::Full;
  EXPECT_DOUBLE_EQ(layer_activation_bytes(m, p, {}, microbatch, 0), 2 * sbh / 8);
}

TEST(Memory, PublishedRunsFit) {
  const Transformer& m = preset("gpt-3-175b");
  Parallel p;
  p.tp = 8;
  p.pp = 8;
  ScheduleChoice choice;
  choice.kind = ScheduleKind::Interleaved;
  choice.chunks = 3;
  const PipelineSchedule schedule = make_schedule(choice, 8, 64, "plan");
  const auto uses = memory_use(m, p, {}, {2048, 1}, schedule, split_layers(m, choice, 24, "plan"), "plan");
  ASSERT_EQ(uses.size(), 8U);
  for (const MemoryUse& use : uses) EXPECT_LT(use.total(), 80e9);
  // Weights 2, gradients 4 and optimizer 12 bytes for each of 174.6 / 64 billion parameters (and the table's share).
  EXPECT_NEAR(uses[4].weights / 2, 174.6e9 / 64, 0.01 * 174.6e9 / 64);
  EXPECT_DOUBLE_EQ(uses[4].gradients, 2 * uses[4].weights);
  EXPECT_DOUBLE_EQ(uses[4].optimizer, 6 * uses[4].weights);
  EXPECT_EQ(uses[0].in_flight, 2 * 7 + 2 * 8 + 1);
}

TEST(Memory, ShardingDividesWhatItShards) {
  const Transformer& m = preset("llama-3-8b");
  const PipelineSchedule schedule = make_schedule({}, 1, 4, "plan");
  const auto layers = split_layers(m, {}, 1, "plan");
  Parallel p;
  p.dp = 16;
  const auto use = [&](int zero, std::int64_t shard) {
    p.zero = zero;
    p.shard = shard;
    return memory_use(m, p, {}, {8192, 1}, schedule, layers, "plan").front();
  };
  const double weights = 2 * 8.030261248e9;
  EXPECT_NEAR(use(0, 0).weights, weights, 1e-6 * weights);
  EXPECT_NEAR(use(1, 0).optimizer, 6 * weights / 16, 1e-6 * weights);
  EXPECT_NEAR(use(2, 0).gradients, 2 * weights / 16, 1e-6 * weights);
  EXPECT_NEAR(use(3, 0).weights, weights / 16, 1e-6 * weights);
  EXPECT_NEAR(use(3, 4).weights, weights / 4, 1e-6 * weights);
}

TEST(CheckSplit, RefusesWhatDoesNotDivide) {
  const auto refusal = [](const Transformer& m, const Parallel& p,
                          const Microbatch& microbatch) -> std::string {
    try {
      check_split(m, p, microbatch, "plan");
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  const Transformer& m = preset("llama-3-8b");
  Parallel p;
  p.tp = 3;
  EXPECT_THAT(refusal(m, p, {8192, 1}), HasSubstr("heads over tp"));
  p.tp = 8;
  EXPECT_THAT(refusal(m, p, {8190, 1}), HasSubstr("sequence over tp"));
  p.ep = 2;
  EXPECT_THAT(refusal(m, p, {8192, 1}), HasSubstr("no experts"));
  EXPECT_THAT(refusal(m, p, {0, 1}), HasSubstr("0 tokens"));
  p = {};
  p.ep = 3;
  EXPECT_THAT(refusal(preset("mixtral-8x7b"), p, {8192, 1}), HasSubstr("experts over ep"));
}

}  // namespace
}  // namespace prism
