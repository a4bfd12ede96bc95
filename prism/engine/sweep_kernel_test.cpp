// SPDX-License-Identifier: Apache-2.0
// The kernel's parts that a step time can show: its random words and its rounding.
#include "prism/engine/sweep_kernel.hpp"

#include <cmath>
#include <numeric>
#include <string>

#include <gtest/gtest.h>

#include "prism/engine/simulate.hpp"
#include "prism/stats/random.hpp"
#include "tests/text_graph.hpp"

namespace prism {
namespace {

class EveryLevel : public ::testing::TestWithParam<SimdLevel> {
 protected:
  void SetUp() override {
    if (sweep_kernel(GetParam()) == nullptr) GTEST_SKIP() << "not on this processor";
  }
};

// A pool 0, 1, ... N-1 makes the step time the drawn index, which shows the word's upper bits. One replica at
// a time has such a pool, the others' are 0.
TEST_P(EveryLevel, WordsAreThoseOfRandomWord) {
  constexpr std::uint32_t kValues = 1U << 16;
  constexpr std::uint32_t kReplicas = 6;
  std::vector<double> indices(kValues);
  std::iota(indices.begin(), indices.end(), 0.0);
  struct Case {
    std::uint32_t seed;
    std::uint64_t id;
    ReplicaGroup share;
    std::uint32_t first;
  };
  const std::vector<Case> cases = {
      {0, 0, {1, 1}, 0},
      {1, 1, {1, 1}, 32},
      {0xFFFFFFFFU, 0xFFFFFFFFFFFFFFFFU, {1, 1}, 77},
      {0x12345678U, 0x8000000000000001U, {2, 1}, 4294967232U},
      {3, 0x00000001FFFFFFFFU, {3, 2}, 1000000007U},
      {3, 0x0123456789ABCDEFU, {kReplicas, 1}, 5},
  };
  for (const Case& c : cases) {
    for (std::uint32_t replica = 0; replica < kReplicas; replica += 5) {
      Sketch job{.replicas = kReplicas};
      std::vector<double> values(std::size_t{kValues} * kReplicas, 0.0);
      std::ranges::copy(indices, values.begin() + replica * kValues);
      Node op{.name = "op", .draw_group = c.share};
      op.duration_class = job.pools.add({.key = "op"}, values, kReplicas);
      job.add(op);
      job.ops[0].draw_id = c.id;
      const StepModel model = job.model();
      const auto times =
          Simulation(model, Sampling::Iid, {}).step_times_ns(c.seed, c.first, 60, {.threads = 1}, GetParam());
      for (std::uint32_t s = 0; s < times.size(); ++s) {
        const std::uint32_t word =
            random_word(c.seed, Purpose::Duration, c.id, c.share.index_of(replica), c.first + s);
        ASSERT_EQ(times[s], static_cast<double>(word >> 16))
            << "seed " << c.seed << ", id " << c.id << ", replica " << replica << ", sample " << c.first + s;
      }
    }
  }
}

// A 20 s chain of 100,000 ops of about 200 us with a constant gap of 1.1 us before each. In 32-bit floats of
// nanoseconds the gap alone would be rounded to 1.024 or 2.048 us, always the same way; doubles must not
// drift. Exact sum: in whole tenths of a nanosecond.
TEST_P(EveryLevel, LongChainDoesNotDrift) {
  constexpr std::size_t kOps = 100'000;
  constexpr int kKinds = 1000;
  Sketch job;
  const ClassId gap = job.pools.add({.key = "gap", .per_replica = false}, std::array{1100.1}, 1);
  std::vector<ClassId> kinds;
  std::vector<std::int64_t> tenths;
  for (int i = 0; i < kKinds; ++i) {
    tenths.push_back(2'000'000 - 500 * 7 + (i * 7919 % kKinds) * 7);
    kinds.push_back(job.pools.add({.key = "op", .per_replica = false},
                                  std::array{static_cast<double>(tenths.back()) / 10}, 1));
  }
  std::int64_t exact_tenths = 0;
  for (std::size_t i = 0; i < kOps; ++i) {
    const std::uint32_t before = job.add({.name = "gap", .duration_class = gap});
    if (i > 0) job.edges.emplace_back(before - 1, before);
    job.edges.emplace_back(before, job.add({.name = "op", .duration_class = kinds[i % kKinds]}));
    exact_tenths += 11'001 + tenths[i % kKinds];
  }
  const StepModel model = job.model();
  const Simulation simulation(model, Sampling::Iid, {});
  const double exact_ns = static_cast<double>(exact_tenths) / 10;
  EXPECT_NEAR(exact_ns, 20.11e9, 0.01e9);
  const double time = simulation.step_times_ns(1, 0, 1, {.threads = 1}, GetParam()).front();
  EXPECT_NEAR(time / exact_ns, 1, 1e-12) << "calculated " << time << " ns, expected " << exact_ns;
  EXPECT_LE(simulation.program().scratch_slots, 2U);
}

INSTANTIATE_TEST_SUITE_P(Simd, EveryLevel,
                         ::testing::Values(SimdLevel::Portable, SimdLevel::Sse4, SimdLevel::Avx2,
                                           SimdLevel::Avx512),
                         [](const auto& instance) {
                           std::string name = simd_level_name(instance.param);
                           return name.substr(name.rfind('-') + 1);
                         });

}  // namespace
}  // namespace prism
