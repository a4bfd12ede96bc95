// SPDX-License-Identifier: Apache-2.0
#include "tests/made_trace/machine.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <stdexcept>
#include <utility>

namespace prism::made {

namespace {

class Machine {
 public:
  Machine(const Program& program, const MadeTraceSpec& spec, std::int64_t start_ns)
      : program_(program),
        kernel_gap_ns_(std::llround(spec.kernel_gap_us * 1000)),
        wake_ns_(std::llround(spec.wake_us * 1000)) {
    for (const RankProgram& rank : program.ranks) {
      hosts_.push_back({.now_ns = start_ns});
      hosts_.back().event_op.resize(rank.events);
      hosts_.back().event_call.resize(rank.events);
      waiting_.emplace_back(rank.ops.size());
      done_.emplace_back(rank.ops.size(), false);
      ran_.push_back(
          {std::vector<RanInstruction>(rank.instructions.size()), std::vector<RanOp>(rank.ops.size())});
    }
    arrived_.resize(program.meetings.size());
  }

  std::vector<RanRank> run() {
    bool progress = true;
    while (progress) {
      progress = false;
      for (std::size_t rank = 0; rank < hosts_.size(); ++rank) {
        while (step_host(rank)) progress = true;
      }
    }
    for (std::size_t rank = 0; rank < hosts_.size(); ++rank) {
      if (hosts_[rank].next < program_.ranks[rank].instructions.size()) {
        throw std::logic_error("the made-up job waits for itself");
      }
    }
    return std::move(ran_);
  }

 private:
  struct Host {
    std::size_t next = 0;  // instruction
    std::int64_t now_ns = 0;
    std::map<std::uint64_t, std::size_t> last_op;               // by stream
    std::map<std::uint64_t, std::vector<std::size_t>> pending;  // what a stream's next op waits for
    std::vector<std::optional<std::size_t>> event_op;
    std::vector<std::optional<std::size_t>> event_call;
    std::vector<std::size_t> awaited;  // by blocking calls since the last launch
  };

  struct OpRef {
    std::size_t rank = 0;
    std::size_t op = 0;
  };

  struct Waiting {
    std::size_t unmet = 0;
    std::vector<std::size_t> followers;  // ops of the same rank
  };

  /// Runs the host's next instruction; false if there is none or it has to wait.
  bool step_host(std::size_t rank) {
    Host& host = hosts_[rank];
    const RankProgram& program = program_.ranks[rank];
    if (host.next == program.instructions.size()) return false;
    const Instruction& instruction = program.instructions[host.next];
    RanInstruction& ran = ran_[rank].instructions[host.next];
    ran.start_ns = host.now_ns;
    ran.end_ns = host.now_ns + instruction.duration_ns;
    using enum Instruction::Kind;
    switch (instruction.kind) {
      case Launch:
        launch(rank, instruction);
        break;
      case EventRecord:
        if (const auto last = host.last_op.find(instruction.stream); last != host.last_op.end()) {
          host.event_op[instruction.first] = last->second;
        }
        host.event_call[instruction.first] = host.next;
        break;
      case StreamWait:
        ran.event_call = host.event_call[instruction.first];
        if (const auto op = host.event_op[instruction.first]) host.pending[instruction.stream].push_back(*op);
        break;
      case StreamSync:
      case DeviceSync:
        if (!await(rank, instruction, ran)) return false;
        break;
      default:
        break;
    }
    host.now_ns = ran.end_ns;
    ++host.next;
    return true;
  }

  /// Ends a blocking call, if what it awaits has ended.
  bool await(std::size_t rank, const Instruction& instruction, RanInstruction& ran) {
    Host& host = hosts_[rank];
    std::vector<std::size_t> awaited;
    for (const auto& [stream, op] : host.last_op) {
      if (instruction.kind == Instruction::Kind::StreamSync && stream != instruction.stream) continue;
      if (!done_[rank][op]) return false;
      awaited.push_back(op);
    }
    for (const std::size_t op : awaited) {
      ran.end_ns = std::max(ran.end_ns, ran_[rank].ops[op].end_ns + wake_ns_);
      host.awaited.push_back(op);
    }
    return true;
  }

  void launch(std::size_t rank, const Instruction& instruction) {
    Host& host = hosts_[rank];
    for (std::size_t op = instruction.first; op < instruction.first + instruction.count; ++op) {
      const ProgramOp& described = program_.ranks[rank].ops[op];
      RanOp& ran = ran_[rank].ops[op];
      ran.launched_by = host.next;
      ran.call_ns = host.now_ns;
      ran.queued_ns = host.now_ns + described.lag_ns;
      if (const auto last = host.last_op.find(described.stream); last != host.last_op.end()) {
        ran.stream_before = last->second;
      }
      host.last_op[described.stream] = op;
      ran.waits_for = std::exchange(host.pending[described.stream], {});
      ran.host_waited_for = std::exchange(host.awaited, {});
      Waiting& waiting = waiting_[rank][op];
      const auto depend = [&](std::size_t before) {
        if (done_[rank][before]) return;
        waiting_[rank][before].followers.push_back(op);
        ++waiting.unmet;
      };
      if (ran.stream_before) depend(*ran.stream_before);
      for (const std::size_t before : ran.waits_for) depend(before);
      if (waiting.unmet == 0) start({rank, op});
    }
    settle();
  }

  /// All an op waits for on its rank has ended.
  void start(OpRef ref) {
    const ProgramOp& described = program_.ranks[ref.rank].ops[ref.op];
    RanRank& rank = ran_[ref.rank];
    RanOp& op = rank.ops[ref.op];
    op.start_ns = op.queued_ns;
    const auto after = [&](std::size_t before) {
      op.start_ns = std::max(op.start_ns, rank.ops[before].end_ns + kernel_gap_ns_);
    };
    if (op.stream_before) after(*op.stream_before);
    for (const std::size_t before : op.waits_for) after(before);
    if (!described.meeting) {
      op.end_ns = op.start_ns + described.duration_ns;
      ended_.push_back(ref);
      return;
    }
    const Meeting& meeting = program_.meetings[*described.meeting];
    std::vector<OpRef>& members = arrived_[*described.meeting];
    members.push_back(ref);
    if (members.size() < meeting.size) return;
    std::int64_t arrival_ns = op.start_ns;
    for (const OpRef& m : members) arrival_ns = std::max(arrival_ns, ran_[m.rank].ops[m.op].start_ns);
    for (const OpRef& m : members) {
      ran_[m.rank].ops[m.op].end_ns =
          arrival_ns + meeting.transfer_ns + program_.ranks[m.rank].ops[m.op].exit_skew_ns;
      ended_.push_back(m);
    }
  }

  /// Lets start what waited for ops that have ended.
  void settle() {
    while (!ended_.empty()) {
      const OpRef ref = ended_.front();
      ended_.pop_front();
      done_[ref.rank][ref.op] = true;
      for (const std::size_t follower : waiting_[ref.rank][ref.op].followers) {
        if (--waiting_[ref.rank][follower].unmet == 0) start({ref.rank, follower});
      }
    }
  }

  const Program& program_;
  std::int64_t kernel_gap_ns_;
  std::int64_t wake_ns_;
  std::vector<Host> hosts_;
  std::vector<std::vector<Waiting>> waiting_;  // [rank][op]
  std::vector<std::vector<bool>> done_;        // [rank][op]
  std::vector<std::vector<OpRef>> arrived_;    // [meeting]
  std::deque<OpRef> ended_;
  std::vector<RanRank> ran_;
};

}  // namespace

std::vector<RanRank> run_program(const Program& program, const MadeTraceSpec& spec, std::int64_t start_ns) {
  return Machine(program, spec, start_ns).run();
}

}  // namespace prism::made
