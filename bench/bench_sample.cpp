// SPDX-License-Identifier: Apache-2.0
// What does a draw cost by itself?
//
//   words/word      random_word: one word at a time, the checking reference
//   words/block     random_block: the 32 words of a block
//   draws/<level>   the sweep kernel on nodes without predecessors, pools of 1,000 values
//   rows            index rows of `hierarchical` of one block, all replicas; a row entry is one item
//
// The model behind `rows` has the sizes of a recorded 64-GPU job: 4 stages x 4 replicas, 32 microbatches, 44
// steps.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "prism/engine/draws.hpp"
#include "prism/engine/sweep_kernel.hpp"
#include "prism/model/build_step_model.hpp"
#include "prism/stats/random.hpp"
#include "tests/made_job/made_job.hpp"

namespace {

using namespace prism;

constexpr std::uint32_t kSeed = 11;

/// Random123's known answer of Philox4x32-10 for counter 0 and key 0; the words of one counter are those of
/// samples 0, 8, 16 and 24.
bool known_answer_is_right() {
  constexpr std::array<std::uint32_t, 4> kKnown = {0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U};
  for (std::uint32_t w = 0; w < 4; ++w) {
    if (random_word(0, Purpose{}, 0, 0, 8 * w) != kKnown[w]) return false;
  }
  return true;
}

/// Pearson's statistic of the top 8 bits; 255 degrees of freedom, 99.99 % limit 347.
bool looks_uniform(const std::vector<std::uint32_t>& words) {
  std::array<double, 256> counts{};
  for (const std::uint32_t word : words) ++counts[word >> 24];
  const double expected = static_cast<double>(words.size()) / 256;
  double statistic = 0;
  for (const double count : counts) statistic += (count - expected) * (count - expected) / expected;
  return statistic < 347;
}

constexpr std::uint32_t kIds = 1024;

bool words_are_right(const std::vector<std::uint32_t>& words) {
  for (std::uint32_t id = 0; id < kIds; id += 37) {
    for (std::uint32_t sample = 0; sample < 32; ++sample) {
      if (words[id * 32 + sample] != random_word(kSeed, Purpose::Duration, id, 3, sample)) return false;
    }
  }
  return known_answer_is_right() && looks_uniform(words);
}

void words(benchmark::State& state, bool by_block) {
  std::vector<std::uint32_t> made(std::size_t{kIds} * 32);
  for (auto _ : state) {
    for (std::uint32_t id = 0; id < kIds; ++id) {
      std::uint32_t* out = made.data() + std::size_t{id} * 32;
      if (by_block) {
        std::ranges::copy(random_block(kSeed, Purpose::Duration, id, 3, 0), out);
      } else {
        for (std::uint32_t s = 0; s < 32; ++s) out[s] = random_word(kSeed, Purpose::Duration, id, 3, s);
      }
    }
    benchmark::DoNotOptimize(made.data());
    benchmark::ClobberMemory();
  }
  if (!words_are_right(made)) {
    state.SkipWithError("words differ from random_word or the known answer, or are not uniform");
    return;
  }
  state.SetItemsProcessed(state.iterations() * kIds * 32);
}

void draws(benchmark::State& state, SimdLevel level) {
  constexpr std::uint32_t kPool = 1000;
  std::vector<double> pool(kPool);
  for (std::uint32_t i = 0; i < kPool; ++i) pool[i] = static_cast<double>((i * 7919U) % 100003U);
  std::vector<Instruction> program(kIds);
  for (std::uint32_t i = 0; i < kIds; ++i) {
    program[i] = {.draw_id = i, .pool_size = kPool, .out = i, .draw = Draw::Random};
  }
  // Lanes must start a cache line.
  struct alignas(64) Line {
    std::array<double, 8> values;
  };
  std::vector<Line> scratch(std::size_t{kIds} * kLanes / 8);
  std::vector<Line> step_end(kLanes / 8);
  const SweepArgs args{.begin = program.data(),
                       .end = program.data() + program.size(),
                       .pools = pool.data(),
                       .scratch = scratch.front().values.data(),
                       .step_end = step_end.front().values.data(),
                       .replica = 3,
                       .seed = kSeed,
                       .purpose = static_cast<std::uint32_t>(Purpose::Duration)};
  const SweepFunction kernel = sweep_kernel(level);
  for (auto _ : state) {
    kernel(args);
    benchmark::ClobberMemory();
  }
  for (std::uint32_t id = 0; id < kIds; ++id) {
    for (std::uint32_t s = 0; s < kLanes; ++s) {
      const std::uint64_t index =
          (std::uint64_t{random_word(kSeed, Purpose::Duration, id, 3, s)} * kPool) >> 32;
      if (scratch[(id * kLanes + s) / 8].values[s % 8] != pool[index]) {
        state.SkipWithError("a drawn value differs from pool[floor(N * u)]");
        return;
      }
    }
  }
  state.SetItemsProcessed(state.iterations() * kIds * kLanes);
}

void rows(benchmark::State& state) {
  const MadeJobSpec spec{.dp = 4,
                         .pp = 4,
                         .microbatches = 32,
                         .steps = 44,
                         .step_sd = 0.02,
                         .content_sd = 0.03,
                         .residual_sd = 0.005};
  ImportReport report;
  const auto job = std::make_shared<const RecordedJob>(align(make_job(spec).timeline, report));
  const StepModel model = build_step_model(job, LaunchDelays::Clean);
  const StepEffects effects = estimate_step_effects(model);
  const Draws drawn(model, Sampling::Hierarchical, effects);
  std::vector<NodeId> nodes;
  for (std::size_t i = 0; i < model.nodes.size(); ++i) nodes.emplace_back(i);
  const Draws::OwnUse use = drawn.own_use(nodes);
  Draws::Block block;
  std::uint32_t number = 0;
  for (auto _ : state) {
    drawn.fill_common(kSeed, number, block);
    for (std::uint32_t d = 0; d < model.replicas; ++d) drawn.fill_own(kSeed, number, d, use, block);
    benchmark::DoNotOptimize(block.rows.data());
    ++number;
  }
  const std::uint32_t last = number - 1;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    const Draws::Cell cell = drawn.cell(kSeed, last * kLanes + lane, model.replicas - 1);
    bool sound = true;
    for (std::size_t r = 0; r < drawn.row_count(); ++r)
      sound = sound && block.rows[r * kLanes + lane] == cell.rows[r];
    for (std::size_t f = 0; f < drawn.factor_count(); ++f) {
      sound = sound && block.factors[f * kLanes + lane] == cell.factors[f];
    }
    if (!sound) {
      state.SkipWithError("a row or factor differs from the single sample's");
      return;
    }
  }
  const auto entries = static_cast<std::int64_t>(drawn.row_count() * kLanes * model.replicas);
  state.SetItemsProcessed(state.iterations() * entries);
  state.SetLabel(std::to_string(drawn.row_count()) + " rows, " + std::to_string(drawn.factor_count()) +
                 " factors");
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::RegisterBenchmark("sample/words/word", words, false);
  benchmark::RegisterBenchmark("sample/words/block", words, true);
  for (const SimdLevel level : {SimdLevel::Avx512, SimdLevel::Avx2, SimdLevel::Sse4, SimdLevel::Portable}) {
    if (sweep_kernel(level) == nullptr) continue;
    benchmark::RegisterBenchmark((std::string("sample/draws/") + simd_level_name(level)).c_str(), draws,
                                 level);
  }
  benchmark::RegisterBenchmark("sample/rows", rows);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
