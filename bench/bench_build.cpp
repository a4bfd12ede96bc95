// SPDX-License-Identifier: Apache-2.0
// How fast is a recorded job turned into a step model? Nodes of the whole job (template nodes x replicas) per
// second.
//
//   align   records -> recorded job
//   model   recorded job -> step model: dependencies, waits split from work, pools
//
// 64ranks: 4 stages x 4 replicas, tensor-parallel 4, 44 steps of 32 microbatches, the sizes of a
// recorded 64-GPU job. 1024ranks: 8 stages x 16 replicas, tensor-parallel 8, 24 steps. One worker per
// tensor-parallel group is recorded.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include <benchmark/benchmark.h>

#include "prism/analysis/replay.hpp"
#include "prism/model/build_step_model.hpp"
#include "prism/model/recorded_job.hpp"
#include "tests/made_job/made_job.hpp"

namespace {

using namespace prism;

struct Input {
  MadeJobSpec spec;
  OpTimeline timeline;
  std::shared_ptr<const RecordedJob> job;
};

const Input& input(bool large) {
  static std::map<bool, Input> inputs;
  const auto [found, is_new] = inputs.try_emplace(large);
  Input& in = found->second;
  if (!is_new) return in;
  in.spec = {.dp = large ? 16 : 4,
             .pp = large ? 8 : 4,
             .tp = large ? 8 : 4,
             .microbatches = 32,
             .steps = large ? 24 : 44,
             .step_sd = 0.01,
             .content_sd = 0.03,
             .residual_sd = 0.005,
             .transfer_jitter_s = 15e-6,
             .forward_delay_s = 0.01,
             .reduce_delay_s = 0.008};
  in.timeline = make_job(in.spec).timeline;
  ImportReport report;
  in.job = std::make_shared<const RecordedJob>(align(in.timeline, report));
  return in;
}

void align_records(benchmark::State& state, bool large) {
  const Input& in = input(large);
  std::size_t ops = 0;
  std::size_t steps = 0;
  for (auto _ : state) {
    ImportReport report;
    const RecordedJob job = align(in.timeline, report);
    ops = job.ops.size();
    steps = job.step_count();
  }
  if (ops * steps * static_cast<std::size_t>(in.spec.dp) != in.timeline.records.size()) {
    state.SkipWithError("a complete job lost records in alignment");
    return;
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(in.timeline.records.size()));
  state.SetLabel("records");
}

/// The graph without inferred edges and delays has a size that follows from the schedule; with them (`clean`,
/// what is timed) the model has its ops still, and replays to the recorded step times.
std::string check(const StepModel& clean, const Input& in) {
  const StepModel plain = build_step_model(in.job, LaunchDelays::Off);
  const auto pp = static_cast<std::size_t>(in.spec.pp);
  const auto microbatches = static_cast<std::size_t>(in.spec.microbatches);
  const std::size_t transfers = 2 * (pp - 1) * microbatches;
  // A join per transfer, and two for the embedding's gradients.
  if (plain.nodes.size() != in.job->ops.size() + transfers + 2)
    return "the plain graph has another number of nodes";
  // Two compute ops per stage and microbatch in a chain, seven edges around each transfer, and the step's
  // head and tail.
  if (plain.graph.edge_count() != 2 * pp * microbatches + 7 * transfers + 3 * pp + 7) {
    return "the plain graph has another number of edges";
  }
  const auto is_op = [](const Node& node) { return node.kind == NodeKind::Op; };
  if (static_cast<std::size_t>(std::ranges::count_if(clean.nodes, is_op)) != in.job->ops.size()) {
    return "the model has not one node per recorded op";
  }
  if (replay(clean, {.threads = 1}).discrepancy() > 0.005)
    return "the model does not replay the recorded steps";
  return "";
}

void build_model(benchmark::State& state, bool large) {
  const Input& in = input(large);
  StepModel model;
  for (auto _ : state) model = build_step_model(in.job, LaunchDelays::Clean);
  const std::string wrong = check(model, in);
  const std::size_t nodes = model.nodes.size() * model.replicas;
  if (!wrong.empty()) {
    state.SkipWithError(wrong.c_str());
    return;
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(nodes));
  state.SetLabel(std::to_string(nodes) + " nodes");
}

}  // namespace

int main(int argc, char** argv) {
  for (const bool large : {false, true}) {
    const std::string size = large ? "/1024ranks" : "/64ranks";
    benchmark::RegisterBenchmark(("build/align" + size).c_str(), align_records, large)
        ->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(("build/model" + size).c_str(), build_model, large)
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
