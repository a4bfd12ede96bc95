// SPDX-License-Identifier: Apache-2.0
#include "prism/analysis/simulated_trace.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "prism/ingest/name_table.hpp"
#include "prism/trace/op_type.hpp"

namespace prism {

namespace {

constexpr std::int64_t kBaseTimeNs = 1'577'836'800'000'000'000;  // 2020-01-01: simulated time has no date
constexpr std::int64_t kFirstStepNs = kBaseTimeNs + 1'000'000'000'000;
constexpr std::int64_t kCallNs = 1000;
constexpr std::int64_t kCallEveryNs = 1500;
constexpr std::int64_t kLaunchAheadNs = 20'000;  // the last launch of a step before its start
constexpr std::int64_t kMarkNs = 1000;           // length of the kernel that marks the first step's start
constexpr std::uint64_t kComputeStream = 7;
constexpr std::uint64_t kFirstCommunicationStream = 20;
constexpr std::int32_t kDevice = 0;
constexpr std::int32_t kProcess = 1000;

bool is_communication(Category category) {
  return category == Category::Collective || category == Category::PointToPoint;
}

const DurationClass& class_of(const StepModel& model, const Node& node) {
  return model.pools.classes[node.duration_class];
}

bool is_communication(const StepModel& model, const Node& node) {
  return node.kind == NodeKind::Op && is_communication(class_of(model, node).category);
}

/// Op type in front of a pool key ("forward-send stage 1"); nothing for a user's own pools.
std::optional<OpType> op_type_of(const std::string& key) {
  return op_type_from_name(key.substr(0, key.find(' ')));
}

/// A collective's name in records, and what kernels that do it are called.
struct CollectiveNames {
  const char* record;
  const char* kernel;
};

CollectiveNames names_of(const DurationClass& c, bool pair) {
  const auto type = op_type_of(c.key);
  if (pair) return {type && is_recv(*type) ? "recv" : "send", "ncclDevKernel_SendRecv"};
  if (c.category == Category::PointToPoint) return {"all_to_all", "ncclDevKernel_SendRecv"};
  if (type == OpType::ParamsAllGather) return {"_allgather_base", "ncclDevKernel_AllGather"};
  if (type == OpType::GradsReduceScatter) return {"_reduce_scatter_base", "ncclDevKernel_ReduceScatter"};
  return {"allreduce", "ncclDevKernel_AllReduce"};
}

}  // namespace

SimulatedTraces::SimulatedTraces(const StepModel& model, std::span<const SimulatedStep> steps)
    : model_(model), steps_(steps) {
  if (has_lanes(model)) {
    kernels_.emplace(model, steps, kFirstStepNs);
    return;
  }
  const std::size_t ranks = std::size_t{model.replicas} * model.template_ranks;
  global_rank_.resize(ranks);
  std::iota(global_rank_.begin(), global_rank_.end(), 0);
  if (model.recording && model.recording->ranks.size() == ranks) global_rank_ = model.recording->ranks;
  step_start_ns_.push_back(kFirstStepNs);
  for (const SimulatedStep& step : steps) {
    step_start_ns_.push_back(step_start_ns_.back() + std::llround(step.times.step_ns));
  }
  find_communications();
  find_sources();
}

/// Members of one communication share their draw id, in the replicas of their draw group.
void SimulatedTraces::find_communications() {
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::size_t> known;
  communication_of_.resize(model_.nodes.size() * model_.replicas);
  for (std::size_t i = 0; i < model_.nodes.size(); ++i) {
    const NodeId id(i);
    const Node& node = model_.nodes[id];
    if (!is_communication(model_, node)) continue;
    for (std::uint32_t d = 0; d < model_.replicas; ++d) {
      const auto [found, is_new] =
          known.try_emplace({node.draw_id, node.draw_group.index_of(d)}, communications_.size());
      if (is_new) communications_.emplace_back();
      communications_[found->second].members.emplace_back(id, d);
      communication_of_[at(id, d)] = found->second;
    }
  }
  const auto receives = [&](NodeId node) {
    const auto type = op_type_of(class_of(model_, model_.nodes[node]).key);
    return type && is_recv(*type);
  };
  for (Communication& c : communications_) {
    c.pair = c.members.size() == 2 && receives(c.members[0].first) != receives(c.members[1].first);
    c.group = group_of(c);
    c.ordinal = groups_.next_ordinal(c.group);
  }
}

/// The process group with exactly the ranks of a communication.
std::size_t SimulatedTraces::group_of(const Communication& communication) {
  std::set<std::int32_t> ranks;
  bool one_replica = true;
  for (const auto& [node, replica] : communication.members) {
    ranks.insert(global_rank_[rank_index(node, replica)]);
    one_replica = one_replica && replica == communication.members.front().second;
  }
  const std::vector<std::int32_t> members(ranks.begin(), ranks.end());
  return groups_.add(members, one_replica ? "PIPELINE_MODEL_PARALLEL_GROUP" : "DATA_PARALLEL_GROUP",
                     static_cast<std::int32_t>(members.size()), true);
}

void SimulatedTraces::find_sources() {
  sources_ = IdVector<NodeId, std::vector<NodeId>>(model_.nodes.size());
  for (std::size_t i = 0; i < model_.nodes.size(); ++i) {
    std::vector<NodeId>& mine = sources_[NodeId(i)];
    for (const NodeId before : model_.graph.predecessors(NodeId(i))) {
      if (model_.nodes[before].kind == NodeKind::Op) {
        mine.push_back(before);
      } else {
        mine.insert(mine.end(), sources_[before].begin(), sources_[before].end());
      }
    }
    std::ranges::sort(mine);
    mine.erase(std::unique(mine.begin(), mine.end()), mine.end());
  }
}

/// Writes the trace of one rank.
class SimulatedTraces::RankWriter {
 public:
  RankWriter(const SimulatedTraces& all, std::size_t index)
      : all_(all),
        model_(all.model_),
        index_(index),
        replica_(static_cast<std::uint32_t>(index / all.model_.template_ranks)) {
    for (std::size_t i = 0; i < model_.nodes.size(); ++i) {
      const NodeId node(i);
      if (model_.nodes[node].kind == NodeKind::Op && all.rank_index(node, replica_) == index) {
        mine_.push_back(node);
      }
    }
  }

  RankTrace run() {
    describe();
    mark_start();
    std::vector<Plan> plans;
    for (std::size_t k = 0; k < all_.steps_.size(); ++k) plans.push_back(plan_step(k));
    // A step's calls end before it begins and before the next step's, so its host may be far ahead.
    std::int64_t latest_ns = std::numeric_limits<std::int64_t>::max();
    for (std::size_t k = plans.size(); k-- > 0;) {
      latest_ns = std::min(latest_ns, all_.step_start_ns_[k] - kLaunchAheadNs);
      latest_ns -= static_cast<std::int64_t>(plans[k].calls) * kCallEveryNs;
      plans[k].host_ns = latest_ns;
    }
    for (std::size_t k = 0; k < plans.size(); ++k) write_step(k, plans[k]);
    await_device();
    std::ranges::stable_sort(trace_.gpu_ops, {}, &GpuOp::start_ns);
    std::ranges::stable_sort(trace_.cpu_ops, {}, &CpuOp::start_ns);
    trace_.names = names_.take();
    return std::move(trace_);
  }

 private:
  struct Kernel {
    NodeId node;
    std::int64_t start_ns = 0;
    std::int64_t end_ns = 0;
    std::uint64_t stream = 0;
    std::vector<std::size_t> waits_for;  // kernels of other streams
    bool awaited = false;                // by a kernel of another stream
  };

  /// A step's kernels in launch order.
  struct Plan {
    std::vector<Kernel> kernels;
    std::size_t calls = 0;
    std::int64_t host_ns = 0;
  };

  NameId name(const std::string& text) { return NameId(names_.id(text)); }

  void describe() {
    trace_.rank = all_.global_rank_[index_];
    const std::string process = std::to_string(kProcess + *trace_.rank);
    trace_.threads = {process + "/" + process};
    trace_.groups = all_.groups_.of_rank(*trace_.rank);
  }

  void mark_start() {
    trace_.gpu_ops.push_back({.start_ns = kFirstStepNs - kMarkNs,
                              .duration_ns = kMarkNs,
                              .stream = kComputeStream,
                              .device = kDevice,
                              .name = name("start of the first step")});
  }

  /// When the rank's own part of a communication can begin: at the last of its own predecessors, before those of
  /// other ranks are there.
  [[nodiscard]] double arrival(const NodeTimes& times, NodeId node) const {
    double own = -1;
    double latest = -1;
    for (const NodeId before : model_.graph.predecessors(node)) {
      const bool meeting = model_.nodes[before].kind != NodeKind::Op;
      if (!meeting) {
        own = std::max(own, times.finish(all_.at(before, replica_)));
        continue;
      }
      latest = std::max(latest, times.start_ns[all_.at(before, replica_)]);
      for (const NodeId entry : model_.graph.predecessors(before)) {
        if (model_.nodes[entry].rank == model_.nodes[node].rank) {
          own = std::max(own, times.finish(all_.at(entry, replica_)));
        }
      }
    }
    if (own < 0) own = latest < 0 ? 0 : latest;
    return std::min(own, times.start_ns[all_.at(node, replica_)]);
  }

  Plan plan_step(std::size_t k) {
    const NodeTimes& times = all_.steps_[k].times;
    Plan plan;
    for (const NodeId node : mine_) {
      const std::size_t at = all_.at(node, replica_);
      const bool communicates = is_communication(model_, model_.nodes[node]);
      const double start = communicates ? arrival(times, node) : times.start_ns[at];
      const std::int64_t start_ns = all_.step_start_ns_[k] + std::llround(start);
      const std::int64_t end_ns = all_.step_start_ns_[k] + std::llround(times.finish(at));
      if (end_ns > start_ns) plan.kernels.push_back({.node = node, .start_ns = start_ns, .end_ns = end_ns});
    }
    std::ranges::stable_sort(plan.kernels, {}, &Kernel::start_ns);
    for (Kernel& kernel : plan.kernels) kernel.stream = free_stream(kernel);
    find_waits(plan.kernels);
    for (const Kernel& kernel : plan.kernels)
      plan.calls += 1 + kernel.waits_for.size() + (kernel.awaited ? 1 : 0);
    return plan;
  }

  /// The first stream of the op's kind that is free when it starts; streams of a kind are added as needed.
  std::uint64_t free_stream(const Kernel& kernel) {
    const Node& node = model_.nodes[kernel.node];
    const std::string kind = is_communication(model_, node) ? class_of(model_, node).key : "";
    std::vector<std::uint64_t>& streams = streams_[kind];
    for (const std::uint64_t stream : streams) {
      if (stream_end_ns_[stream] > kernel.start_ns) continue;
      stream_end_ns_[stream] = kernel.end_ns;
      return stream;
    }
    streams.push_back(kind.empty() && streams.empty() ? kComputeStream : next_stream_++);
    stream_end_ns_[streams.back()] = kernel.end_ns;
    return streams.back();
  }

  /// What a kernel waits for on other streams: of each the last of its sources.
  void find_waits(std::vector<Kernel>& kernels) const {
    std::map<NodeId, std::size_t> kernel_of;
    for (std::size_t i = 0; i < kernels.size(); ++i) kernel_of[kernels[i].node] = i;
    for (Kernel& kernel : kernels) {
      std::map<std::uint64_t, std::size_t> last;  // by stream
      std::vector<NodeId> todo = all_.sources_[kernel.node];
      std::set<NodeId> seen(todo.begin(), todo.end());
      while (!todo.empty()) {
        const NodeId source = todo.back();
        todo.pop_back();
        if (const auto found = kernel_of.find(source); found != kernel_of.end()) {
          if (kernels[found->second].stream == kernel.stream) continue;
          std::size_t& latest = last.try_emplace(kernels[found->second].stream, found->second).first->second;
          latest = std::max(latest, found->second);
        } else if (model_.nodes[source].rank == model_.nodes[kernel.node].rank) {
          for (const NodeId before : all_.sources_[source]) {  // an op without length
            if (seen.insert(before).second) todo.push_back(before);
          }
        }
      }
      for (const auto& [stream, source] : last) {
        kernel.waits_for.push_back(source);
        kernels[source].awaited = true;
      }
    }
  }

  std::int64_t call(HostCallKind kind, const std::string& text) {
    trace_.calls.push_back({.start_ns = now_ns_,
                            .duration_ns = kCallNs,
                            .correlation = ++correlation_,
                            .name = name(text),
                            .kind = kind});
    now_ns_ += kCallEveryNs;
    return correlation_;
  }

  void write_step(std::size_t k, const Plan& plan) {
    now_ns_ = plan.host_ns;
    std::vector<std::int64_t> event(plan.kernels.size());  // correlation of the event record behind a kernel
    for (std::size_t i = 0; i < plan.kernels.size(); ++i) {
      const Kernel& kernel = plan.kernels[i];
      const Node& node = model_.nodes[kernel.node];
      for (const std::size_t source : kernel.waits_for) {
        const std::int64_t at_ns = now_ns_;
        const std::int64_t correlation = call(HostCallKind::StreamWait, "cudaStreamWaitEvent");
        trace_.syncs.push_back({.start_ns = at_ns,
                                .duration_ns = kCallNs,
                                .correlation = correlation,
                                .event_correlation = event[source],
                                .stream = kernel.stream,
                                .awaited_stream = plan.kernels[source].stream,
                                .device = kDevice,
                                .kind = SyncRecord::Kind::StreamWait});
      }
      CpuOp range{.start_ns = now_ns_, .duration_ns = kCallNs, .name = name(node.name)};
      GpuOp op{.start_ns = kernel.start_ns,
               .duration_ns = kernel.end_ns - kernel.start_ns,
               .stream = kernel.stream,
               .correlation = call(HostCallKind::Launch, "cudaLaunchKernel"),
               .device = kDevice,
               .name = name(kernel_name(node))};
      trace_.cpu_ops.push_back(range);
      if (is_communication(model_, node)) {
        range.name = name("record_param_comms");
        range.comm = op.comm = record(k, kernel.node);
        trace_.cpu_ops.push_back(range);
      }
      trace_.gpu_ops.push_back(op);
      if (kernel.awaited) event[i] = call(HostCallKind::EventRecord, "cudaEventRecord");
    }
    trace_.annotations.push_back({.start_ns = plan.host_ns,
                                  .duration_ns = std::max(now_ns_ - plan.host_ns, kCallNs),
                                  .name = name("ProfilerStep#" + std::to_string(all_.steps_[k].number))});
  }

  /// The profiler stops when the device is done.
  void await_device() {
    const std::int64_t start_ns = now_ns_;
    std::int64_t end_ns = start_ns + kCallNs;
    for (const GpuOp& op : trace_.gpu_ops) end_ns = std::max(end_ns, op.end_ns());
    const std::int64_t correlation = call(HostCallKind::DeviceSync, "cudaDeviceSynchronize");
    trace_.calls.back().duration_ns = end_ns - start_ns;
    trace_.syncs.push_back({.start_ns = start_ns,
                            .duration_ns = end_ns - start_ns,
                            .correlation = correlation,
                            .device = kDevice,
                            .kind = SyncRecord::Kind::ContextSync});
  }

  [[nodiscard]] std::string kernel_name(const Node& node) const {
    const DurationClass& c = class_of(model_, node);
    return is_communication(c.category) ? std::string(names_of(c, false).kernel) + "(" + c.key + ")" : c.key;
  }

  CommId record(std::size_t step, NodeId node) {
    const Communication& communication =
        all_.communications_[*all_.communication_of_[all_.at(node, replica_)]];
    const ProcessGroup& group = all_.groups_[communication.group];
    CommRecord record;
    record.collective = name(names_of(class_of(model_, model_.nodes[node]), communication.pair).record);
    record.group = name(group.name);
    record.group_description = name(group.description);
    record.group_size = group.size;
    record.members = group.members;
    record.sequence = all_.groups_.sequence(communication.group, step, communication.ordinal);
    record.comms_id = simulated_comms_id(communication.group, record.sequence, communication.pair);
    if (communication.pair) {
      const auto& [first, second] = std::pair(communication.members[0], communication.members[1]);
      const auto& peer = first.first == node && first.second == replica_ ? second : first;
      const std::int32_t peer_rank = all_.global_rank_[all_.rank_index(peer.first, peer.second)];
      const bool sends = names_.names()[record.collective.value] == "send";
      (sends ? record.destination : record.source) = peer_rank;
    }
    trace_.comms.push_back(std::move(record));
    return CommId(trace_.comms.size() - 1);
  }

  const SimulatedTraces& all_;
  const StepModel& model_;
  std::size_t index_;
  std::uint32_t replica_;
  std::vector<NodeId> mine_;  // ops of this rank
  RankTrace trace_;
  NameTable names_;
  std::map<std::string, std::vector<std::uint64_t>> streams_;  // by kind of op
  std::map<std::uint64_t, std::int64_t> stream_end_ns_;
  std::uint64_t next_stream_ = kFirstCommunicationStream;
  std::int64_t correlation_ = 0;
  std::int64_t now_ns_ = 0;
};

RankTrace SimulatedTraces::rank(std::size_t index) const {
  RankTrace trace = kernels_ ? kernels_->rank(index) : RankWriter(*this, index).run();
  trace.world_size = world_size();
  trace.backend = "nccl";
  trace.gpu_name = "simulated";
  trace.host = "simulated";
  trace.common_clock = "simulated";
  trace.base_time_ns = kBaseTimeNs;
  trace.absolute_time = true;
  return trace;
}

int SimulatedTraces::world_size() const {
  if (kernels_) return kernels_->world_size();
  const auto highest = *std::ranges::max_element(global_rank_);
  return static_cast<int>(std::max<std::int64_t>(model_.mesh.world_size(), highest + 1));
}

}  // namespace prism
