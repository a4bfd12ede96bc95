// SPDX-License-Identifier: Apache-2.0
// How fast is a step graph swept: nanoseconds per node and sample, by graph layout, kind of draw and
// instruction set?
//
//   propagate/<ranks and layout>/<draws>/<level>/<threads>
//
//   64ranks      one replica: 63,233 nodes
//   1024ranks    16 copies of a template of 63,425 nodes: 1.01 M nodes
//   explicit     the same job as one template of 1,012,865 nodes
//   pools352     as 1024ranks, compute pools of each tensor-parallel rank apart: more cold pools
//
//   none         the sweep alone: joins, but for the first node
//   constant     pools of one value: random words are made, the gather always hits
//   random       exact empirical pools of 1,000 values, each node an independent draw
//   table        1,000 profiled steps, `hierarchical` without step effects: index rows, no words per node
//   scaled       as table, with step effects: a factor on compute
//
// Times and rates are CPU time of the process, so items_per_second is per core also with two threads;
// wall_per_second is by the clock on the wall.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "bench/pipeline_graph.hpp"
#include "prism/engine/reference.hpp"
#include "prism/engine/simulate.hpp"
#include "prism/stats/distance.hpp"

namespace {

using namespace prism;
using bench::Durations;
using bench::PipelineGraphSpec;

constexpr std::uint32_t kSeed = 1;
constexpr std::uint32_t kSamples = 128;                                   // 4 blocks
constexpr std::array<std::uint32_t, 3> kChecked = {0, 45, kSamples - 1};  // first, inside, last

enum class DrawKind { None, Constant, Random, Table, Scaled };

struct Layout {
  const char* name;
  PipelineGraphSpec spec;
};

struct Fixture {
  PipelineGraphSpec spec;
  DrawKind draws = DrawKind::None;
  StepModel model;
  std::unique_ptr<Simulation> simulation;
  std::vector<double> expected;  ///< step times of kChecked by the scalar reference
  std::string wrong;             ///< what the fixture's own checks found
};

PipelineGraphSpec with_draws(PipelineGraphSpec spec, DrawKind draws) {
  switch (draws) {
    case DrawKind::None:
      spec.durations = Durations::FirstOnly;
      break;
    case DrawKind::Constant:
      spec.pool_values = 1;
      break;
    case DrawKind::Random:
      break;
    case DrawKind::Table:
    case DrawKind::Scaled:
      spec.durations = Durations::Profiled;
      break;
  }
  return spec;
}

Sampling sampling_of(DrawKind draws) {
  return draws == DrawKind::Table || draws == DrawKind::Scaled ? Sampling::Hierarchical : Sampling::Iid;
}

StepEffects effects_of(const StepModel& model, DrawKind draws) {
  if (draws == DrawKind::Scaled) return bench::made_step_effects(model);
  return {.effect = IdVector<ClassId, std::vector<double>>(model.pools.classes.size())};
}

std::string size_error(const Fixture& f) {
  const bench::GraphSize size = bench::expected_size(f.spec);
  std::uint64_t nodes = 0;
  std::uint64_t edges = 0;
  for (std::size_t i = 0; i < f.model.nodes.size(); ++i) {
    const bool once = f.model.graph.replica_group(NodeId(i)).spans() || i + 1 == f.model.nodes.size();
    const std::uint64_t before = f.model.graph.predecessors(NodeId(i)).size();
    nodes += once ? 1 : f.model.replicas;
    edges += i + 1 == f.model.nodes.size() ? before : before * f.model.replicas;
  }
  return nodes == size.nodes && edges == size.edges ? ""
                                                    : "the graph has not the nodes and edges it should have";
}

/// The fixture of a case; only the last one is kept, since the largest holds hundreds of MB.
const Fixture& fixture(const PipelineGraphSpec& base, DrawKind draws) {
  static std::unique_ptr<Fixture> last;
  const PipelineGraphSpec spec = with_draws(base, draws);
  if (last && last->spec == spec && last->draws == draws) return *last;
  last.reset();
  auto made = std::make_unique<Fixture>();
  made->spec = spec;
  made->draws = draws;
  made->model = bench::pipeline_model(spec);
  made->simulation =
      std::make_unique<Simulation>(made->model, sampling_of(draws), effects_of(made->model, draws));
  made->wrong = size_error(*made);
  const StepEffects effects = effects_of(made->model, draws);
  const Draws reference(made->model, sampling_of(draws), effects);
  for (const std::uint32_t sample : kChecked) {
    made->expected.push_back(reference_times(made->model, reference, kSeed, sample).step_ns);
  }
  last = std::move(made);
  return *last;
}

/// Step times of the copied and the explicit layout must agree: exactly with constant durations, in law (to
/// the 99.9 % limit of the two-sample distance) where both draw. `none` has one draw per replica in one
/// layout and one per job in the other, and table draws follow the replicas, so these do not compare.
std::string compare_layouts(const std::string& key, DrawKind draws, std::vector<double> times) {
  static std::map<std::string, std::vector<double>> seen;
  if (draws != DrawKind::Constant && draws != DrawKind::Random) return "";
  std::ranges::sort(times);
  const std::vector<double>& first = seen.emplace(key, times).first->second;
  if (draws == DrawKind::Constant) return first == times ? "" : "copies and explicit replicas differ";
  const double limit = 1.95 * std::sqrt(2.0 / kSamples);
  return ks_two_sample(first, times) <= limit ? "" : "copies and explicit replicas differ in law";
}

void propagate(benchmark::State& state, const Layout& layout, DrawKind draws, SimdLevel level,
               unsigned threads) {
  const Fixture& f = fixture(layout.spec, draws);
  const RunControl control{.threads = threads};
  std::vector<double> times;
  const auto begin = std::chrono::steady_clock::now();
  for (auto _ : state) {
    times = f.simulation->step_times_ns(kSeed, 0, kSamples, control, level);
    benchmark::DoNotOptimize(times.data());
  }
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();

  std::string wrong = f.wrong;
  for (std::size_t i = 0; i < kChecked.size(); ++i) {
    if (times[kChecked[i]] != f.expected[i]) wrong = "a step time differs from the scalar reference";
  }
  if (wrong.empty() && layout.spec.dp > 1 && !layout.spec.pools_per_rank) {
    wrong = compare_layouts(draws == DrawKind::Constant ? "constant" : "random", draws, times);
  }
  if (!wrong.empty()) {
    state.SkipWithError(wrong.c_str());
    return;
  }
  const double items = static_cast<double>(f.model.nodes.size()) * f.model.replicas * kSamples;
  const double done = items * static_cast<double>(state.iterations());
  state.SetItemsProcessed(static_cast<std::int64_t>(done));
  using benchmark::Counter;
  state.counters["s_per_node_sample"] = Counter(done, Counter::kIsRate | Counter::kInvert);
  state.counters["wall_per_second"] = Counter(done / wall);
}

/// The effective clock: each addition waits for the one before, so a cycle is one item. It adds a register,
/// because recent cores fold additions of a constant before they run them.
void clock_rate(benchmark::State& state) {
  constexpr int kRounds = 1'000'000;
  std::uint64_t sum = 0;
  std::uint64_t one = 1;
  asm volatile("" : "+r"(one));
  for (auto _ : state) {
    for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 16
      for (int j = 0; j < 16; ++j) {
        sum += one;
        asm volatile("" : "+r"(sum));
      }
    }
  }
  const std::int64_t additions = state.iterations() * kRounds * 16;
  if (sum != static_cast<std::uint64_t>(additions)) {
    state.SkipWithError("the additions were not all done");
    return;
  }
  state.SetItemsProcessed(additions);
}

void register_all() {
  static const std::vector<Layout> layouts = {
      {"64ranks", {.dp = 1}},
      {"1024ranks", {}},
      {"explicit", {.explicit_replicas = true}},
      {"pools352", {.pools_per_rank = true}},
  };
  static const std::vector<std::pair<const char*, DrawKind>> kinds = {{"none", DrawKind::None},
                                                                      {"constant", DrawKind::Constant},
                                                                      {"random", DrawKind::Random},
                                                                      {"table", DrawKind::Table},
                                                                      {"scaled", DrawKind::Scaled}};
  benchmark::RegisterBenchmark("clock", clock_rate);
  for (const Layout& layout : layouts) {
    for (const auto& [kind, draws] : kinds) {
      if (layout.spec.pools_per_rank && draws != DrawKind::Random) continue;
      for (const SimdLevel level :
           {SimdLevel::Avx512, SimdLevel::Avx2, SimdLevel::Sse4, SimdLevel::Portable}) {
        if (sweep_kernel(level) == nullptr) continue;
        for (const unsigned threads : {1U, 2U}) {
          if (threads > 1 && level != best_simd_level()) continue;
          const std::string name = std::string("propagate/") + layout.name + "/" + kind + "/" +
                                   simd_level_name(level) + "/" + std::to_string(threads) +
                                   (threads == 1 ? "thread" : "threads");
          benchmark::RegisterBenchmark(name.c_str(), propagate, layout, draws, level, threads)
              ->MeasureProcessCPUTime()
              ->Unit(benchmark::kMillisecond);
        }
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
