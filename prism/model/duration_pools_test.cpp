// SPDX-License-Identifier: Apache-2.0
#include "prism/model/duration_pools.hpp"

#include <algorithm>
#include <array>

#include <gtest/gtest.h>

#include "prism/model/build_step_model.hpp"
#include "tests/made_job/made_job.hpp"

namespace prism {
namespace {

using Values = std::vector<double>;

Values values_of(std::span<const double> pool) {
  return {pool.begin(), pool.end()};
}

/// A value that tells what it is for.
double code(std::size_t pool, std::size_t replica, std::size_t step, std::size_t member) {
  return static_cast<double>(1000 * pool + 100 * replica + 10 * step + member);
}

/// Classes of 2, 1 and 3 members over `steps` steps and 2 replicas; the second is shared by the replicas.
DurationPools coded_pools(std::size_t steps) {
  DurationPools pools;
  for (const std::uint32_t members : {2U, 1U, 3U}) {
    const std::size_t pool = pools.classes.size();
    const bool per_replica = members != 1;
    Values values;
    for (std::size_t d = 0; d < (per_replica ? 2U : 1U); ++d) {
      for (std::size_t k = 0; k < steps; ++k) {
        for (std::size_t m = 0; m < members; ++m) values.push_back(code(pool, d, k, m));
      }
    }
    pools.add({.key = "class", .members = members, .per_replica = per_replica}, values, 2);
  }
  return pools;
}

TEST(DurationPools, LayOutReplicaStepMember) {
  const DurationPools pools = coded_pools(4);
  EXPECT_EQ(pools.classes[ClassId(0)].size, 8U);
  EXPECT_EQ(pools.classes[ClassId(1)].size, 4U);
  EXPECT_EQ(pools.classes[ClassId(2)].size, 12U);
  EXPECT_EQ(pools.values_ns.size(), 16U + 4U + 24U);
  EXPECT_EQ(values_of(pools.pool(ClassId(0), 1)), (Values{100, 101, 110, 111, 120, 121, 130, 131}));
  EXPECT_EQ(values_of(pools.pool(ClassId(1), 0)), (Values{1000, 1010, 1020, 1030}));
  EXPECT_EQ(values_of(pools.pool(ClassId(1), 1)), (Values{1000, 1010, 1020, 1030})) << "shared";
  EXPECT_EQ(pools.all(ClassId(0), 2).size(), 16U);
  EXPECT_EQ(pools.all(ClassId(1), 2).size(), 4U);
  EXPECT_EQ(pools.all(ClassId(2), 2).back(), code(2, 1, 3, 2));
}

TEST(DurationPools, CategoriesHaveNames) {
  EXPECT_EQ(category_name(Category::Compute), "compute");
  EXPECT_EQ(category_name(Category::LaunchDelay), "launch delay");
}

TEST(DurationPoolsWithSteps, AllInOrderIsTheIdentity) {
  const DurationPools pools = coded_pools(4);
  EXPECT_EQ(with_steps(pools, 4, std::array<std::size_t, 4>{0, 1, 2, 3}), pools);
}

TEST(DurationPoolsWithSteps, TakesThoseSelectedInTheGivenOrderWithRepeats) {
  const DurationPools pools = coded_pools(4);
  const std::array<std::size_t, 5> selected = {3, 0, 3, 3, 1};
  const DurationPools changed = with_steps(pools, 4, selected);
  for (std::size_t c = 0; c < pools.classes.size(); ++c) {
    const DurationClass& from = pools.classes[ClassId(c)];
    const DurationClass& to = changed.classes[ClassId(c)];
    ASSERT_EQ(to.size, 5 * from.members);
    for (std::size_t d = 0; d < 2; ++d) {
      const auto pool = changed.pool(ClassId(c), d);
      for (std::size_t k = 0; k < selected.size(); ++k) {
        for (std::size_t m = 0; m < from.members; ++m) {
          EXPECT_EQ(pool[k * from.members + m], code(c, from.per_replica ? d : 0, selected[k], m));
        }
      }
    }
  }
  EXPECT_EQ(changed.values_ns.size(), pools.values_ns.size() / 4 * 5);
}

TEST(DurationPoolsWithSteps, AppliedTwiceIsTheirComposition) {
  const DurationPools pools = coded_pools(4);
  const DurationPools once = with_steps(pools, 4, std::array<std::size_t, 3>{2, 0, 3});
  EXPECT_EQ(with_steps(once, 3, std::array<std::size_t, 2>{1, 2}),
            with_steps(pools, 4, std::array<std::size_t, 2>{0, 3}));
}

StepModel made_model() {
  ImportReport report;
  const MadeJob made = make_job({.microbatches = 3, .steps = 4, .residual_sd = 0.1, .forward_delay_s = 0.01});
  return build_step_model(std::make_shared<RecordedJob>(align(made.timeline, report)), LaunchDelays::Clean,
                          report);
}

TEST(StepModelWithSteps, AllInOrderIsTheIdentity) {
  const StepModel model = made_model();
  const StepModel same = with_steps(model, std::array<std::size_t, 4>{0, 1, 2, 3});
  EXPECT_EQ(same.pools, model.pools);
  EXPECT_EQ(same.steps, model.steps);
  EXPECT_EQ(same.observed_ns, model.observed_ns);
  EXPECT_EQ(same.graph, model.graph);
  EXPECT_EQ(same.nodes, model.nodes);
  EXPECT_EQ(same.mesh, model.mesh);
  EXPECT_EQ(same.inferences, model.inferences);
  EXPECT_EQ(same.replicas, model.replicas);
  EXPECT_EQ(same.template_ranks, model.template_ranks);
  EXPECT_EQ(same.recording, model.recording);
}

TEST(StepModelWithSteps, RepeatsAreProfiledStepsOfTheirOwn) {
  const StepModel model = made_model();
  const StepModel changed = with_steps(model, std::array<std::size_t, 3>{2, 2, 0});
  EXPECT_EQ(changed.step_count(), 3U);
  EXPECT_EQ(changed.steps, (std::vector{model.steps[2], model.steps[2], model.steps[0]}));
  EXPECT_EQ(changed.observed_ns, (Values{model.observed_ns[2], model.observed_ns[2], model.observed_ns[0]}));
  EXPECT_EQ(changed.graph, model.graph);
  for (std::size_t c = 0; c < model.pools.classes.size(); ++c) {
    const std::uint32_t members = model.pools.classes[ClassId(c)].members;
    for (std::size_t d = 0; d < model.replicas; ++d) {
      const auto from = model.pools.pool(ClassId(c), d);
      const auto to = changed.pools.pool(ClassId(c), d);
      for (std::size_t m = 0; m < members; ++m) {
        EXPECT_EQ(to[m], from[2 * members + m]);
        EXPECT_EQ(to[members + m], from[2 * members + m]);
        EXPECT_EQ(to[2 * members + m], from[m]);
      }
    }
  }
}

}  // namespace
}  // namespace prism
