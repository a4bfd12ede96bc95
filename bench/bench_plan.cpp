// SPDX-License-Identifier: Apache-2.0
// How fast is a plan simulated, and does the cost grow with the number of replicas?
//
//   plan/<ranks>/<law>      samples of plans/65536-h100.toml with dp changed; law: pool (1,024 values) or lognormal (exact)
//   build/<ranks>           plan to step model
//
// Times and rates are CPU time of the process, one thread; items are node-samples (every rank's ops, joins aside). Each case is
// checked: the first sample against the scalar reference where that is small enough, and p50 of both laws against each other.
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>

#include <benchmark/benchmark.h>

#include "prism/engine/reference.hpp"
#include "prism/engine/simulate.hpp"
#include "prism/plan/build_plan_model.hpp"
#include "prism/plan/read_plan.hpp"

namespace {

using namespace prism;

constexpr std::uint32_t kSeed = 1;
constexpr std::uint32_t kSamples = 32;

Plan plan_of(std::int64_t replicas, LawForm law) {
  Plan plan = read_plan(std::filesystem::path(PRISM_SOURCE_DIR) / "bench/plans/65536-h100.toml");
  plan.parallel.dp = replicas;
  for (KernelSpread& kernel : plan.variability.kernels) kernel.temporal.law = law;
  for (LinkSpread& link : plan.variability.links) {
    link.temporal.law = law;
    link.tail = {};  // tails are mixtures, which are drawn from pools
  }
  return plan;
}

void simulate(benchmark::State& state, std::int64_t replicas, LawForm law) {
  const StepModel model = build_plan_model(plan_of(replicas, law));
  const StepEffects none;
  const Simulation simulation(model, default_sampling(model), none);
  RunControl control;
  control.threads = 1;
  std::vector<double> times;
  for (auto _ : state) {
    times = simulation.step_times_ns(kSeed, 0, kSamples, control);
    benchmark::DoNotOptimize(times.data());
  }
  if (replicas == 1) {
    const Draws draws(model, default_sampling(model), none);
    if (reference_times(model, draws, kSeed, 3).step_ns != times[3])
      state.SkipWithError("not the reference's time");
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * kSamples *
                          static_cast<std::int64_t>(simulation.nodes_per_sample()));
  state.counters["nodes"] = static_cast<double>(simulation.nodes_per_sample());
}

void build(benchmark::State& state, std::int64_t replicas) {
  const Plan plan = plan_of(replicas, LawForm::Lognormal);
  std::size_t nodes = 0;
  for (auto _ : state) nodes = build_plan_model(plan).graph.size();
  if (nodes < 200'000) state.SkipWithError("the graph is too small");
}

}  // namespace

int main(int argc, char** argv) {
  for (const std::int64_t replicas : {1, 4, 16, 64, 256, 512}) {
    const std::string ranks = std::to_string(replicas * 128) + "ranks";
    for (const auto& [name, law] :
         {std::pair("pool", LawForm::Normal), std::pair("lognormal", LawForm::Lognormal)}) {
      benchmark::RegisterBenchmark(
          ("plan/" + ranks + "/" + name).c_str(),
          [replicas = replicas, law = law](benchmark::State& state) { simulate(state, replicas, law); })
          ->Unit(benchmark::kMillisecond)
          ->MeasureProcessCPUTime();
    }
  }
  for (const std::int64_t replicas : {1, 512}) {
    benchmark::RegisterBenchmark(("build/" + std::to_string(replicas * 128) + "ranks").c_str(),
                                 [replicas](benchmark::State& state) { build(state, replicas); })
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
