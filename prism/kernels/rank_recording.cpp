// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/rank_recording.hpp"

#include <utility>

#include "prism/run/parallel.hpp"

namespace prism {

KernelRecording record_ranks(std::vector<RankTrace> traces, const RunControl& control, ImportReport& report,
                             const std::vector<CommunicationPattern>& patterns) {
  KernelRecording recording;
  recording.traces = std::move(traces);
  const std::size_t count = recording.traces.size();
  recording.communication.resize(count);
  recording.ranks.resize(count);
  std::vector<ImportReport> reports(count);
  RunControl quiet = control;
  quiet.progress = {};
  parallel_for(count, quiet, [&](std::size_t i, std::size_t) {
    const RankTrace& trace = recording.traces[i];
    RankRecording& rank = recording.ranks[i];
    rank.trace = &trace;
    rank.communication = &recording.communication[i];
    rank.launches = find_launches(trace);
    recording.communication[i] = find_communication(trace, rank.launches, patterns);
    rank.streams = find_stream_order(trace);
    rank.lags = measure_usual_lags(trace, rank.launches, rank.streams);
    rank.steps = find_trace_steps(trace, rank.launches, rank.streams, reports[i]);
    rank.dependencies =
        find_dependencies(trace, rank.launches, rank.streams, recording.communication[i], rank.lags);
  });
  for (std::size_t i = 0; i < count; ++i) {
    if (const std::size_t ops = recording.ranks[i].launches.started_before_launch; ops > 0) {
      report.add({Severity::Info,
                  "GPU ops that start before their launch: host and GPU clocks disagree",
                  ops,
                  {recording.traces[i].source}});
    }
  }
  for (const ImportReport& of_rank : reports) {
    for (const ImportEntry& entry : of_rank.entries()) report.add(entry);
  }
  recording.matching = match_collectives(recording.traces, recording.communication, report);
  recording.split = split_collectives(recording.traces, recording.communication, recording.matching, report);
  return recording;
}

}  // namespace prism
