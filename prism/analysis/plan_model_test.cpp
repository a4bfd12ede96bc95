// SPDX-License-Identifier: Apache-2.0
// Plans through the engine: schedules' makespans, every rank explicit, and sweeps.
#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "prism/analysis/forecast.hpp"
#include "prism/analysis/plan_sweep.hpp"
#include "prism/engine/simulate.hpp"
#include "prism/model/collapse_replicas.hpp"
#include "prism/model/every_rank.hpp"
#include "prism/plan/build_plan_model.hpp"
#include "prism/plan/read_plan.hpp"
#include "prism/plan/schedule.hpp"
#include "prism/trace/error.hpp"

namespace prism {
namespace {

using testing::HasSubstr;

std::vector<double> sample(const StepModel& model, std::uint32_t n) {
  RunControl control;
  control.threads = 2;
  return Simulation(model, default_sampling(model), {}).step_times_ns(1, 0, n, control);
}

constexpr const char* kPlan = R"(
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
zero = ZERO
[schedule]
SCHEDULE
[cluster]
gpu = "H100"
[variability]
host = "1 %"
microbatch = "2 %"
law = "LAW"
[variability.straggler]
probability = 0.02
factor = 1.3
cv = 0.1
[variability.pause]
probability = 0.001
factor = 3000
)";

Plan plan_of(const std::string& schedule, int zero, const std::string& law) {
  std::string text = kPlan;
  const auto put = [&](const std::string& what, const std::string& with) {
    text.replace(text.find(what), what.size(), with);
  };
  put("ZERO", std::to_string(zero));
  put("SCHEDULE", schedule);
  put("LAW", law);
  return parse_plan(text, "plan.toml", ".");
}

TEST(PlanModel, ATemplateTimesReplicasIsTheSameAsEveryRankExplicit) {
  for (const char* schedule :
       {"kind = \"1f1b\"", "kind = \"interleaved\"\nchunks = 2", "kind = \"zb-v\"", "kind = \"dualpipe\""}) {
    for (const int zero : {0, 1, 3}) {
      const StepModel model = build_plan_model(plan_of(schedule, zero, zero == 1 ? "normal" : "lognormal"));
      const StepModel all = with_every_rank(model);
      EXPECT_EQ(all.replicas, 1U);
      EXPECT_EQ(all.template_ranks, 16U);
      EXPECT_EQ(sample(model, 64), sample(all, 64)) << schedule << ", zero " << zero;
    }
  }
}

/// A free-form plan with one compute op per pass and free communication: the schedule alone.
Plan bare(ScheduleKind kind, std::int64_t p, std::int64_t m, std::int64_t chunks, const PassCosts& costs) {
  Plan plan;
  plan.source = "bare";
  plan.parallel.pp = p;
  plan.microbatches = m;
  plan.schedule.kind = kind;
  plan.schedule.chunks = chunks;
  plan.cluster.groups.push_back({*find_gpu_kind("H100"), 0, 8});
  const std::int64_t stages = p * chunks;
  const auto add = [&](FreeOp::Phase phase, const char* name, double units) {
    for (std::int64_t stage = 0; stage < stages; ++stage) {
      PassOp op{.name = name};
      op.kernels.push_back({.name = name, .fixed_ns = units * 1e6 / static_cast<double>(chunks)});
      op.after = {phase == FreeOp::Phase::BackwardWeight ? 0 : kPassInput};
      if (phase == FreeOp::Phase::BackwardWeight) op.after = {};
      plan.free_ops.push_back({phase, stage, op});
    }
  };
  add(FreeOp::Phase::Forward, "f", costs.forward);
  add(FreeOp::Phase::Backward, "i", costs.backward_input);
  add(FreeOp::Phase::BackwardWeight, "w", costs.backward_weight);
  return plan;
}

TEST(PlanModel, StepsTakeTheMakespanOfTheirSchedule) {
  struct Case {
    ScheduleKind kind;
    std::int64_t chunks;
  };
  for (const auto& [kind, chunks] :
       {Case{ScheduleKind::GPipe, 1}, Case{ScheduleKind::OneForwardOneBackward, 1},
        Case{ScheduleKind::Interleaved, 2}, Case{ScheduleKind::ZeroBubbleH1, 1},
        Case{ScheduleKind::ZeroBubbleV, 2}}) {
    for (const auto& [p, m] : {std::pair<std::int64_t, std::int64_t>{4, 8}, {8, 16}}) {
      const Plan plan = bare(kind, p, m, chunks, {1, 1, 1});
      const double step = sample(build_plan_model(plan), 1).front();
      const double expected = time_schedule(make_schedule(plan.schedule, p, m, "bare"), {}, "bare").makespan;
      // A graph passes input gradients on before the weight gradients are done, where the table counts B as one.
      const bool whole = kind == ScheduleKind::GPipe || kind == ScheduleKind::OneForwardOneBackward ||
                         kind == ScheduleKind::Interleaved;
      if (whole) {
        EXPECT_LE(step, expected * 1e6 * (1 + 1e-9)) << schedule_name(kind);
        EXPECT_GE(step, static_cast<double>(m) * 3e6) << schedule_name(kind);
      } else {
        EXPECT_NEAR(step, expected * 1e6, 1) << schedule_name(kind);
      }
    }
  }
  // With nothing to do for weights, B is I: equal to the closed form (m + p - 1)(F + B).
  const Plan plan = bare(ScheduleKind::OneForwardOneBackward, 4, 8, 1, {1, 2, 1e-9});
  EXPECT_NEAR(sample(build_plan_model(plan), 1).front(), 33e6, 1);
}

TEST(PlanModel, WithoutVariabilityEverySampleIsTheSame) {
  Plan plan = plan_of("", 1, "lognormal");
  plan.variability = {};
  const std::vector<double> times = sample(build_plan_model(plan), 32);
  EXPECT_EQ(times, std::vector<double>(32, times.front()));
  plan.variability.slow.push_back({SlowPart::What::Rank, 5, 1.5, 1});
  EXPECT_GT(sample(build_plan_model(plan), 1).front(), 1.02 * times.front());
}

TEST(PlanModel, ReplicasThatCannotDifferCollapseToTheSameBits) {
  Plan plan = plan_of("", 1, "lognormal");
  EXPECT_THAT(distinguishing_fact(build_plan_model(plan)), HasSubstr("varies"));
  EXPECT_THROW(collapse_replicas(build_plan_model(plan)), InputError);
  plan.variability = {};
  plan.variability.step = {LawForm::Lognormal, 0.05, {}};
  plan.variability.links[static_cast<std::size_t>(LinkClass::ScaleUp)].regime = {0.3, 2, 0.2};
  plan.parallel.dp = 8;
  for (const int zero : {0, 1, 3}) {
    plan.parallel.zero = zero;
    const StepModel all = build_plan_model(plan);
    const StepModel one = collapse_replicas(all);
    EXPECT_EQ(one.replicas, 1U);
    EXPECT_EQ(sample(one, 64), sample(all, 64));
  }
  plan.variability.slow.push_back({SlowPart::What::Host, 3, 1.2, 1});
  EXPECT_THAT(distinguishing_fact(build_plan_model(plan)), HasSubstr("different time in different replicas"));
}

TEST(PlanModel, BlockingTransfersAreNotFasterAndDoNotDeadlock1F1B) {
  Plan plan = plan_of("", 1, "lognormal");
  plan.variability = {};
  const double overlapped = sample(build_plan_model(plan), 1).front();
  plan.parallel.overlap_p2p = false;
  EXPECT_GE(sample(build_plan_model(plan), 1).front(), overlapped);
}

TEST(PlanModel, MixedGenerationsRunAtTheSlowerOnesPace) {
  Plan plan = plan_of("", 1, "lognormal");
  plan.variability = {};
  const double fast = sample(build_plan_model(plan), 1).front();
  plan.cluster.groups = {{*find_gpu_kind("H100"), 1, 8}, {*find_gpu_kind("A100"), 1, 8}};
  const double mixed = sample(build_plan_model(plan), 1).front();
  plan.cluster.groups = {{*find_gpu_kind("A100"), 2, 8}};
  const double slow = sample(build_plan_model(plan), 1).front();
  EXPECT_GT(mixed, fast);
  EXPECT_LE(mixed, slow * (1 + 1e-9));
}

TEST(PlanModel, ForecastsAsAnyModel) {
  const StepModel model = build_plan_model(plan_of("", 1, "lognormal"));
  const ForecastResult result = forecast(model, {.samples = 400}, {});
  EXPECT_GT(result.summary.moments_ns.cv, 0.001);
  EXPECT_FALSE(result.spread.sources.empty());
  EXPECT_TRUE(result.guarantee.bound_ns.has_value());
}

TEST(PlanSweep, RanksWaysByMedianAndByTail) {
  SweepOptions options;
  options.space.tp = {1, 2};
  options.space.pp = {2, 4};
  options.space.schedules = {ScheduleKind::OneForwardOneBackward, ScheduleKind::ZeroBubbleH1};
  options.samples = 60;
  const SweepResult result = sweep_plan(plan_of("", 1, "lognormal"), options, {});
  ASSERT_GT(result.rows.size(), 3U);
  EXPECT_EQ(result.tried, 8U);
  for (std::size_t i = 0; i < result.rows.size(); ++i) {
    const SweepRow& row = result.rows[i];
    EXPECT_EQ(row.rank_by_p50, i + 1);
    EXPECT_EQ(row.parallel.world_size(), 16);
    EXPECT_EQ(row.micro_batch * row.microbatches * row.parallel.dp, 16);
    EXPECT_LE(row.p50_to_best.low_ns, row.p50_to_best.value_ns);
    EXPECT_GE(row.p50_to_best.high_ns, row.p50_to_best.value_ns);
    if (i > 0) {
      EXPECT_GE(row.p50.value_ns, result.rows[i - 1].p50.value_ns);
    }
  }
  EXPECT_EQ(result.rows.front().p50_to_best.value_ns, 0);
}

TEST(PlanSweep, CountsWhatIsNotPossibleAndRefusesWhatHasNoWay) {
  Plan plan = plan_of("", 1, "lognormal");
  SweepOptions options;
  options.space.schedules = {ScheduleKind::OneForwardOneBackward,
                             ScheduleKind::DualPipeV};  // 8 layers on 8 stages: fine
  options.space.micro_batch = {1, 4};                   // two microbatches: DualPipeV needs 8
  options.samples = 20;
  const SweepResult result = sweep_plan(plan, options, {});
  EXPECT_EQ(result.rows.size(), 3U);
  ASSERT_EQ(result.refused.size(), 1U);
  EXPECT_THAT(result.refused.front().example, HasSubstr("twice as many microbatches"));
  plan.memory_reserve_gb = 79.9;
  EXPECT_THROW(sweep_plan(plan, options, {}), InputError);
}

}  // namespace
}  // namespace prism
