// SPDX-License-Identifier: Apache-2.0
// How long does a forecast take end to end, from the model of a recorded job? Samples per second.
//
//   forecast/<samples>/plain       the samples and their summary
//   forecast/<samples>/intervals   and the bootstrap over profiled steps: 200 models of 256 samples each
//
// The job has the sizes of a recorded 64-GPU job: 4 stages x 4 replicas (tensor-parallel 4), 32
// microbatches, 44 steps.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "prism/analysis/forecast.hpp"
#include "prism/engine/reference.hpp"
#include "prism/model/build_step_model.hpp"
#include "prism/stats/quantiles.hpp"
#include "tests/made_job/made_job.hpp"

namespace {

using namespace prism;

struct Input {
  StepModel model;
  double true_mean_ns = 0;
  double true_sd_ns = 0;
  std::array<double, 3> first_samples_ns{};  ///< by the scalar reference
};

const Input& input() {
  static const std::unique_ptr<const Input> made = [] {
    auto in = std::make_unique<Input>();
    const MadeJob job = make_job({.dp = 4,
                                  .pp = 4,
                                  .tp = 4,
                                  .microbatches = 32,
                                  .steps = 44,
                                  .last_stage_factor = 1.1,
                                  .step_sd = 0.015,
                                  .rank_sd = 0.01,
                                  .content_sd = 0.04,
                                  .residual_sd = 0.005,
                                  .transfer_jitter_s = 15e-6,
                                  .forward_delay_s = 0.01,
                                  .reduce_delay_s = 0.008});
    const Moments truth = moments(job.step_times_s);
    in->true_mean_ns = truth.mean * 1e9;
    in->true_sd_ns = truth.sd * 1e9;
    ImportReport report;
    in->model = build_step_model(std::make_shared<const RecordedJob>(align(job.timeline, report)),
                                 LaunchDelays::Clean);
    const StepEffects effects = estimate_step_effects(in->model);
    const Draws draws(in->model, Sampling::Hierarchical, effects);
    for (std::uint32_t sample = 0; sample < in->first_samples_ns.size(); ++sample) {
      in->first_samples_ns[sample] = reference_times(in->model, draws, 1, sample).step_ns;
    }
    return in;
  }();
  return *made;
}

std::string check(const ForecastResult& result, const Input& in, const ForecastOptions& options) {
  if (result.samples_ns.size() != options.samples) return "not as many samples as asked for";
  for (std::size_t i = 0; i < in.first_samples_ns.size(); ++i) {
    if (result.samples_ns[i] != in.first_samples_ns[i]) return "a sample differs from the scalar reference";
  }
  const double mean = moments(result.samples_ns).mean;
  if (std::abs(result.summary.moments_ns.mean / mean - 1) > 1e-12)
    return "the mean is not that of the samples";
  // The truth is one run of 44 steps; few samples of the forecast add their own noise.
  const double error =
      in.true_sd_ns * (1 / std::sqrt(44.0) + 1 / std::sqrt(static_cast<double>(options.samples)));
  if (std::abs(mean - in.true_mean_ns) > 4 * error + 0.005 * in.true_mean_ns)
    return "the mean is not that of the made job";
  for (std::size_t q = 0; q < result.input_intervals.size(); ++q) {
    const InputInterval& interval = result.input_intervals[q];
    if (!(interval.low_ns <= interval.high_ns && interval.low_ns > 0.5 * mean &&
          interval.high_ns < 2 * mean)) {
      return "an input interval cannot be right";
    }
  }
  if (result.input_intervals.size() != (options.input_intervals ? kReportedQuantiles.size() : 0)) {
    return "input intervals are missing, or there without being asked for";
  }
  return "";
}

void run_forecast(benchmark::State& state, std::uint32_t samples, bool intervals, unsigned threads) {
  const Input& in = input();
  const ForecastOptions options{.samples = samples, .input_intervals = intervals};
  const RunControl control{.threads = threads};
  ForecastResult result;
  for (auto _ : state) result = forecast(in.model, options, control);
  const std::string wrong = check(result, in, options);
  if (!wrong.empty()) {
    state.SkipWithError(wrong.c_str());
    return;
  }
  state.SetItemsProcessed(state.iterations() * samples);
  state.SetLabel(std::to_string(result.nodes_per_sample) + " nodes per sample");
}

}  // namespace

int main(int argc, char** argv) {
  for (const std::uint32_t samples : {10U, 1000U}) {
    for (const bool intervals : {false, true}) {
      if (samples == 10 && intervals) continue;  // the smoke test
      for (const unsigned threads : {1U, 2U}) {
        if (samples == 10 && threads == 2) continue;
        const std::string name = "forecast/" + std::to_string(samples) + "samples/" +
                                 (intervals ? "intervals/" : "plain/") + std::to_string(threads) +
                                 (threads == 1 ? "thread" : "threads");
        benchmark::RegisterBenchmark(name.c_str(), run_forecast, samples, intervals, threads)
            ->MeasureProcessCPUTime()
            ->UseRealTime()
            ->Unit(benchmark::kMillisecond);
      }
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
