// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/job_steps.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "prism/trace/error.hpp"

namespace prism {

namespace {

using StepKey = std::pair<int, int>;  // number, occurrence

std::map<StepKey, std::size_t> steps_by_key(const RankRecording& rank) {
  std::map<StepKey, std::size_t> result;
  std::map<int, int> seen;
  for (std::size_t i = 0; i < rank.steps.size(); ++i) {
    const int number = rank.steps[i].number;
    result[{number, seen[number]++}] = i;
  }
  return result;
}

[[noreturn]] void refuse(const KernelRecording& job) {
  for (const RankTrace& trace : job.traces) {
    if (trace.complete) continue;
    throw InputError({trace.source, {}, trace.counts.bytes},
                     "the file ends early, before any whole step with GPU work",
                     "write the trace again; profilers write GPU work after all that the host did");
  }
  for (const RankTrace& trace : job.traces) {
    if (!trace.gpu_ops.empty()) continue;
    throw InputError({trace.source, {}, {}}, "no step with GPU work in this trace",
                     "record with ProfilerActivity.CUDA; a host-only trace has no GPU time");
  }
  const std::string& source = job.traces.front().source;
  if (job.traces.size() > 1) {
    throw InputError({source, {}, {}}, "the ranks share no complete step",
                     "give traces of the same steps of one job");
  }
  throw InputError({source, {}, {}}, "no step with GPU work in this trace",
                   "the launches lie outside all step annotations, or the GPU's times before the host's");
}

/// Begin and end of a step that all ranks share, on the common clock.
struct Extent {
  std::int64_t host_start_ns = std::numeric_limits<std::int64_t>::max();
  std::optional<std::int64_t> first_call_ns;
  std::optional<std::int64_t> previous_end_ns;
  std::int64_t end_ns = std::numeric_limits<std::int64_t>::min();

  void add(const RankTrace& trace, const TraceStep& step, const TraceClock& clock) {
    host_start_ns = std::min(host_start_ns, clock.aligned(step.host_start_ns));
    if (!step.calls.empty()) {
      const std::int64_t call_ns = clock.aligned(trace.calls[step.calls.front()].start_ns);
      first_call_ns = std::min(first_call_ns.value_or(call_ns), call_ns);
    }
    if (step.previous_end_ns)
      previous_end_ns = std::max(previous_end_ns, std::optional(clock.aligned(*step.previous_end_ns)));
    end_ns = std::max(end_ns, clock.aligned(step.end_ns));
  }
  [[nodiscard]] std::int64_t begin_ns() const { return previous_end_ns.value_or(host_start_ns); }
};

}  // namespace

JobSteps find_job_steps(const KernelRecording& job, ImportReport& report) {
  std::vector<std::map<StepKey, std::size_t>> by_key;
  std::map<StepKey, std::size_t> ranks_with;
  for (const RankRecording& rank : job.ranks) {
    by_key.push_back(steps_by_key(rank));
    for (const auto& [key, index] : by_key.back()) ++ranks_with[key];
  }
  JobSteps steps;
  steps.chosen.resize(job.ranks.size());
  std::vector<StepKey> common;
  for (const auto& [key, ranks] : ranks_with) {
    if (ranks == job.ranks.size()) {
      common.push_back(key);
    } else {
      report.add(Severity::DataLoss, "steps that some rank lacks (left out)",
                 "step " + std::to_string(key.first));
    }
  }
  const auto start_on_first = [&](const StepKey& key) {
    return job.ranks.front().steps[by_key.front().at(key)].host_start_ns;
  };
  std::ranges::sort(common, {}, start_on_first);
  for (const StepKey& key : common) {
    Extent extent;
    for (std::size_t r = 0; r < job.ranks.size(); ++r) {
      extent.add(job.traces[r], job.ranks[r].steps[by_key[r].at(key)], job.matching.clocks[r]);
    }
    const std::int64_t begin = extent.begin_ns();
    if (extent.end_ns <= begin) {
      report.add(Severity::DataLoss, "steps whose GPU work ends before they begin on the host (left out)",
                 "step " + std::to_string(key.first));
      continue;
    }
    for (std::size_t r = 0; r < job.ranks.size(); ++r) steps.chosen[r].push_back(by_key[r].at(key));
    steps.numbers.push_back(key.first);
    steps.begin_ns.push_back(begin);
    steps.end_ns.push_back(extent.end_ns);
    steps.lead_ns = std::max(steps.lead_ns, begin - extent.host_start_ns);
    if (extent.first_call_ns) steps.lead_ns = std::max(steps.lead_ns, begin - *extent.first_call_ns);
  }
  if (steps.numbers.empty()) refuse(job);
  return steps;
}

}  // namespace prism
