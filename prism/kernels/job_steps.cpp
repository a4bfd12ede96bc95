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
  const RankTrace& trace = job.traces.front();
  if (job.traces.size() == 1) {
    throw InputError({trace.source, {}, {}}, "no step with GPU work in this trace",
                     trace.gpu_ops.empty()
                         ? "record with ProfilerActivity.CUDA; a host-only trace has no GPU time"
                         : "the launches lie outside all step annotations");
  }
  throw InputError({trace.source, {}, {}}, "the ranks share no complete step",
                   "give traces of the same steps of one job");
}

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
  if (common.empty()) refuse(job);
  const auto start_on_first = [&](const StepKey& key) {
    return job.ranks.front().steps[by_key.front().at(key)].host_start_ns;
  };
  std::ranges::sort(common, {}, start_on_first);
  for (const StepKey& key : common) {
    std::optional<std::int64_t> previous;
    std::int64_t host_start = std::numeric_limits<std::int64_t>::max();
    std::int64_t end = std::numeric_limits<std::int64_t>::min();
    for (std::size_t r = 0; r < job.ranks.size(); ++r) {
      const std::size_t index = by_key[r].at(key);
      const TraceStep& step = job.ranks[r].steps[index];
      const TraceClock& clock = job.matching.clocks[r];
      steps.chosen[r].push_back(index);
      if (step.previous_end_ns)
        previous = std::max(previous, std::optional(clock.aligned(*step.previous_end_ns)));
      host_start = std::min(host_start, clock.aligned(step.host_start_ns));
      end = std::max(end, clock.aligned(step.end_ns));
    }
    const std::int64_t begin = previous.value_or(host_start);
    steps.numbers.push_back(key.first);
    steps.begin_ns.push_back(begin);
    steps.end_ns.push_back(end);
    steps.lead_ns = std::max(steps.lead_ns, begin - host_start);
    for (std::size_t r = 0; r < job.ranks.size(); ++r) {
      for (const std::uint32_t call : job.ranks[r].steps[steps.chosen[r].back()].calls) {
        steps.lead_ns = std::max(steps.lead_ns,
                                 begin - job.matching.clocks[r].aligned(job.traces[r].calls[call].start_ns));
        break;  // calls are in order of start
      }
    }
  }
  return steps;
}

}  // namespace prism
