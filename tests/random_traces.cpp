// SPDX-License-Identifier: Apache-2.0
#include "tests/random_traces.hpp"

#include <array>
#include <string>

#include <rapidcheck.h>

#include "tests/trace_builder.hpp"

namespace prism {

namespace {

constexpr std::int64_t kBaseNs = 1'760'000'000'000'000'000;

std::int64_t below(std::int64_t limit) {
  return *rc::gen::inRange<std::int64_t>(0, limit);
}

/// One instruction of the host's program.
struct Instruction {
  enum class Kind { Launch, Copy, Graph, Communicate, Sync, Record, Wait };
  Kind kind = Kind::Launch;
  int name = 0;
  int stream = 0;
  int thread = 0;
  int device = 0;
};

Instruction random_instruction() {
  using enum Instruction::Kind;
  Instruction result;
  result.kind = *rc::gen::weightedElement<Instruction::Kind>(
      {{8, Launch}, {1, Copy}, {1, Graph}, {3, Communicate}, {2, Sync}, {1, Record}, {1, Wait}});
  result.name = static_cast<int>(below(4));
  result.stream = static_cast<int>(below(3));
  result.thread = static_cast<int>(*rc::gen::weightedElement<std::int64_t>({{3, 0}, {1, 1}}));
  result.device = static_cast<int>(*rc::gen::weightedElement<std::int64_t>({{9, 0}, {1, 1}}));
  return result;
}

/// The program of a step: the common one, now and then with an instruction more, less, or at another place.
std::vector<Instruction> varied(std::vector<Instruction> program) {
  for (std::int64_t changes = below(3); changes > 0 && !program.empty(); --changes) {
    const auto at = program.begin() + below(static_cast<std::int64_t>(program.size()));
    switch (below(3)) {
      case 0:
        program.erase(at);
        break;
      case 1:
        program.insert(at, random_instruction());
        break;
      default:
        std::iter_swap(at, program.begin() + below(static_cast<std::int64_t>(program.size())));
    }
  }
  return program;
}

class Rank {
 public:
  Rank(int rank, int ranks, std::int64_t origin_ns)
      : b_(rank), rank_(rank), ranks_(ranks), now_(kBaseNs + origin_ns) {
    b_.trace().world_size = ranks;
    b_.thread("0");
    b_.thread("1");
    numbered_ = below(2) == 0;
    annotated_ = below(8) != 0;
  }

  void run_step(int number, const std::vector<Instruction>& program) {
    const std::int64_t start = now_;
    for (const Instruction& instruction : program) run(instruction);
    now_ += below(30'000);
    const std::string name = "ProfilerStep#" + std::to_string(number);
    if (annotated_) b_.annotation(name, start, now_ - start, "0");
    if (below(20) == 0) b_.annotation(name, start + 10, now_ - start, "0");  // overlapping duplicate
    if (below(5) == 0) now_ += below(200'000);
  }

  RankTrace finish() {
    if (below(3) == 0) lose_some();
    return b_.finish();
  }

 private:
  void run(const Instruction& i) {
    using enum Instruction::Kind;
    const std::string thread = std::to_string(i.thread);
    now_ += below(8'000);
    const std::int64_t length = *rc::gen::weightedElement<std::int64_t>({{9, 5'000}, {1, 150'000}});
    const std::int64_t took = below(length);
    ++correlation_;
    switch (i.kind) {
      case Launch:
        b_.call("cudaLaunchKernel", now_, took, correlation_, thread);
        add_op("kernel" + std::to_string(i.name), i, GpuOpKind::Kernel);
        break;
      case Copy:
        b_.call("cudaMemcpyAsync", now_, took + below(60'000), correlation_, thread);
        add_op("Memcpy DtoH", i, GpuOpKind::Memcpy);
        break;
      case Graph: {
        b_.call("cudaGraphLaunch", now_, took, correlation_, thread);
        Instruction other = i;
        for (int op = 0; op < 3; ++op) {
          other.stream = (i.stream + op) % 3;
          add_op("kernel" + std::to_string(op), other, GpuOpKind::Kernel);
        }
        break;
      }
      case Communicate:
        communicate(i, took, thread);
        break;
      case Sync:
        synchronise(i, took, thread);
        break;
      case Record:
      case Wait:
        b_.call(i.kind == Record ? "cudaEventRecord" : "cudaStreamWaitEvent", now_, took, correlation_,
                thread);
        b_.trace().calls.back().kind =
            i.kind == Record ? HostCallKind::EventRecord : HostCallKind::StreamWait;
        if (i.kind == Record) {
          recorded_ = correlation_;
        } else if (below(2) == 0) {
          SyncRecord sync{.start_ns = now_, .duration_ns = took, .correlation = correlation_};
          sync.kind = SyncRecord::Kind::StreamWait;
          sync.event_correlation = recorded_;
          sync.stream = static_cast<std::uint64_t>(i.stream);
          sync.awaited_stream = static_cast<std::uint64_t>((i.stream + 1) % 3);
          sync.device = i.device;
          b_.trace().syncs.push_back(sync);
        }
    }
    now_ += took;
  }

  void communicate(const Instruction& i, std::int64_t took, const std::string& thread) {
    static constexpr std::array kNames = {"allreduce", "_allgather_base", "all_to_all", "send"};
    CommRecord record;
    record.collective = b_.name(kNames[static_cast<std::size_t>(i.name)]);
    record.group = b_.name(i.stream == 2 ? "1" : "0");
    record.in_elements = record.out_elements = 1000;
    record.group_size = ranks_;
    for (int r = 0; r < ranks_; ++r) record.members.push_back(r);
    if (i.name == 3) {
      record.source = 0;
      record.destination = ranks_ - 1;
      if (rank_ != 0) record.collective = b_.name("recv");
    }
    if (numbered_) record.sequence = ++sequence_[i.stream == 2 ? 1 : 0];
    b_.record(now_ - 100, took + 200, record, thread);
    b_.call("cudaLaunchKernel", now_, took, correlation_, thread);
    GpuOp& op = add_op("ncclDevKernel_" + std::string(kNames[static_cast<std::size_t>(i.name)]), i,
                       GpuOpKind::Kernel);
    if (below(4) != 0) op.comm = b_.comm(record);
  }

  void synchronise(const Instruction& i, std::int64_t took, const std::string& thread) {
    static constexpr std::array kNames = {"cudaStreamSynchronize", "cudaDeviceSynchronize",
                                          "cudaEventSynchronize"};
    static constexpr std::array kKinds = {HostCallKind::StreamSync, HostCallKind::DeviceSync,
                                          HostCallKind::EventSync};
    const auto which = static_cast<std::size_t>(i.name % 3);
    std::int64_t until = now_ + took;
    if (below(4) != 0) until = std::max(until, latest_end_ + below(4'000));  // it waits, mostly
    b_.call(kNames[which], now_, until - now_, correlation_, thread);
    b_.trace().calls.back().kind = kKinds[which];
    if (below(3) == 0) {
      SyncRecord sync{.start_ns = now_, .duration_ns = until - now_, .correlation = correlation_};
      sync.stream = static_cast<std::uint64_t>(i.stream);
      sync.device = i.device;
      b_.trace().syncs.push_back(sync);
    }
    now_ = std::max(now_, until - took);
  }

  GpuOp& add_op(const std::string& name, const Instruction& i, GpuOpKind kind) {
    std::int64_t& free = free_[static_cast<std::size_t>(i.stream + 3 * i.device)];
    const std::int64_t start = std::max(now_ + below(20'000) - 500, free + below(3'000) - 1'000);
    const std::int64_t took = below(*rc::gen::weightedElement<std::int64_t>({{5, 20'000}, {1, 400'000}}));
    GpuOp& op = b_.kernel(name, start, took, correlation_, static_cast<std::uint64_t>(i.stream));
    op.device = i.device;
    op.kind = kind;
    free = start + took;
    latest_end_ = std::max(latest_end_, free);
    return op;
  }

  /// Launches whose call, or ops whose launch, was not recorded.
  void lose_some() {
    RankTrace& trace = b_.trace();
    std::erase_if(trace.gpu_ops, [](const GpuOp&) { return below(10) == 0; });
    for (GpuOp& op : trace.gpu_ops) {
      if (below(10) == 0) op.correlation = 0;
    }
  }

  TraceBuilder b_;
  int rank_;
  int ranks_;
  std::int64_t now_;
  std::int64_t latest_end_ = 0;
  std::int64_t correlation_ = 0;
  std::int64_t recorded_ = -1;  // correlation of the last event record
  std::array<std::int64_t, 2> sequence_ = {};
  std::array<std::int64_t, 6> free_ = {};
  bool numbered_ = false;
  bool annotated_ = true;
};

}  // namespace

std::vector<RankTrace> random_traces() {
  const int ranks = *rc::gen::weightedElement<int>({{3, 1}, {2, 2}, {1, 3}});
  const auto steps = static_cast<int>(below(5)) + 1;
  const std::vector<Instruction> common =
      *rc::gen::container<std::vector<Instruction>>(rc::gen::exec([] { return random_instruction(); }));
  std::vector<RankTrace> traces;
  for (int r = 0; r < ranks; ++r) {
    Rank rank(r, ranks, below(3'000));
    for (int k = 0; k < steps; ++k) rank.run_step(10 + k, below(3) == 0 ? varied(common) : common);
    traces.push_back(rank.finish());
  }
  return traces;
}

}  // namespace prism
