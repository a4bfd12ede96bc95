// SPDX-License-Identifier: Apache-2.0
#include "tests/made_trace/made_trace.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "tests/made_trace/machine.hpp"
#include "tests/made_trace/program.hpp"
#include "tests/made_trace/recorder.hpp"

namespace prism {

namespace {

using namespace made;

/// Ops of all ranks as one list.
class Truth {
 public:
  Truth(const MadeTraceSpec& spec, const Program& program, const std::vector<RanRank>& ran) {
    truth_.start_ns = kJobStartNs;
    for (std::size_t rank = 0; rank < ran.size(); ++rank) add_ops(rank, program.ranks[rank], ran[rank]);
    for (std::size_t rank = 0; rank < ran.size(); ++rank) add_dependencies(rank, ran[rank]);
    for (const Meeting& meeting : program.meetings) add_collective(meeting);
    add_steps(spec);
  }

  MadeTruth take() { return std::move(truth_); }

 private:
  [[nodiscard]] MadeOpId id(std::size_t rank, std::size_t op) const { return MadeOpId(first_[rank] + op); }

  void add_ops(std::size_t rank, const RankProgram& program, const RanRank& ran) {
    first_.push_back(truth_.ops.size());
    for (std::size_t i = 0; i < ran.ops.size(); ++i) {
      const ProgramOp& described = program.ops[i];
      const RanOp& op = ran.ops[i];
      truth_.ops.push_back({.rank = static_cast<int>(rank),
                            .step = described.step,
                            .name = described.name,
                            .stream = described.stream,
                            .call_ns = op.call_ns,
                            .queued_ns = op.queued_ns,
                            .start_ns = op.start_ns,
                            .end_ns = op.end_ns,
                            .collective = described.meeting});
    }
  }

  void add_dependencies(std::size_t rank, const RanRank& ran) {
    using enum MadeDependency::Kind;
    for (std::size_t i = 0; i < ran.ops.size(); ++i) {
      const RanOp& op = ran.ops[i];
      const auto add = [&](std::size_t before, MadeDependency::Kind kind) {
        truth_.dependencies.push_back({id(rank, before), id(rank, i), kind});
      };
      if (op.stream_before) add(*op.stream_before, Stream);
      for (const std::size_t before : op.waits_for) add(before, StreamWait);
      for (const std::size_t before : op.host_waited_for) add(before, HostWait);
    }
  }

  void add_collective(const Meeting& meeting) {
    MadeCollective made{.name = meeting.name,
                        .group = meeting.group,
                        .step = meeting.step,
                        .arrival_ns = std::numeric_limits<std::int64_t>::min(),
                        .transfer_ns = meeting.transfer_ns};
    for (const Meeting::Member& member : meeting.members) {
      made.members.push_back(id(static_cast<std::size_t>(member.rank), member.op));
      made.arrival_ns = std::max(made.arrival_ns, truth_.ops[made.members.back()].start_ns);
    }
    for (const MadeOpId member : made.members) {
      made.exit_skew_ns.push_back(truth_.ops[member].end_ns - made.arrival_ns - made.transfer_ns);
    }
    truth_.collectives.push_back(std::move(made));
  }

  void add_steps(const MadeTraceSpec& spec) {
    truth_.steps.resize(static_cast<std::size_t>(spec.unprofiled_steps + spec.steps));
    for (const MadeOp& op : truth_.ops) {
      MadeStep& step = truth_.steps[static_cast<std::size_t>(op.step)];
      step.step = op.step;
      step.end_ns = std::max(step.end_ns, op.end_ns);
    }
    std::int64_t before_ns = truth_.start_ns;
    for (MadeStep& step : truth_.steps) step.time_ns = step.end_ns - std::exchange(before_ns, step.end_ns);
  }

  MadeTruth truth_;
  std::vector<std::size_t> first_;  // [rank]: its first op's id
};

}  // namespace

MadeTrace make_trace(const MadeTraceSpec& spec) {
  const Program program = write_program(spec);
  const std::vector<RanRank> ran = run_program(program, spec, kJobStartNs);
  MadeTrace made;
  made.truth = Truth(spec, program, ran).take();
  std::size_t first_op = 0;
  for (std::size_t rank = 0; rank < ran.size(); ++rank) {
    RecordedRank recorded = record_rank(spec, program, ran[rank], static_cast<int>(rank));
    for (std::size_t i = 0; i < recorded.gpu_op_of.size(); ++i) {
      made.truth.ops[MadeOpId(first_op + i)].recorded = recorded.gpu_op_of[i];
    }
    first_op += ran[rank].ops.size();
    made.truth.clock_offset_ns.push_back(recorded.clock_offset_ns);
    made.truth.clock_drift_ppm.push_back(recorded.clock_drift_ppm);
    made.ranks.push_back(std::move(recorded.trace));
  }
  return made;
}

}  // namespace prism
