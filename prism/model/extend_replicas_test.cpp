// SPDX-License-Identifier: Apache-2.0
#include "prism/model/extend_replicas.hpp"

#include <array>
#include <cmath>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prism/io/test_dir.hpp"
#include "prism/model/build_step_model.hpp"
#include "prism/stats/quantiles.hpp"
#include "prism/stats/random.hpp"
#include "prism/trace/error.hpp"
#include "tests/made_job/made_job.hpp"
#include "tests/text_graph.hpp"

namespace prism {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint32_t kSteps = 8;

ClassId add_class(Sketch& job, Category category, std::int32_t rank, double ns) {
  std::vector<double> values;
  for (std::uint32_t k = 0; k < kSteps; ++k) values.push_back(ns + k);
  return job.pools.add({.key = std::string(category_name(category)), .category = category, .rank = rank},
                       values, job.replicas);
}

/// One traced rank of a job of 16: what it waits for the others in a reduction is recorded.
//
//   compute -> meet [join] -> wait -> transfer -> check
StepModel one_of_16() {
  Sketch job{.steps = kSteps};
  job.add({.name = "compute", .duration_class = add_class(job, Category::Compute, 0, 1e6)});
  job.add({.kind = NodeKind::Join, .name = "meet", .over_replicas = true});
  job.add(
      {.name = "wait", .over_replicas = true, .duration_class = add_class(job, Category::Waiting, 0, 5e5)});
  job.add({.name = "transfer",
           .over_replicas = true,
           .duration_class = add_class(job, Category::Collective, 0, 2e5)});
  job.add({.name = "check", .duration_class = add_class(job, Category::HostWork, 0, 1e3)});
  job.edges = {{0, 1}, {1, 2}, {2, 3}, {3, 4}};
  StepModel model = job.model();
  model.world_ranks = 16;
  return model;
}

StepModel made_model(int dp, double rank_sd, int steps = 16) {
  ImportReport report;
  return build_step_model(std::make_shared<RecordedJob>(align(make_job({.dp = dp,
                                                                        .pp = 2,
                                                                        .microbatches = 4,
                                                                        .loss_barrier = true,
                                                                        .steps = steps,
                                                                        .step_sd = 0.02,
                                                                        .rank_sd = rank_sd,
                                                                        .residual_sd = 0.005,
                                                                        .forward_delay_s = 0.01})
                                                                  .timeline,
                                                              report)),
                          LaunchDelays::Clean, report);
}

std::vector<std::string> reasons(const StepModel& model) {
  std::vector<std::string> list;
  for (const ImportEntry& entry : model.report.entries()) list.push_back(entry.reason);
  return list;
}

TEST(ExtendReplicas, AsManyAsTracedChangesNothing) {
  const StepModel model = made_model(4, 0.02);
  const StepModel same = extend_replicas(model, {.replicas = 4});
  EXPECT_EQ(same.graph, model.graph);
  EXPECT_EQ(same.nodes, model.nodes);
  EXPECT_EQ(same.pools, model.pools);
  EXPECT_THAT(same.rank_factors, IsEmpty());
  EXPECT_EQ(same.traced_replicas, 0U);
  EXPECT_EQ(same.report.entries().size(), model.report.entries().size());
  EXPECT_THAT(extension_warnings(same), IsEmpty());
  EXPECT_EQ(extend_replicas(one_of_16(), {}).nodes, one_of_16().nodes) << "recorded waiting stays";
}

TEST(ExtendReplicas, OneTracedRankMeetsItsCopiesOnceInsteadOfWaitingAsRecorded) {
  const StepModel model = extend_replicas(one_of_16(), {.replicas = 16});
  EXPECT_EQ(model.replicas, 16U);
  EXPECT_EQ(model.traced_replicas, 1U);
  const auto group = [&](const char* name) { return model.graph.replica_group(node_of(model, name)); };
  EXPECT_EQ(group("meet"), (ReplicaGroup{16, 1}));
  for (const char* name : {"compute", "wait", "transfer", "check"})
    EXPECT_EQ(group(name), ReplicaGroup{}) << name;
  EXPECT_EQ(model.nodes[node_of(model, "wait")].kind, NodeKind::Join);
  EXPECT_EQ(model.nodes[node_of(model, "transfer")].kind, NodeKind::Op);
  EXPECT_EQ(model.nodes[node_of(model, "transfer")].draw_group, (ReplicaGroup{16, 1}));
  EXPECT_EQ(model.nodes[node_of(model, "check")].draw_group, ReplicaGroup{});
  EXPECT_EQ(model.pools, one_of_16().pools) << "copies share the pools";
  EXPECT_THAT(model.rank_factors, IsEmpty());
  EXPECT_THAT(reasons(model),
              ElementsAre("1 of 16 ranks traced: the other 15 are copies that draw their own profiled steps",
                          "wait for ranks that were not traced: now comes out of the simulation"));
  EXPECT_THAT(extension_warnings(model),
              ElementsAre(HasSubstr("each traced replica stands for 16 of them: far more"),
                          "spread between ranks unknown: one rank traced; give --spatial-cv",
                          HasSubstr("copies draw independently")));
}

// A transfer without a join before it, and a second one that follows compute, meet by themselves.
TEST(ExtendReplicas, CommunicationWithoutAJoinMeetsItself) {
  Sketch job{.steps = kSteps};
  job.add({.name = "compute", .duration_class = add_class(job, Category::Compute, 0, 1e6)});
  for (const char* name : {"first", "second"}) {
    job.add({.name = name,
             .over_replicas = true,
             .duration_class = add_class(job, Category::Collective, 0, 1e5)});
  }
  job.add({.name = "third",
           .over_replicas = true,
           .duration_class = add_class(job, Category::Collective, 0, 1e5)});
  job.edges = {{0, 1}, {1, 2}, {2, 3}, {0, 3}};
  const StepModel model = extend_replicas(job.model(), {.replicas = 4});
  EXPECT_TRUE(model.graph.replica_group(node_of(model, "first")).spans());
  EXPECT_FALSE(model.graph.replica_group(node_of(model, "second")).spans()) << "all finish the first at once";
  EXPECT_TRUE(model.graph.replica_group(node_of(model, "third")).spans());
}

TEST(ExtendReplicas, OpLevelGroupsOfAllReplicasGrow) {
  const StepModel traced = made_model(2, 0.02);
  const StepModel model = extend_replicas(traced, {.replicas = 6});
  std::size_t grown = 0;
  for (std::size_t i = 0; i < traced.nodes.size(); ++i) {
    const bool spans = traced.graph.replica_group(NodeId(i)).spans();
    EXPECT_EQ(model.graph.replica_group(NodeId(i)), (spans ? ReplicaGroup{6, 1} : ReplicaGroup{}));
    const bool shares = traced.nodes[NodeId(i)].draw_group.spans();
    EXPECT_EQ(model.nodes[NodeId(i)].draw_group, (shares || spans ? ReplicaGroup{6, 1} : ReplicaGroup{}));
    grown += spans;
  }
  EXPECT_GT(grown, 3U);
  EXPECT_EQ(model.mesh.size(Axis::Dp), 6);
  EXPECT_EQ(model.pools, traced.pools);
}

TEST(ExtendReplicas, FewerThanTracedAreTheFirst) {
  const StepModel model = extend_replicas(made_model(4, 0.02), {.replicas = 2});
  EXPECT_EQ(model.replicas, 2U);
  EXPECT_EQ(model.traced_replicas, 4U);
  EXPECT_THAT(reasons(model), ::testing::Contains("the first 2 of 4 replicas are used"));
  EXPECT_THAT(extension_warnings(model), IsEmpty());
}

TEST(ExtendReplicas, ShardGroupsStayAndMustDivide) {
  StepModel model = sketch("compute=5 -> shard*2/2 -> all=1", 4).model();
  model.nodes[node_of(model, "all")].over_replicas = true;
  const StepModel eight = extend_replicas(model, {.replicas = 8});
  EXPECT_EQ(eight.graph.replica_group(node_of(eight, "shard")), (ReplicaGroup{2, 2}));
  try {
    (void)extend_replicas(model, {.replicas = 6});
    FAIL() << "6 replicas do not make groups of 2, 2 apart";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), ::testing::AllOf(HasSubstr("6 replicas cannot be made"), HasSubstr("'shard'"),
                                               HasSubstr("give a multiple of 4")));
  }
}

// --- speeds
// ---------------------------------------------------------------------------------------------------------

// 4,000 factors: the mean's standard error is 0.16 % of CV 10 %, that of the CV 1.2 % of it (5 errors each).
TEST(RankSpeeds, AsGivenAreLognormalOfMeanOne) {
  const StepModel model = extend_replicas(one_of_16(), {.replicas = 4001, .spatial_cv = 0.1, .seed = 5});
  ASSERT_EQ(model.rank_factors.size(), 4001U);
  EXPECT_EQ(model.rank_factors[0], 1) << "the traced rank's values already hold its speed";
  const std::vector<double> copies(model.rank_factors.begin() + 1, model.rank_factors.end());
  const Moments m = moments(copies);
  EXPECT_NEAR(m.mean, 1, 0.008);
  EXPECT_NEAR(m.cv, 0.1, 0.006);
  std::vector<double> logs;
  for (const double factor : copies) logs.push_back(std::log(factor));
  // Of a normal law: the median is the mean, and 84.1 % lie below one standard deviation above it.
  EXPECT_NEAR(quantile(logs, 0.5), -std::log(1.01) / 2, 0.01);
  EXPECT_NEAR(quantile(logs, 0.8413), -std::log(1.01) / 2 + std::sqrt(std::log(1.01)), 0.012);
  EXPECT_THAT(reasons(model), ::testing::Contains("compute of copied ranks differs by 10 %, as given"));
}

TEST(RankSpeeds, AreAFunctionOfSeedReplicaAndRank) {
  const ExtendOptions options{.replicas = 40, .spatial_cv = 0.05, .seed = 7};
  const auto factors = extend_replicas(one_of_16(), options).rank_factors;
  EXPECT_EQ(extend_replicas(one_of_16(), options).rank_factors, factors);
  ExtendOptions more = options;
  more.replicas = 50;
  auto longer = extend_replicas(one_of_16(), more).rank_factors;
  longer.resize(40);
  EXPECT_EQ(longer, factors) << "a larger job keeps the speeds of its first ranks";
  ExtendOptions other = options;
  other.seed = 8;
  EXPECT_NE(extend_replicas(one_of_16(), other).rank_factors, factors);
}

/// One rank per replica whose compute is exactly `speed` times 1 ms in all steps.
StepModel of_speeds(std::span<const double> speeds) {
  Sketch job{.replicas = static_cast<std::uint32_t>(speeds.size()), .steps = kSteps};
  std::vector<double> values;
  for (const double speed : speeds) values.insert(values.end(), kSteps, 1e6 * speed);
  job.add({.name = "compute", .duration_class = job.pools.add({.key = "compute"}, values, job.replicas)});
  return job.model();
}

// Their own speed times the factor is what the copies' compute is made of: its spread is that of the traced
// ranks, log sd 0.02 here, not sqrt(2) times it. 2,000 copies: 5 standard errors of the CV are 8 % of it.
TEST(RankSpeeds, MeasuredSpreadIsNotCountedTwice) {
  constexpr std::array<double, 4> kLogs = {0.01, -0.03, 0.02, 0};
  const double mean = 0;
  double variance = 0;
  std::array<double, 4> speeds{};
  double mean_speed = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    variance += (kLogs[i] - mean) * (kLogs[i] - mean) / 3;
    speeds[i] = std::exp(kLogs[i]);
    mean_speed += speeds[i] / 4;
  }
  const StepModel model = extend_replicas(of_speeds(speeds), {.replicas = 2004});
  std::vector<double> compute;
  for (std::size_t d = 4; d < 2004; ++d) compute.push_back(speeds[d % 4] * model.rank_factors[d]);
  const Moments m = moments(compute);
  EXPECT_NEAR(m.cv, std::sqrt(std::exp(variance) - 1), 0.08 * m.cv);
  EXPECT_NEAR(m.mean, mean_speed, 5 * m.sd / std::sqrt(2000.0));
  for (std::size_t d = 0; d < 4; ++d) EXPECT_EQ(model.rank_factors[d], 1);
  EXPECT_THAT(
      reasons(model),
      ::testing::Contains("compute of copied ranks differs by 2.2 %, as measured between traced ranks"));
}

TEST(RankSpeeds, MeasureNeedsFourEquals) {
  const StepModel three = extend_replicas(of_speeds(std::array{1.0, 1.1, 0.9}), {.replicas = 6});
  EXPECT_THAT(three.rank_factors, IsEmpty());
  EXPECT_THAT(extension_warnings(three),
              ElementsAre("spread between ranks unknown: 3 ranks traced; give --spatial-cv"));
  const StepModel four = extend_replicas(of_speeds(std::array{1.0, 1.1, 0.9, 1.0}), {.replicas = 8});
  EXPECT_EQ(four.rank_factors.size(), 8U);
  EXPECT_THAT(extension_warnings(four), IsEmpty());
}

// Ranks of different work are no equals: a stage that does twice the work is not slow.
TEST(RankSpeeds, StagesAreNotComparedWithEachOther) {
  Sketch job{.replicas = 4, .steps = kSteps};
  for (std::int32_t stage = 0; stage < 2; ++stage) {
    const std::vector<double> values(4 * kSteps, 1e6 * (stage + 1));
    job.add({.name = "compute of stage " + std::to_string(stage),
             .rank = stage,
             .stage = stage,
             .duration_class = job.pools.add({.key = "compute", .rank = stage}, values, 4)});
  }
  StepModel model = job.model();
  model.template_ranks = 2;
  EXPECT_EQ(extend_replicas(model, {.replicas = 8}).rank_factors, std::vector<double>(16, 1.0));
}

// A made-up job of 8 replicas x 2 stages whose ranks differ by 4 %. The copies' factors are over speeds that
// differ as much, so theirs differ by sqrt(2) times that; 14 degrees of freedom know it to 20 % or so.
TEST(RankSpeeds, SpreadOfAMadeJobIsFound) {
  const StepModel model = extend_replicas(made_model(8, 0.04), {.replicas = 3000});
  const Moments m = moments(std::span(model.rank_factors).subspan(16));
  EXPECT_NEAR(m.cv, 0.04 * std::sqrt(2.0), 0.02);
}

// --- the whole job
// -----------------------------------------------------------------------------------------------

TEST(WholeJob, IsKnownFromTheRanksOfTheTrace) {
  StepModel model = one_of_16();
  EXPECT_EQ(replicas_of_whole_job(model), 16U);
  model.template_ranks = 4;
  EXPECT_EQ(replicas_of_whole_job(model), 4U);
  model.template_ranks = 3;
  EXPECT_FALSE(replicas_of_whole_job(model)) << "16 ranks are no multiple of 3";
  model.template_ranks = 16;
  EXPECT_FALSE(replicas_of_whole_job(model));
  model.template_ranks = 1;
  model.world_ranks = 0;
  EXPECT_FALSE(replicas_of_whole_job(model));
  model = one_of_16();
  model.nodes[node_of(model, "wait")].over_replicas = false;
  EXPECT_FALSE(replicas_of_whole_job(model)) << "waits for ranks that no copy would stand for";
}

TEST(WholeJob, PartOfItIsSaid) {
  const StepModel model = extend_replicas(one_of_16(), {.replicas = 2, .spatial_cv = 0.02});
  EXPECT_THAT(extension_warnings(model),
              ElementsAre(HasSubstr("copies draw independently"),
                          "the job has 16 ranks, this model 2: waiting for the others is left out"));
}

}  // namespace
}  // namespace prism
