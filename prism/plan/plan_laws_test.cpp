// SPDX-License-Identifier: Apache-2.0
#include "prism/plan/plan_laws.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

namespace prism {
namespace {

Variability usual() {
  Variability v;
  v.kernels[static_cast<std::size_t>(KernelClass::Gemm)] = {{LawForm::Lognormal, 0.04, {}},
                                                            {LawForm::Lognormal, 0.02, {}}};
  v.kernels[static_cast<std::size_t>(KernelClass::Memory)] = {{LawForm::Lognormal, 0.01, {}},
                                                              {LawForm::Lognormal, 0.01, {}}};
  return v;
}

TEST(PlanLaws, KernelsOfAnOpVaryApartAndWithTheirGpu) {
  const Variability v = usual();
  StepModel model;
  PlanLaws laws(v, model);
  const KernelTime kernels[] = {
      {KernelClass::Gemm, 300}, {KernelClass::Gemm, 300}, {KernelClass::Memory, 400}};
  const DurationClass& c = model.pools.classes[laws.compute("op", Category::Compute, kernels, true)];
  const double own = std::sqrt(2 * 12.0 * 12.0 + 4.0 * 4.0) / 1000;
  EXPECT_EQ(c.own, OwnDraw::Lognormal);
  EXPECT_NEAR(c.sigma, std::sqrt(std::log1p(own * own)), 1e-5);
  ASSERT_EQ(c.factors.size(), 1U);
  EXPECT_EQ(model.factors[c.factors[0]].scope, FactorScope::Rank);
  EXPECT_NEAR(model.factors[c.factors[0]].law.sd(), (600 * 0.02 + 400 * 0.01) / 1000, 1e-5);
  EXPECT_NEAR(model.factors[c.factors[0]].law.mean(), 1, 1e-9);
  EXPECT_EQ(laws.compute("op", Category::Compute, kernels, true),
            laws.compute("op", Category::Compute, kernels, true));
}

TEST(PlanLaws, FactorsOfOneGpuFollowOneRandomNumber) {
  const Variability v = usual();
  StepModel model;
  PlanLaws laws(v, model);
  const KernelTime gemm[] = {{KernelClass::Gemm, 1}};
  const KernelTime memory[] = {{KernelClass::Memory, 1}};
  const DurationClass a = model.pools.classes[laws.compute("a", Category::Compute, gemm, true)];
  const DurationClass b = model.pools.classes[laws.compute("b", Category::Compute, memory, true)];
  EXPECT_NE(a.factors[0], b.factors[0]);
  EXPECT_EQ(model.factors[a.factors[0]].draw_id, model.factors[b.factors[0]].draw_id);
}

TEST(PlanLaws, RareTailsAreInThePoolAsOftenAsTheyShould) {
  for (const double probability : {0.05, 1e-3, 1.5e-4}) {
    Variability v;
    v.links[static_cast<std::size_t>(LinkClass::Network)] = {
        {LawForm::Lognormal, 0.02, {}}, {probability, 10, 0.2}, {}, {}};
    StepModel model;
    PlanLaws laws(v, model);
    const ClassId id = laws.communication("message", Category::Collective, LinkClass::Network);
    const auto pool = model.pools.pool(id, 0);
    const auto late = static_cast<double>(std::ranges::count_if(pool, [](double x) { return x > 3; }));
    EXPECT_NEAR(late / static_cast<double>(pool.size()), probability, 0.2 * probability);
    const double mean = std::accumulate(pool.begin(), pool.end(), 0.0) / static_cast<double>(pool.size());
    EXPECT_NEAR(mean, 1 + 9 * probability, 0.3 * 9 * probability + 1e-3);
  }
}

TEST(PlanLaws, EqualPoolsAreHeldOnce) {
  Variability v;
  v.links[1] = {{LawForm::Normal, 0.05, {}}, {}, {}, {}};
  StepModel model;
  PlanLaws laws(v, model);
  const ClassId a = laws.communication("a", Category::Collective, LinkClass::ScaleUp);
  const ClassId b = laws.communication("b", Category::Collective, LinkClass::ScaleUp);
  EXPECT_EQ(model.pools.classes[a].offset, model.pools.classes[b].offset);
  EXPECT_EQ(model.pools.values_ns.size(), model.pools.classes[a].size);
}

TEST(PlanLaws, NothingVariesWhereNothingIsSaid) {
  const Variability v;
  StepModel model;
  PlanLaws laws(v, model);
  const KernelTime gemm[] = {{KernelClass::Gemm, 1}};
  EXPECT_EQ(model.pools.classes[laws.compute("a", Category::Compute, gemm, true)].own, OwnDraw::Constant);
  EXPECT_EQ(model.pools.classes[laws.communication("b", Category::Collective, LinkClass::Far)].own,
            OwnDraw::Constant);
  EXPECT_TRUE(model.factors.empty());
}

}  // namespace
}  // namespace prism
