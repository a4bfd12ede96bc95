// SPDX-License-Identifier: Apache-2.0
#include "prism/plan/read_plan.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "prism/io/test_dir.hpp"
#include "prism/plan/build_plan_model.hpp"
#include "prism/plan/plan_programs.hpp"
#include "prism/plan/plan_summary.hpp"
#include "prism/trace/error.hpp"

namespace prism {
namespace {

using testing::HasSubstr;

constexpr const char* kSmall = R"(
[model]
layers = 8
hidden = 1024
heads = 16
vocabulary = 32000
sequence = 2048
[batch]
microbatches = 8
[parallel]
tp = 2
pp = 4
dp = 2
[cluster]
gpu = "H100"
)";

Plan parse(const std::string& text) {
  return parse_plan(text, "plan.toml", ".");
}

std::string error_of(const std::string& text) {
  try {
    parse(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

/// kSmall with a line put into a section, or a section added.
std::string with(const std::string& section, const std::string& line) {
  std::string text = kSmall;
  const std::size_t at = text.find(section + "\n");
  if (at == std::string::npos) return text + section + "\n" + line + "\n";
  return text.insert(at + section.size() + 1, line + "\n");
}

const Setting& setting(const Plan& plan, const std::string& key) {
  const auto place = std::ranges::find(plan.settings, key, &Setting::key);
  EXPECT_NE(place, plan.settings.end()) << key;
  return *place;
}

TEST(ReadPlan, FillsInWhatFollowsAndSaysWhereItComesFrom) {
  const Plan plan = parse(kSmall);
  EXPECT_EQ(plan.model->head_size, 64);
  EXPECT_EQ(plan.model->kv_heads, 16);
  EXPECT_EQ(plan.model->ffn, 4096);
  EXPECT_EQ(plan.global_batch(), 16);
  EXPECT_EQ(plan.parallel.world_size(), 16);
  EXPECT_EQ(plan.cluster.groups.front().gpu.name, "H100");
  EXPECT_EQ(setting(plan, "parallel.tp").source, "line 11");
  EXPECT_TRUE(setting(plan, "parallel.tp").given);
  EXPECT_EQ(setting(plan, "model.head_size").source, "default: hidden / heads");
  EXPECT_THAT(setting(plan, "cluster.H100.bf16_tflops").source, HasSubstr("data sheet"));
  EXPECT_THAT(setting(plan, "variability.gemm.temporal").source, HasSubstr("arXiv 2510.15596"));
  for (const Setting& s : plan.settings) EXPECT_FALSE(s.source.empty()) << s.key;
}

TEST(ReadPlan, ReadsEverySection) {
  const Plan plan = parse(R"(
name = "all"
[model]
preset = "mixtral-8x7b"
sequence = 4096
[batch]
micro_batch = 2
global_batch = 64
[parallel]
gpus = 32
tp = 2
pp = 2
cp = 2
ep = 8
etp = 1
zero = 2
order = "tp-cp-ep-pp-dp"
cp_exchange = "all-gather"
recompute = "full"
tp_overlap = "50 %"
expert_load = 1.25
[schedule]
kind = "interleaved"
chunks = 4
[precision]
matmul = "fp8"
output = "bf16"
[[gpu]]
name = "mine"
like = "B200"
fp8_tflops = 4000
[gpu.efficiency]
gemm = "60 %"
[cluster]
nic_gb_per_s = 100
[[cluster.host]]
gpu = "mine"
count = 2
[[cluster.host]]
gpu = "H200"
count = 2
gpus_per_host = 8
[[cluster.level]]
hosts = 2
oversubscription = 3
[variability]
law = "gamma"
step = "1 %"
fleet = "one"
[variability.gemm]
temporal = 0.03
[variability.network.tail]
probability = 0.001
factor = 10
[[variability.slow]]
host = 1
compute = 1.5
[memory]
check = false
)");
  EXPECT_EQ(plan.microbatches, 64 / (2 * 4));
  EXPECT_EQ(plan.parallel.order[3], Axis::Pp);
  EXPECT_EQ(plan.parallel.cp_exchange, ContextExchange::AllGather);
  EXPECT_EQ(plan.parallel.recompute, Recompute::Full);
  EXPECT_DOUBLE_EQ(plan.parallel.tp_overlap, 0.5);
  EXPECT_EQ(plan.schedule.chunks, 4);
  EXPECT_EQ(plan.precisions.expert, Precision::Fp8);
  EXPECT_EQ(plan.precisions.output, Precision::Bf16);
  EXPECT_EQ(plan.cluster.groups[0].gpu.fp8_tflops, 4000);
  EXPECT_EQ(plan.cluster.groups[0].gpu.bf16_tflops, 2250);
  EXPECT_DOUBLE_EQ(plan.cluster.groups[0].gpu.efficiency[0].most, 0.6);
  EXPECT_EQ(plan.cluster.levels.front().oversubscription, 3);
  EXPECT_EQ(plan.variability.kernels[0].temporal.law, LawForm::Gamma);
  EXPECT_DOUBLE_EQ(plan.variability.kernels[0].temporal.cv, 0.03);
  EXPECT_DOUBLE_EQ(plan.variability.step.cv, 0.01);
  EXPECT_DOUBLE_EQ(plan.variability.links[2].tail.factor, 10);
  EXPECT_TRUE(plan.variability.one_fleet);
  EXPECT_EQ(plan.variability.slow.front().compute, 1.5);
  EXPECT_FALSE(plan.check_memory);
  const StepModel model = build_plan_model(plan);
  EXPECT_EQ(model.replicas * model.template_ranks, 32U);
}

TEST(ReadPlan, ReadsFilesBesideThePlan) {
  const TestDir dir;
  const auto config =
      dir.file("config.json", R"({"model_type":"llama","num_hidden_layers":2,"hidden_size":256,
    "num_attention_heads":4,"intermediate_size":512,"vocab_size":1000})");
  const auto table = dir.file("schedule.csv", "0F0,0F1,0B0,0B1\n");
  const auto fleet = dir.file("fleet.csv", "uuid,perf\na,1\na,1.02\nb,1.1\nb,1.1\n");
  const auto file =
      dir.file("plan.toml",
               "[model]\nhf_config = \"config.json\"\nsequence = 128\n[batch]\nmicrobatches = 2\n"
               "[parallel]\ndp = 2\n[schedule]\nkind = \"table\"\ntable = \"schedule.csv\"\n"
               "[cluster]\ngpu = \"A100\"\n[variability]\npools = \"fleet.csv\"\n");
  const Plan plan = read_plan(file);
  EXPECT_EQ(plan.schedule.table, table.string());
  EXPECT_THAT(setting(plan, "variability.pools.gpus").source, HasSubstr("fleet.csv"));
  EXPECT_TRUE(std::filesystem::exists(config) && std::filesystem::exists(fleet));
  EXPECT_EQ(plan.model->layers, 2);
  EXPECT_EQ(plan.variability.kernels[0].spatial.law, LawForm::Pool);
  EXPECT_EQ(plan.variability.kernels[0].spatial.pool.size(), 2U);
  EXPECT_GT(build_plan_model(plan).graph.size(), 0U);
}

TEST(ReadPlan, ErrorsNameLineProblemAndFix) {
  EXPECT_THAT(error_of("[model\n"), HasSubstr("plan.toml:1: not TOML"));
  EXPECT_THAT(error_of(with("[parallel]", "tpp = 2")),
              testing::AllOf(HasSubstr("plan.toml:11"), HasSubstr("did you mean 'tp'?")));
  EXPECT_THAT(error_of(with("[modle]", "a = 1")), HasSubstr("did you mean 'model'?"));
  EXPECT_THAT(error_of(with("[parallel]", "cp = \"two\"")),
              HasSubstr("a whole number was expected, not a string"));
  EXPECT_THAT(error_of(with("[parallel]", "cp = 0")), HasSubstr("0 is out of range"));
  EXPECT_THAT(error_of(with("[parallel]", "gpus = 17")), HasSubstr("17 is no multiple of tp x cp x pp = 8"));
  EXPECT_THAT(error_of(with("[parallel]", "gpus = 32")), HasSubstr("32 is not tp x cp x pp x dp = 16"));
  EXPECT_THAT(error_of(with("[batch]", "global_batch = 17")), HasSubstr("17 is not 8 microbatches"));
  EXPECT_THAT(error_of(with("[parallel]", "order = \"tp-pp\"")), HasSubstr("does not name each axis once"));
  EXPECT_THAT(error_of(with("[schedule]", "kind = \"2f2b\"")), HasSubstr("one of 1f1b, gpipe"));
  EXPECT_THAT(error_of(with("[schedule]", "kind = \"interleaved\"")),
              HasSubstr("more than one virtual stage"));
  EXPECT_THAT(error_of(with("[schedule]", "table = \"x.csv\"")), HasSubstr("kind is not \"table\""));
  EXPECT_THAT(error_of(with("[variability]", "step = \"2 percent\"")), HasSubstr("is no share"));
  EXPECT_THAT(error_of(with("[variability]", "slow = 3")), HasSubstr("list of tables"));
  EXPECT_THAT(error_of(with("[model]", "preset = \"gpt-9\"")), HasSubstr("known: llama-2-7b"));
  EXPECT_THAT(error_of(with("[run]", "steps = 3")), HasSubstr("not supported yet"));
  EXPECT_THAT(error_of("[parallel]\ndp = 1\n[batch]\nmicrobatches = 1\n[cluster]\ngpu = \"H100\"\n"),
              HasSubstr("neither a [model] nor an [[op]]"));
  EXPECT_THAT(error_of("[cluster]\ngpu = \"H100\"\n"), HasSubstr("dp: is missing"));
  EXPECT_THAT(error_of(with("[cluster]", "gpu = \"Z9\"")), HasSubstr("not TOML"));  // the key comes twice
  std::string other = kSmall;
  other.replace(other.find("\"H100\""), 6, "\"Z9\"");
  EXPECT_THAT(error_of(other), testing::AllOf(HasSubstr("'Z9' is not known"), HasSubstr("MI355X")));
}

std::string build_error(const std::string& text) {
  try {
    build_plan_model(parse(text));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(BuildPlan, RefusesImpossiblePlansWithTheNumbers) {
  EXPECT_THAT(build_error(with("[memory]", "reserve_gb = 79.5")),
              testing::AllOf(HasSubstr("pipeline rank 0 needs"), HasSubstr("(80 less a reserve of 79.5)"),
                             HasSubstr("optimizer")));
  EXPECT_EQ(build_error(with("[memory]", "reserve_gb = 79.5\ncheck = false")), "");
  EXPECT_THAT(build_error(with("[cluster]", "hosts = 1")), HasSubstr("16 ranks and the cluster 8 GPUs"));
  EXPECT_THAT(build_error(with("[schedule]", "kind = \"dualpipe-v\"\nchunks = 2\nlayers = [1,1,1,1,1,1,1]")),
              HasSubstr("7 virtual stages"));
  EXPECT_THAT(build_error(with("[parallel]", "ep = 2")), HasSubstr("no experts"));
  EXPECT_THAT(build_error(with("[schedule]", "kind = \"zb-v\"\nchunks = 3")),
              HasSubstr("two virtual stages"));
}

TEST(BuildPlan, FreeFormPlansRun) {
  const std::string text = R"(
boundary_bytes = 1e6
[batch]
microbatches = 4
[parallel]
pp = 2
dp = 4
[cluster]
gpu = "A100"
[[op]]
name = "encode"
flops = 1e12
[[op]]
name = "decode"
stage = 1
time_us = 500
[[op]]
name = "decode back"
stage = 1
phase = "backward"
time_us = 900
[[op]]
name = "encode back"
phase = "backward"
flops = 2e12
[[op]]
name = "sum"
phase = "backward"
collective = "all-reduce"
bytes = 1e9
when = "last-microbatch"
[[op]]
name = "update"
phase = "step-end"
bytes = 1e9
)";
  const StepModel model = build_plan_model(parse(text));
  std::size_t sums = 0;
  for (const Node& node : model.nodes) sums += node.name.starts_with("sum") ? 1 : 0;
  EXPECT_EQ(sums, 1U);
  // Weight gradients follow input gradients where a pass computes both, and keep their own order.
  const PlanPrograms programs = plan_programs(parse(text + R"(
[[op]]
name = "w1"
phase = "backward-weight"
flops = 1
[[op]]
name = "w2"
phase = "backward-weight"
flops = 1
)"));
  const PassProgram& whole = programs.stages[0].backward;
  ASSERT_EQ(whole.ops.size(), 4U);
  EXPECT_EQ(whole.output, 0);  // the sum is of the last microbatch only
  EXPECT_EQ(whole.ops[2].after, std::vector<int>{0});
  EXPECT_EQ(whole.ops[3].after, std::vector<int>{2});
  EXPECT_THAT(error_of(text + "[[op]]\nname = \"sum\"\nphase = \"backward\"\nflops = 1\n"),
              HasSubstr("comes twice"));
  EXPECT_THAT(error_of(text + "[[op]]\nname = \"x\"\n"),
              HasSubstr("neither flops, bytes, time_us nor a collective"));
  EXPECT_THAT(error_of(text + "[[op]]\nname = \"x\"\nflops = 1\nafter = \"nothing\"\n"),
              HasSubstr("no op 'nothing' comes before"));
  EXPECT_THAT(build_error(text + "[[op]]\nname = \"x\"\nflops = 1\nstage = 5\n"), HasSubstr("stage 5, of 2"));
}

TEST(PlanSummary, SaysWhatThePlanComesTo) {
  const PlanSummary summary = summarise_plan(parse(kSmall));
  EXPECT_NEAR(summary.bubble, 3.0 / 11, 1e-9);  // (p - 1) / (m + p - 1)
  EXPECT_EQ(summary.memory.size(), 4U);
  EXPECT_DOUBLE_EQ(summary.tokens_per_step, 16 * 2048);
  EXPECT_NEAR(summary.peak_flops, 16 * 989.4e12, 1);
  const auto sends = std::ranges::find(summary.messages, "send activations", &MessageSummary::name);
  ASSERT_NE(sends, summary.messages.end());
  EXPECT_EQ(sends->count, 8U);
  EXPECT_DOUBLE_EQ(sends->bytes, 2048.0 * 1024 * 2 / 2);
}

RC_GTEST_PROP(ReadPlanProperty, AnyMutilationIsAPlanOrAnError, ()) {
  std::string text = kSmall;
  const int edits = *rc::gen::inRange(1, 6);
  for (int i = 0; i < edits; ++i) {
    const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
    switch (*rc::gen::inRange(0, 3)) {
      case 0:
        text.erase(at, *rc::gen::inRange<std::size_t>(1, 20));
        break;
      case 1:
        text[at] = *rc::gen::element('0', '9', '=', '[', ']', '"', '-', 'e', '\n', '.');
        break;
      default:
        text.insert(at, *rc::gen::element<std::string>("99999999999", "-1", "[[op]]\n", "true", "\"\"",
                                                       "1e300", "nan", "= 0\n"));
        break;
    }
    if (text.empty()) break;
  }
  try {
    Plan plan = parse(text);
    if (plan.parallel.world_size() <= 4096 && plan.microbatches <= 256 &&
        (!plan.model || plan.model->layers < 1000)) {
      build_plan_model(plan);
    }
  } catch (const InputError& error) {
    RC_ASSERT(std::string(error.what()).size() > 10U);
  }
}

TEST(LooksLikePlan, TellsPlansFromOtherText) {
  EXPECT_TRUE(looks_like_plan(kSmall));
  EXPECT_FALSE(looks_like_plan("step,rank,type\n1,2,3\n"));
  EXPECT_FALSE(looks_like_plan("{\"traceEvents\": []}"));
  EXPECT_FALSE(looks_like_plan(""));
}

}  // namespace
}  // namespace prism
