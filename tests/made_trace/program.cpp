// SPDX-License-Identifier: Apache-2.0
#include "tests/made_trace/program.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <utility>

#include "tests/made_job/noise.hpp"

namespace prism::made {

namespace {

enum class Use : std::uint64_t { Step, Rank, Kernel, Transfer, Skew, Lag, Call, Gap };

constexpr double kOptimizerShare = 0.5;  // of a layer's kernels, per layer
constexpr double kCopyUs = 2.0;
constexpr std::int64_t kParametersPerLayer = 1 << 20;
constexpr std::int64_t kActivationElements = 1 << 18;

std::int64_t to_ns(double us) {
  return std::llround(us * 1000);
}

/// A collective's name in records, and what its kernel is called.
struct CollectiveKind {
  const char* name;
  const char* kernel;
};
constexpr CollectiveKind kAllReduce{
    "allreduce", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"};
constexpr CollectiveKind kAllGather{"_allgather_base",
                                    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"};
constexpr CollectiveKind kReduceScatter{
    "_reduce_scatter_base", "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"};
constexpr const char* kPairKernel = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)";

/// Where a rank stands.
struct Place {
  int rank = 0;
  int t = 0;
  int d = 0;
  int stage = 0;
};

/// Names of the process groups a rank belongs to.
struct Groups {
  std::string world;
  std::string data;
  std::string tensor;
  std::string pipeline;
};

class ProgramWriter;

/// Writes one rank's program.
class RankWriter {
 public:
  RankWriter(ProgramWriter& all, Place place, Groups groups);

  RankProgram run();

 private:
  struct Posted {
    std::size_t event = 0;  // recorded on the collective's stream behind it
    std::int64_t sequence = 0;
  };

  void step();
  void forward(int microbatch);
  void backward(int microbatch);
  void finish_step();

  double kernel_us(double mean_us);
  void add(Instruction instruction);
  void call(Instruction::Kind kind, std::string name, std::uint64_t stream, std::size_t first,
            std::size_t count = 0);
  void begin(Instruction::Range range, std::string name, std::size_t record = 0);
  void end();
  std::size_t add_op(ProgramOp op);
  void compute(const std::string& name, int kernels, double mean_us);
  void copy(const char* name, std::int64_t bytes);
  Posted post(const CollectiveKind& kind, const std::string& group, std::uint64_t stream, std::int64_t in,
              std::int64_t out, double mean_us);
  Posted post_pair(bool sends, int peer_stage, bool forward, int microbatch);
  Posted launch_communication(ProgramOp op, const ProgramRecord& record);
  std::size_t record_event(std::uint64_t stream);
  void wait_for(const Posted& posted);
  void reduce_inside_layer();

  [[nodiscard]] const MadeTraceSpec& spec() const;
  [[nodiscard]] std::size_t step_index() const { return static_cast<std::size_t>(step_); }

  ProgramWriter& all_;
  Place place_;
  Groups groups_;
  RankProgram out_;
  Thread thread_ = Thread::Main;
  int step_ = 0;
  std::uint64_t draws_ = 0;  // of this rank and step so far: the id of the next random number
  std::uint32_t graph_ = 0;
  std::map<std::string, std::int64_t> sequence_;  // of collectives, by group
  std::map<std::string, std::int64_t> pair_sequence_;
  std::vector<Posted> unawaited_;  // gradient communication of the step
};

class ProgramWriter {
 public:
  explicit ProgramWriter(const MadeTraceSpec& s) : spec(s), noise(s.seed) {
    if (std::min({s.tp, s.dp, s.pp, s.ranks_per_host, s.microbatches, s.layers, s.kernels_per_layer,
                  s.steps}) < 1 ||
        s.unprofiled_steps < 0) {
      throw std::invalid_argument("sizes of a made-up job must be at least 1");
    }
  }

  Program run() {
    const int world = spec.tp * spec.dp * spec.pp;
    add_group("default_pg", world, 1, 0);
    std::vector<Groups> of_rank(static_cast<std::size_t>(world), Groups{"0", "", "", ""});
    const auto add_axis = [&](int size, int stride, const char* description, std::string Groups::*name) {
      for (int rank = 0; rank < world && size > 1; ++rank) {
        if (rank / stride % size != 0) continue;
        const std::string group = add_group(description, size, stride, rank);
        for (int i = 0; i < size; ++i) of_rank[static_cast<std::size_t>(rank + i * stride)].*name = group;
      }
    };
    add_axis(spec.tp, 1, "TENSOR_MODEL_PARALLEL_GROUP", &Groups::tensor);
    add_axis(spec.dp, spec.tp, "DATA_PARALLEL_GROUP", &Groups::data);
    add_axis(spec.pp, spec.tp * spec.dp, "PIPELINE_MODEL_PARALLEL_GROUP", &Groups::pipeline);
    for (int rank = 0; rank < world; ++rank) {
      const Place place{rank, rank % spec.tp, rank / spec.tp % spec.dp, rank / spec.tp / spec.dp};
      program.ranks.push_back(RankWriter(*this, place, of_rank[static_cast<std::size_t>(rank)]).run());
    }
    return std::move(program);
  }

  /// The meeting of that group (for pairs: of a sender, a receiver and a direction) and number.
  std::size_t meeting(const std::string& key, std::int64_t number, Meeting described, double mean_us) {
    const auto [known, is_new] = meeting_of_.try_emplace({key, number}, program.meetings.size());
    if (is_new) {
      described.transfer_ns =
          to_ns(mean_us * noise.factor(spec.kernel_sd, Use::Transfer, known->second, 0, 0));
      program.meetings.push_back(std::move(described));
    }
    return known->second;
  }

  const MadeTraceSpec& spec;
  Noise<Use> noise;
  Program program;

 private:
  std::string add_group(const char* description, int size, int stride, int first) {
    Group group{std::to_string(program.groups.size()), description, {}};
    for (int i = 0; i < size; ++i) group.members.push_back(first + i * stride);
    program.groups.push_back(group);
    return group.name;
  }

  std::map<std::pair<std::string, std::int64_t>, std::size_t> meeting_of_;
};

RankWriter::RankWriter(ProgramWriter& all, Place place, Groups groups)
    : all_(all), place_(place), groups_(std::move(groups)) {}

const MadeTraceSpec& RankWriter::spec() const {
  return all_.spec;
}

RankProgram RankWriter::run() {
  for (step_ = 0; step_ < spec().unprofiled_steps + spec().steps; ++step_) {
    draws_ = 0;
    step();
  }
  call(Instruction::Kind::DeviceSync, "cudaDeviceSynchronize", 0, 0);  // the profiler stops
  return std::move(out_);
}

double RankWriter::kernel_us(double mean_us) {
  const auto rank = static_cast<std::uint64_t>(place_.rank);
  const auto slow = spec().slow_ranks.find(place_.rank);
  return mean_us * (slow == spec().slow_ranks.end() ? 1 : slow->second) *
         all_.noise.factor(spec().step_sd, Use::Step, 0, 0, step_index()) *
         all_.noise.factor(spec().rank_sd, Use::Rank, rank, 0, 0) *
         all_.noise.factor(spec().kernel_sd, Use::Kernel, draws_++, place_.rank, step_index());
}

void RankWriter::add(Instruction instruction) {
  instruction.thread = thread_;
  instruction.step = step_;
  out_.instructions.push_back(std::move(instruction));
}

void RankWriter::call(Instruction::Kind kind, std::string name, std::uint64_t stream, std::size_t first,
                      std::size_t count) {
  const auto host_ns = [&](double us, Use use) {
    return to_ns(us * spec().observer_tax *
                 all_.noise.factor(spec().host_cv, use, draws_++, place_.rank, step_index()));
  };
  add({.kind = Instruction::Kind::Work, .duration_ns = host_ns(spec().gap_us, Use::Gap)});
  add({.kind = kind,
       .duration_ns = host_ns(spec().call_us, Use::Call),
       .stream = stream,
       .first = first,
       .count = count,
       .name = std::move(name)});
}

void RankWriter::begin(Instruction::Range range, std::string name, std::size_t record) {
  add({.kind = Instruction::Kind::BeginRange, .range = range, .record = record, .name = std::move(name)});
}
void RankWriter::end() {
  add({.kind = Instruction::Kind::EndRange});
}

std::size_t RankWriter::add_op(ProgramOp op) {
  op.step = step_;
  const double jitter =
      all_.noise.exponential(spec().launch_jitter_us, Use::Lag, draws_++, place_.rank, step_index());
  op.lag_ns = to_ns(spec().launch_lag_us + jitter);
  out_.ops.push_back(std::move(op));
  return out_.ops.size() - 1;
}

/// Kernels in a row: one launch each, or one for all as a graph.
void RankWriter::compute(const std::string& name, int kernels, double mean_us) {
  const bool graph = spec().cuda_graphs && kernels > 1;
  if (graph) ++graph_;
  const std::size_t first = out_.ops.size();
  for (int k = 0; k < kernels; ++k) {
    const std::size_t op = add_op({.name = name + "_" + std::to_string(k),
                                   .duration_ns = to_ns(kernel_us(mean_us)),
                                   .graph = graph ? graph_ : 0});
    if (graph) continue;
    begin(Instruction::Range::Operator, "aten::" + name);
    call(Instruction::Kind::Launch, "cudaLaunchKernel", kComputeStream, op, 1);
    end();
  }
  if (graph) {
    call(Instruction::Kind::Launch, "cudaGraphLaunch", kComputeStream, first,
         static_cast<std::size_t>(kernels));
  }
}

void RankWriter::copy(const char* name, std::int64_t bytes) {
  const std::size_t op = add_op(
      {.kind = GpuOpKind::Memcpy, .name = name, .duration_ns = to_ns(kernel_us(kCopyUs)), .bytes = bytes});
  call(Instruction::Kind::Launch, "cudaMemcpyAsync", kComputeStream, op, 1);
}

std::size_t RankWriter::record_event(std::uint64_t stream) {
  call(Instruction::Kind::EventRecord, "cudaEventRecord", stream, out_.events);
  return out_.events++;
}

/// As PyTorch issues it: the communication stream waits for the current one, and an event follows the kernel. All
/// of that happens inside the record, or, of coalesced operations, behind it.
RankWriter::Posted RankWriter::launch_communication(ProgramOp op, const ProgramRecord& record) {
  const std::uint64_t stream = op.stream;
  op.exit_skew_ns =
      to_ns(all_.noise.exponential(spec().exit_skew_us, Use::Skew, draws_++, place_.rank, step_index()));
  op.record = out_.records.size();
  out_.records.push_back(record);
  if (!record.on_kernel) begin(Instruction::Range::Annotation, "nccl:coalesced");
  begin(Instruction::Range::Record, "record_param_comms", *op.record);
  if (!record.on_kernel) {
    add({.kind = Instruction::Kind::Work, .duration_ns = to_ns(spec().call_us * spec().observer_tax)});
    end();
  }
  if (stream != kComputeStream) {
    const std::size_t ready = record_event(kComputeStream);
    call(Instruction::Kind::StreamWait, "cudaStreamWaitEvent", stream, ready);
  }
  const std::size_t meeting = *op.meeting;
  const std::size_t index = add_op(std::move(op));
  all_.program.meetings[meeting].members.push_back({place_.rank, index});
  call(Instruction::Kind::Launch, "cudaLaunchKernelExC", stream, index, 1);
  const Posted posted{record_event(stream), record.sequence};
  end();
  return posted;
}

RankWriter::Posted RankWriter::post(const CollectiveKind& kind, const std::string& group,
                                    std::uint64_t stream, std::int64_t in, std::int64_t out, double mean_us) {
  const std::int64_t sequence = ++sequence_[group];
  const Meeting described{
      .name = kind.name, .group = group, .step = step_, .size = all_.program.group(group).members.size()};
  const std::size_t meeting = all_.meeting(group, sequence, described, mean_us);
  return launch_communication({.name = kind.kernel, .stream = stream, .meeting = meeting},
                              {.collective = kind.name,
                               .group = group,
                               .in_elements = in,
                               .out_elements = out,
                               .sequence = sequence});
}

/// Each direction has its own stream on both sides, so that a send never queues behind a receive.
RankWriter::Posted RankWriter::post_pair(bool sends, int peer_stage, bool forward, int microbatch) {
  const int stride = spec().tp * spec().dp;
  const int peer = place_.rank + (peer_stage - place_.stage) * stride;
  const std::string& group = groups_.pipeline;
  const std::string key = "pair " + std::to_string(sends ? place_.rank : peer) + " to " +
                          std::to_string(sends ? peer : place_.rank);
  const std::int64_t number = std::int64_t{step_} * spec().microbatches + microbatch;
  const Meeting described{.name = "send", .group = group, .step = step_, .size = 2};
  const std::size_t meeting = all_.meeting(key, number, described, spec().p2p_us);
  const std::uint64_t stream = kFirstPipelineStream + (forward ? 0 : 2) + (sends ? 1 : 0);
  return launch_communication({.name = kPairKernel, .stream = stream, .meeting = meeting},
                              {.collective = sends ? "send" : "recv",
                               .group = group,
                               .in_elements = kActivationElements,
                               .out_elements = kActivationElements,
                               .source = sends ? place_.rank : peer,
                               .destination = sends ? peer : place_.rank,
                               .sequence = ++pair_sequence_[group],
                               .on_kernel = !spec().coalesced_p2p});
}

void RankWriter::wait_for(const Posted& posted) {
  const std::size_t record = out_.records.size();
  out_.records.push_back({.collective = "wait", .sequence = posted.sequence});
  begin(Instruction::Range::Record, "record_param_comms", record);
  call(Instruction::Kind::StreamWait, "cudaStreamWaitEvent", kComputeStream, posted.event);
  end();
}

/// The tensor-parallel reduction of a layer's result, awaited at once.
void RankWriter::reduce_inside_layer() {
  if (spec().tp == 1) return;
  const std::uint64_t stream = spec().shared_stream ? kComputeStream : kTensorParallelStream;
  const Posted posted = post(kAllReduce, groups_.tensor, stream, kActivationElements, kActivationElements,
                             spec().collective_us);
  if (!spec().shared_stream) wait_for(posted);
}

void RankWriter::forward(int microbatch) {
  const bool fsdp = spec().data_parallelism == DataParallelism::Fsdp && spec().dp > 1;
  if (place_.stage > 0) wait_for(post_pair(false, place_.stage - 1, true, microbatch));
  const auto gather = [&] {
    return post(kAllGather, groups_.data, kDataParallelStream, kParametersPerLayer / spec().dp,
                kParametersPerLayer, spec().collective_us);
  };
  std::optional<Posted> gathered;
  if (fsdp) gathered = gather();
  for (int layer = 0; layer < spec().layers; ++layer) {
    if (fsdp) {
      const Posted mine = *gathered;
      if (layer + 1 < spec().layers) gathered = gather();
      wait_for(mine);
    }
    compute("forward", spec().kernels_per_layer, spec().kernel_us);
    reduce_inside_layer();
  }
  if (place_.stage + 1 < spec().pp) post_pair(true, place_.stage + 1, true, microbatch);
}

void RankWriter::backward(int microbatch) {
  const bool fsdp = spec().data_parallelism == DataParallelism::Fsdp;
  thread_ = Thread::Autograd;
  if (place_.stage + 1 < spec().pp) wait_for(post_pair(false, place_.stage + 1, false, microbatch));
  for (int layer = 0; layer < spec().layers; ++layer) {
    compute("backward", spec().kernels_per_layer, 2 * spec().kernel_us);
    reduce_inside_layer();
    if (spec().dp == 1 || (!fsdp && microbatch + 1 < spec().microbatches)) continue;
    unawaited_.push_back(post(fsdp ? kReduceScatter : kAllReduce, groups_.data, kDataParallelStream,
                              kParametersPerLayer, kParametersPerLayer / (fsdp ? spec().dp : 1),
                              spec().collective_us));
  }
  if (place_.stage > 0) post_pair(true, place_.stage - 1, false, microbatch);
  thread_ = Thread::Main;
}

void RankWriter::finish_step() {
  for (const Posted& posted : unawaited_) wait_for(posted);
  unawaited_.clear();
  compute("norm", 1, spec().kernel_us / 10);
  if (all_.program.groups[0].members.size() > 1) {
    wait_for(post(kAllReduce, groups_.world, kWorldStream, 1, 1, spec().p2p_us));
  }
  if (spec().step_end == StepEnd::Item) {
    begin(Instruction::Range::Operator, "aten::item");
    copy("Memcpy DtoH (Device -> Pageable)", 4);
    call(Instruction::Kind::StreamSync, "cudaStreamSynchronize", kComputeStream, 0);
    end();
  }
  begin(Instruction::Range::Annotation, "Optimizer.step#AdamW.step");
  compute("optimizer", spec().layers, kOptimizerShare * spec().kernel_us);
  end();
  if (spec().step_end == StepEnd::DeviceSync) {
    call(Instruction::Kind::DeviceSync, "cudaDeviceSynchronize", 0, 0);
  }
}

/// One forward, one backward in turn after a few warm-up forwards; without a pipeline, plain accumulation.
void RankWriter::step() {
  begin(Instruction::Range::Annotation, "ProfilerStep#");
  copy("Memcpy HtoD (Pinned -> Device)", kActivationElements);
  const std::size_t zeroed = add_op({.kind = GpuOpKind::Memset,
                                     .name = "Memset (Device)",
                                     .duration_ns = to_ns(kernel_us(kCopyUs)),
                                     .bytes = kParametersPerLayer});
  call(Instruction::Kind::Launch, "cudaMemsetAsync", kComputeStream, zeroed, 1);
  const int total = spec().microbatches;
  const int warm_up = std::min(total, spec().pp - 1 - place_.stage);
  for (int k = 0; k < warm_up; ++k) forward(k);
  for (int k = 0; k < total; ++k) {
    if (k + warm_up < total) forward(k + warm_up);
    backward(k);
  }
  finish_step();
  end();
}

}  // namespace

const Group& Program::group(const std::string& name) const {
  return *std::ranges::find(groups, name, &Group::name);
}

Program write_program(const MadeTraceSpec& spec) {
  return ProgramWriter(spec).run();
}

}  // namespace prism::made
