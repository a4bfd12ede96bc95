// SPDX-License-Identifier: Apache-2.0
// What must hold for the model of any profiler traces, whatever is in them: every recorded step and start
// comes back, the graph has no cycle, shares add up, and nothing depends on order of files or threads.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "prism/analysis/replay.hpp"
#include "prism/kernels/build_kernel_model.hpp"
#include "prism/trace/error.hpp"
#include "tests/random_traces.hpp"

namespace prism {
namespace {

StepModel model_of(std::vector<RankTrace> traces, unsigned threads = 1) {
  ImportReport report;
  const KernelRecording job = record_ranks(std::move(traces), {.threads = threads}, report);
  return build_kernel_model(job, std::move(report));
}

/// Nothing if the traces are refused, which is the only other thing that may happen.
std::optional<StepModel> model_if_usable(const std::vector<RankTrace>& traces) {
  try {
    return model_of(traces);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

void check_model(const StepModel& model) {
  RC_ASSERT(model.step_count() > 0U);
  for (std::size_t i = 0; i < model.graph.size(); ++i) {
    for (const NodeId before : model.graph.predecessors(NodeId(i))) RC_ASSERT(before.value < i);
  }
  for (const double value : model.pools.values_ns) RC_ASSERT(std::isfinite(value));
  for (const RankActivity& of : model.activity) {
    for (const double share : {of.busy, of.communicating, of.waiting_host, of.waiting_ranks}) {
      RC_ASSERT(share >= -1e-9);
      RC_ASSERT(share <= 1 + 1e-9);
    }
    RC_ASSERT(std::abs(of.busy + of.communicating + of.waiting_host + of.waiting_ranks - 1) < 1e-9);
  }
  const ReplayResult result = replay(model, {.threads = 1});
  for (const ReplayedStep& step : result.steps) {
    RC_ASSERT(step.observed_ns > 0);
    RC_ASSERT(step.replayed_ns == step.observed_ns);
  }
  RC_ASSERT(result.start_errors.has_value());
  RC_ASSERT(result.start_errors->p99_ns == 0);
  for (const CrossStep& pair : result.across_steps) RC_ASSERT(std::isfinite(pair.error));
}

void check_equal(const StepModel& a, const StepModel& b) {
  RC_ASSERT(a.graph == b.graph);
  RC_ASSERT(a.pools == b.pools);
  RC_ASSERT(a.steps == b.steps);
  RC_ASSERT(a.observed_ns == b.observed_ns);
  RC_ASSERT(a.activity == b.activity);
  RC_ASSERT(std::ranges::equal(a.nodes, b.nodes));
}

RC_GTEST_PROP(KernelModelOfAnyTraces, ReplaysWhatWasRecorded, ()) {
  const auto model = model_if_usable(random_traces());
  RC_CLASSIFY(!model.has_value(), "refused");
  if (model) check_model(*model);
}

RC_GTEST_PROP(KernelModelOfAnyTraces, DoesNotDependOnThreads, ()) {
  const std::vector<RankTrace> traces = random_traces();
  const auto model = model_if_usable(traces);
  RC_PRE(model.has_value());
  check_equal(*model, model_of(traces, 3));
}

}  // namespace
}  // namespace prism
