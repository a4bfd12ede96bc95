// SPDX-License-Identifier: Apache-2.0
// Simulated steps as traces: what stands in them against the node times they were made from, and against each
// other.
#include "prism/analysis/simulated_trace.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "prism/analysis/open_model.hpp"
#include "prism/analysis/replay.hpp"
#include "prism/io/test_dir.hpp"
#include "prism/model/build_step_model.hpp"
#include "prism/trace/error.hpp"
#include "tests/made_job/made_job.hpp"

namespace prism {
namespace {

StepModel model_of(const MadeJobSpec& spec, LaunchDelays delays) {
  ImportReport report;
  const MadeJob job = make_job(spec);
  return build_step_model(std::make_shared<const RecordedJob>(align(job.timeline, report)), delays, report);
}

MadeJobSpec job() {
  return {.dp = 2, .pp = 3, .microbatches = 4, .steps = 4, .step_sd = 0.05, .residual_sd = 0.05};
}

std::vector<RankTrace> traces_of(const StepModel& model, const std::vector<SimulatedStep>& steps) {
  const SimulatedTraces traces(model, steps);
  std::vector<RankTrace> all;
  for (std::size_t i = 0; i < traces.rank_count(); ++i) all.push_back(traces.rank(i));
  return all;
}

std::vector<SimulatedStep> replayed(const StepModel& model) {
  return simulate_steps(model, {.recorded_steps = std::pair(0, 1000)}, {});
}

// Last GPU end of a step less that of the step before is the step's time, which the sweep computes by itself.
TEST(SimulatedTrace, StepTimesAreThoseOfTheReplay) {
  const StepModel model = model_of(job(), LaunchDelays::Clean);
  const std::vector<RankTrace> traces = traces_of(model, replayed(model));
  const ReplayResult expected = replay(model, {});
  ASSERT_EQ(expected.steps.size(), 4U);

  // The mark without a launch ends where the first step begins; a step's ops are those its calls launched.
  std::map<std::string, std::int64_t> end_of_step;
  std::int64_t before_ns = 0;
  for (const RankTrace& trace : traces) {
    EXPECT_EQ(trace.annotations.size(), 4U);
    std::map<std::int64_t, std::string> step_of;
    for (const HostCall& call : trace.calls) {
      for (const Annotation& a : trace.annotations) {
        if (call.start_ns >= a.start_ns && call.end_ns() <= a.end_ns())
          step_of[call.correlation] = trace.name(a.name);
      }
    }
    for (const GpuOp& op : trace.gpu_ops) {
      if (op.correlation == 0) before_ns = op.end_ns();
      if (op.correlation == 0) continue;
      ASSERT_TRUE(step_of.contains(op.correlation));
      std::int64_t& end_ns = end_of_step[step_of[op.correlation]];
      end_ns = std::max(end_ns, op.end_ns());
    }
  }
  for (const ReplayedStep& step : expected.steps) {
    const std::int64_t end_ns = end_of_step.at("ProfilerStep#" + std::to_string(step.step));
    EXPECT_NEAR(static_cast<double>(end_ns - before_ns), step.replayed_ns, 1.0) << step.step;
    before_ns = end_ns;
  }
}

TEST(SimulatedTrace, EveryOpIsAKernelWithItsTimes) {
  const StepModel model = model_of(job(), LaunchDelays::Clean);
  const std::vector<SimulatedStep> steps = simulate_steps(model, {.samples = {7, 7}, .seed = 3}, {});
  ASSERT_EQ(steps.size(), 1U);
  const NodeTimes& times = steps[0].times;
  const std::vector<RankTrace> traces = traces_of(model, steps);
  ASSERT_EQ(traces.size(), 6U);
  std::size_t kernels = 0;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const RankTrace& trace = traces[i];
    std::int64_t zero_ns = 0;
    for (const GpuOp& op : trace.gpu_ops) {
      if (op.correlation == 0) zero_ns = op.end_ns();
    }
    // The operator around a launch is named after the node.
    std::map<std::string, const GpuOp*> op_of;
    for (const CpuOp& range : trace.cpu_ops) {
      for (const HostCall& call : trace.calls) {
        if (call.start_ns != range.start_ns) continue;
        const auto op = std::ranges::find(trace.gpu_ops, call.correlation, &GpuOp::correlation);
        if (op != trace.gpu_ops.end()) op_of[trace.name(range.name)] = &*op;
      }
    }
    for (std::size_t n = 0; n < model.nodes.size(); ++n) {
      const Node& node = model.nodes[NodeId(n)];
      if (node.kind != NodeKind::Op || static_cast<std::size_t>(node.rank) != i % model.template_ranks)
        continue;
      const std::size_t at = n * model.replicas + i / model.template_ranks;
      if (times.duration_ns[at] < 1) continue;
      ASSERT_TRUE(op_of.contains(node.name)) << node.name;
      const GpuOp& op = *op_of[node.name];
      ++kernels;
      EXPECT_NEAR(static_cast<double>(op.end_ns() - zero_ns), times.finish(at), 0.51) << node.name;
      const auto start = static_cast<double>(op.start_ns - zero_ns);
      if (op.comm) {
        EXPECT_LE(start, times.start_ns[at] + 0.51) << node.name;
      } else {
        EXPECT_NEAR(start, times.start_ns[at], 0.51) << node.name;
      }
    }
  }
  EXPECT_GT(kernels, 100U);
}

// With no delays in the model, each kernel starts exactly when what the trace says it waits for has ended: its
// stream, the events its stream waits for, the step's start.
TEST(SimulatedTrace, RecordedDependenciesExplainEveryStart) {
  const StepModel model = model_of(job(), LaunchDelays::Off);
  const std::vector<SimulatedStep> steps = replayed(model);
  int from_other_stream = 0;
  int explained = 0;
  for (const RankTrace& trace : traces_of(model, steps)) {
    std::map<std::int64_t, const GpuOp*> by_launch;
    for (const GpuOp& op : trace.gpu_ops) by_launch[op.correlation] = &op;
    std::map<std::int64_t, const SyncRecord*> sync_of;
    for (const SyncRecord& sync : trace.syncs) sync_of[sync.correlation] = &sync;
    std::map<std::uint64_t, const GpuOp*> last;                // by stream, in call order
    std::map<std::int64_t, const GpuOp*> event;                // by correlation of its record
    std::map<std::uint64_t, std::vector<const GpuOp*>> waits;  // of a stream's next op
    std::uint64_t launched_on = 0;
    const auto step_of = [&](std::int64_t correlation) {
      const auto call = std::ranges::find(trace.calls, correlation, &HostCall::correlation);
      return std::ranges::upper_bound(trace.annotations, call->start_ns, {}, &Annotation::start_ns) -
             trace.annotations.begin();
    };
    for (const HostCall& call : trace.calls) {
      if (call.kind == HostCallKind::EventRecord) event[call.correlation] = last[launched_on];
      if (call.kind == HostCallKind::StreamWait) {
        const SyncRecord& sync = *sync_of.at(call.correlation);
        ASSERT_TRUE(event.contains(sync.event_correlation));
        EXPECT_EQ(event[sync.event_correlation]->stream, *sync.awaited_stream);
        waits[*sync.stream].push_back(event[sync.event_correlation]);
      }
      if (call.kind != HostCallKind::Launch) continue;
      const GpuOp& op = *by_launch.at(call.correlation);
      launched_on = op.stream;
      EXPECT_LT(call.end_ns(), op.start_ns);
      std::int64_t allowed_ns = 0;
      if (last.contains(op.stream)) allowed_ns = last[op.stream]->end_ns();
      const std::int64_t stream_ns = allowed_ns;
      for (const GpuOp* before : waits[op.stream]) allowed_ns = std::max(allowed_ns, before->end_ns());
      const std::size_t waits_here = waits[op.stream].size();
      waits[op.stream].clear();
      EXPECT_LE(allowed_ns, op.start_ns + 1) << trace.name(op.name);
      if (allowed_ns > stream_ns) ++from_other_stream;
      const bool first =
          waits_here == 0 &&
          (!last.contains(op.stream) || step_of(last[op.stream]->correlation) != step_of(call.correlation));
      last[op.stream] = &op;
      // What comes first in its step waits for no op of its own rank.
      if (first) continue;
      ++explained;
      EXPECT_NEAR(static_cast<double>(op.start_ns - allowed_ns), 0, 1) << trace.name(op.name);
    }
  }
  EXPECT_GT(from_other_stream, 50);
  EXPECT_GT(explained, 500);
}

TEST(SimulatedTrace, MembersOfACommunicationFindEachOther) {
  const StepModel model = model_of(job(), LaunchDelays::Clean);
  const std::vector<SimulatedStep> steps = replayed(model);
  struct Seen {
    std::set<int> ranks;
    std::set<std::int64_t> sequences;
    std::multiset<std::string> names;
    std::vector<std::int32_t> members;
    std::int64_t last_start_ns = 0;
    std::int64_t first_end_ns = std::numeric_limits<std::int64_t>::max();
  };
  std::map<std::uint64_t, Seen> seen;
  for (const RankTrace& trace : traces_of(model, steps)) {
    for (const GpuOp& op : trace.gpu_ops) {
      if (!op.comm) continue;
      const CommRecord& record = trace.comms[op.comm->value];
      Seen& s = seen[*record.comms_id];
      EXPECT_TRUE(s.ranks.insert(*trace.rank).second) << "a rank twice in one communication";
      s.sequences.insert(record.sequence);
      s.names.insert(trace.name(record.collective));
      s.members = record.members;
      s.last_start_ns = std::max(s.last_start_ns, op.start_ns);
      s.first_end_ns = std::min(s.first_end_ns, op.end_ns());
      if (trace.name(record.collective) == "send") {
        EXPECT_TRUE(std::ranges::count(record.members, record.destination) == 1);
        EXPECT_NE(record.destination, *trace.rank);
      }
    }
  }
  std::size_t pairs = 0;
  for (const auto& [id, s] : seen) {
    EXPECT_EQ(std::vector<std::int32_t>(s.ranks.begin(), s.ranks.end()), s.members);
    EXPECT_EQ(s.sequences.size(), 1U);
    EXPECT_LT(s.last_start_ns, s.first_end_ns) << "members do not overlap";
    if (s.names == std::multiset<std::string>{"recv", "send"}) ++pairs;
  }
  // 4 steps, 2 replicas, 2 neighbours, 4 microbatches forward and back.
  EXPECT_EQ(pairs, 4U * 2 * 2 * 4 * 2);
}

TEST(SimulatedTrace, StreamsRunOneKernelAtATime) {
  const StepModel model = model_of(job(), LaunchDelays::Clean);
  const std::vector<SimulatedStep> steps = replayed(model);
  for (const RankTrace& trace : traces_of(model, steps)) {
    std::map<std::uint64_t, std::int64_t> end_ns;
    for (const GpuOp& op : trace.gpu_ops) {
      EXPECT_GE(op.start_ns, end_ns[op.stream]) << trace.name(op.name);
      end_ns[op.stream] = op.end_ns();
    }
  }
}

// A user's graph may run two nodes of a rank at once; they get two streams.
TEST(SimulatedTrace, OwnGraphWithConcurrentNodes) {
  const TestDir dir;
  (void)dir.file("nodes.csv", "node,pool\na,short\nb,long\nc,short\n");
  (void)dir.file("edges.csv", "before,after\na,c\nb,c\n");
  (void)dir.file("pools.csv", "pool,duration_s\nshort,0.001\nlong,0.003\n");
  const StepModel model = open_model(dir.path());
  const std::vector<SimulatedStep> steps = simulate_steps(model, {}, {});
  const std::vector<RankTrace> traces = traces_of(model, steps);
  ASSERT_EQ(traces.size(), 1U);
  std::map<std::string, std::vector<const GpuOp*>> ops;
  for (const GpuOp& op : traces[0].gpu_ops) ops[traces[0].name(op.name)].push_back(&op);
  ASSERT_EQ(ops["short"].size(), 2U);
  ASSERT_EQ(ops["long"].size(), 1U);
  EXPECT_NE(ops["short"][0]->stream, ops["long"][0]->stream);
  EXPECT_EQ(ops["short"][1]->start_ns, ops["long"][0]->end_ns());
  EXPECT_EQ(ops["long"][0]->duration_ns, 3'000'000);
}

TEST(SimulatedTrace, RefusesStepsThatWereNotProfiled) {
  const StepModel model = model_of(job(), LaunchDelays::Clean);
  try {
    (void)simulate_steps(model, {.recorded_steps = std::pair(1, 2)}, {});
    FAIL() << "steps 1 and 2 are not in the recording";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("profiled are steps 20 to 23"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace prism
