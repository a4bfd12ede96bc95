// SPDX-License-Identifier: Apache-2.0
#include "prism/model/op_graph.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <tuple>

namespace prism {

namespace {

// Unusable send/receive rows are told by their place in time, with this tolerance.
constexpr double kNoOpToleranceNs = 50e3;

/// Ops of one stage by type, each list in recorded order of the reference cell (step 0, replica 0).
class StageOps {
 public:
  explicit StageOps(std::vector<OpId> ops) : by_type_(kOpTypeCount), ops_(std::move(ops)) {}

  std::vector<OpId>& of(OpType type) { return by_type_[static_cast<std::size_t>(type)]; }
  const std::vector<OpId>& of(OpType type) const { return by_type_[static_cast<std::size_t>(type)]; }
  const std::vector<OpId>& all() const { return ops_; }

 private:
  std::vector<std::vector<OpId>> by_type_;
  std::vector<OpId> ops_;
};

/// A point-to-point direction: which compute it serves and where its partner sits.
struct Direction {
  OpType compute;
  OpType send;
  OpType recv;
  int towards;  // stage offset from sender to receiver
};

constexpr std::array<Direction, 2> kDirections = {
    Direction{OpType::ForwardCompute, OpType::ForwardSend, OpType::ForwardRecv, +1},
    Direction{OpType::BackwardCompute, OpType::BackwardSend, OpType::BackwardRecv, -1}};

class Builder {
 public:
  Builder(const RecordedJob& job, ImportReport& report) : job_(job), report_(report) {
    graph_.depends_on = IdVector<OpId, std::vector<OpId>>(job.ops.size());
    graph_.group_of = IdVector<OpId, std::optional<GroupId>>(job.ops.size());
    graph_.compute_of_receive = IdVector<OpId, std::optional<OpId>>(job.ops.size());
    collect_stages();
  }

  OpGraph build() {
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      chain_streams(static_cast<int>(stage));
      for (const Direction& direction : kDirections) attach_transfers(static_cast<int>(stage), direction);
      post_first_backward(static_cast<int>(stage));
      attach_dp_ops(stages_[stage]);
      chain_tail(static_cast<int>(stage));
    }
    for (const Direction& direction : kDirections) pair_transfers(direction);
    group_collectives();
    group_rest();
    report_uncoupled();
    return std::move(graph_);
  }

 private:
  double start(OpId op) const { return job_.start(op, 0, 0); }
  double end(OpId op) const { return job_.end(op, 0, 0); }
  const TemplateOp& info(OpId op) const { return job_.ops[op]; }
  int last_stage() const { return static_cast<int>(stages_.size()) - 1; }

  void collect_stages() {
    std::vector<std::vector<OpId>> ops(static_cast<std::size_t>(job_.stages()));
    for (std::size_t i = 0; i < job_.ops.size(); ++i) {
      ops[static_cast<std::size_t>(info(OpId(i)).stage)].push_back(OpId(i));
      max_chunk_ = std::max(max_chunk_, info(OpId(i)).chunk);
    }
    for (auto& list : ops) {
      std::ranges::sort(list, {},
                        [&](OpId op) { return std::tuple(start(op), info(op).seq, info(op).type); });
      StageOps stage(list);
      for (const OpId op : list) stage.of(info(op).type).push_back(op);
      std::vector<OpId> chain;
      std::ranges::copy_if(list, std::back_inserter(chain),
                           [&](OpId op) { return is_compute(info(op).type); });
      graph_.compute_chain.push_back(std::move(chain));
      overlapped_ = overlapped_ || !stage.of(OpType::SeparateGradsAllReduce).empty();
      stages_.push_back(std::move(stage));
    }
  }

  void chain(std::span<const OpId> ops) {
    for (std::size_t i = 1; i < ops.size(); ++i) graph_.add_dependency(ops[i], ops[i - 1]);
  }

  /// Each stream of a stage runs its ops one after the other.
  void chain_streams(int stage_index) {
    const StageOps& stage = stages_[static_cast<std::size_t>(stage_index)];
    chain(graph_.compute_chain[static_cast<std::size_t>(stage_index)]);
    for (const Direction& direction : kDirections) {
      chain(stage.of(direction.send));
      chain(stage.of(direction.recv));
    }
    std::vector<OpId> dp_stream;
    std::ranges::copy_if(stage.all(), std::back_inserter(dp_stream),
                         [&](OpId op) { return is_dp_stream(info(op).type); });
    chain(dp_stream);
  }

  /// Sends or receives that carry data of a compute op; the others are rows of transfers that moved nothing.
  std::vector<OpId> usable(const std::vector<OpId>& ops, const std::vector<OpId>& computes) const {
    std::vector<OpId> kept;
    if (computes.empty()) return kept;
    double last_start = start(computes.front());
    double first_end = end(computes.front());
    for (const OpId op : computes) {
      last_start = std::max(last_start, start(op));
      first_end = std::min(first_end, end(op));
    }
    for (const OpId op : ops) {
      const bool nothing_left = is_recv(info(op).type) && start(op) > last_start + kNoOpToleranceNs;
      const bool nothing_yet = is_send(info(op).type) && end(op) < first_end - kNoOpToleranceNs;
      if (!nothing_left && !nothing_yet) kept.push_back(op);
    }
    return kept;
  }

  /// The chunk a compute op's data comes from or goes to, exists: then the transfer has a partner.
  bool has_neighbour(OpId compute, const Direction& direction, bool receiving) const {
    const std::int64_t stages = job_.stages();
    const std::int64_t chunk = std::max(0, info(compute).chunk) * stages + info(compute).stage;
    const std::int64_t neighbour = chunk + (receiving ? -direction.towards : direction.towards);
    return neighbour >= 0 && neighbour < (std::max(0, max_chunk_) + 1) * stages;
  }

  void attach_transfers(int stage_index, const Direction& direction) {
    const StageOps& stage = stages_[static_cast<std::size_t>(stage_index)];
    std::vector<OpId> computes = stage.of(direction.compute);
    std::ranges::sort(computes, {}, [&](OpId op) { return info(op).seq; });
    for (const OpType type : {direction.send, direction.recv}) {
      const std::vector<OpId> ops = usable(stage.of(type), computes);
      const std::size_t shift = is_recv(type) && ops.size() + 1 == computes.size() ? 1 : 0;
      const bool at_end = stage_index == 0 || stage_index == last_stage();
      const bool allowed =
          ops.size() == computes.size() || (at_end && (ops.empty() || ops.size() + 1 == computes.size()));
      if (!allowed) {
        report_.add(Severity::Info, "sends or receives do not match the computes of their stage one to one",
                    std::to_string(ops.size()) + " " + std::string(op_type_name(type)) + " for " +
                        std::to_string(computes.size()) + " computes of stage " +
                        std::to_string(stage_index));
      }
      for (std::size_t i = 0; i < ops.size() && i + shift < computes.size(); ++i) {
        const OpId compute = computes[i + shift];
        if (is_send(type)) {
          graph_.add_dependency(ops[i], compute);
        } else {
          graph_.add_dependency(compute, ops[i]);
          graph_.compute_of_receive[ops[i]] = compute;
          if (i + shift > 0) graph_.add_dependency(ops[i], computes[i + shift - 1]);
        }
        if (has_neighbour(compute, direction, is_recv(type)))
          partners_[{type, stage_index}].push_back(ops[i]);
      }
    }
  }

  /// The first backward transfers are posted while the last warm-up forward runs, so they wait for the one
  /// before it.
  void post_first_backward(int stage_index) {
    const auto& computes = graph_.compute_chain[static_cast<std::size_t>(stage_index)];
    const auto first =
        std::ranges::find_if(computes, [&](OpId op) { return info(op).type == OpType::BackwardCompute; });
    const auto position = first - computes.begin();
    if (first == computes.end() || position < 2) return;
    const OpId posted_after = computes[static_cast<std::size_t>(position - 2)];
    for (const OpType type : {OpType::BackwardRecv, OpType::BackwardSend}) {
      const auto& ops = stages_[static_cast<std::size_t>(stage_index)].of(type);
      const auto op = std::ranges::find_if(ops, [&](OpId candidate) { return info(candidate).seq == 0; });
      if (op != ops.end()) graph_.add_dependency(*op, posted_after);
    }
  }

  /// Parameters are gathered before a chunk's first forward; overlapped gradients leave after its last
  /// backward.
  void attach_dp_ops(const StageOps& stage) {
    std::map<int, OpId> last_gather;  // by chunk
    for (const OpId op : stage.of(OpType::ParamsAllGather)) last_gather.insert_or_assign(info(op).chunk, op);
    std::map<int, OpId> first_forward;
    for (const OpId op : stage.of(OpType::ForwardCompute)) first_forward.try_emplace(info(op).chunk, op);
    for (const auto& [chunk, gather] : last_gather) {
      const auto forward = first_forward.find(chunk);
      if (forward != first_forward.end()) graph_.add_dependency(forward->second, gather);
    }
    if (!overlapped_) return;
    std::map<int, OpId> last_backward;
    for (const OpId op : stage.of(OpType::BackwardCompute)) {
      const auto known = last_backward.try_emplace(info(op).chunk, op).first;
      if (end(op) >= end(known->second)) known->second = op;
    }
    std::map<int, OpId> first_reduce;
    for (const OpId op : stage.of(OpType::GradsReduceScatter)) first_reduce.try_emplace(info(op).chunk, op);
    for (const auto& [chunk, reduce] : first_reduce) {
      const auto backward = last_backward.find(chunk);
      if (backward != last_backward.end()) graph_.add_dependency(reduce, backward->second);
    }
  }

  /// What follows the last compute op of a stage, in the framework's order. Absent types are skipped.
  void chain_tail(int stage_index) {
    const StageOps& stage = stages_[static_cast<std::size_t>(stage_index)];
    std::vector<OpId> tail;
    const auto append = [&](OpType type) {
      tail.insert(tail.end(), stage.of(type).begin(), stage.of(type).end());
    };
    const auto& computes = graph_.compute_chain[static_cast<std::size_t>(stage_index)];
    if (!computes.empty()) {
      tail.push_back(*std::ranges::max_element(computes, {}, [&](OpId op) { return end(op); }));
    }
    append(OpType::Gc);
    append(OpType::LayernormGradsAllReduce);
    if (overlapped_ && !stage.of(OpType::GradsReduceScatter).empty() &&
        !stage.of(OpType::LayernormGradsAllReduce).empty()) {
      graph_.add_dependency(stage.of(OpType::LayernormGradsAllReduce).front(),
                            stage.of(OpType::GradsReduceScatter).back());
    }
    append(OpType::EmbeddingGradsAllReduce);
    append(overlapped_ ? OpType::SeparateGradsAllReduce : OpType::GradsReduceScatter);
    append(OpType::OptimizerClipMainGrad);
    append(OpType::Optimizer);
    chain(tail);
  }

  void add_group(std::vector<OpId> members, bool spans) {
    std::ranges::sort(members);
    for (const OpId op : members) graph_.group_of[op] = GroupId(graph_.groups.size());
    graph_.groups.push_back({std::move(members), spans});
  }

  void pair_transfers(const Direction& direction) {
    const int stages = job_.stages();
    if (stages == 1) return;
    for (int stage = 0; stage < stages; ++stage) {
      const int peer = (stage + direction.towards + stages) % stages;
      const auto& sends = partners_[{direction.send, stage}];
      const auto& receives = partners_[{direction.recv, peer}];
      for (std::size_t i = 0; i < std::min(sends.size(), receives.size()); ++i)
        add_group({sends[i], receives[i]}, false);
      if (sends.size() != receives.size()) {
        report_.add(Severity::Info,
                    "sends and receives between two stages differ in number; the rest run alone",
                    std::to_string(sends.size()) + " " + std::string(op_type_name(direction.send)) +
                        " of stage " + std::to_string(stage) + ", " + std::to_string(receives.size()) + " " +
                        std::string(op_type_name(direction.recv)) + " of stage " + std::to_string(peer));
      }
      if (direction.towards > 0 && peer == stage + 1 && sends.empty() && receives.empty()) {
        report_.add(Severity::Info,
                    "no transfer between two neighbouring stages is recorded; they run independently",
                    "stages " + std::to_string(stage) + " and " + std::to_string(peer));
      }
    }
  }

  void group_collectives() {
    std::map<std::pair<OpType, int>, std::vector<OpId>> whole_pipeline;
    for (std::size_t i = 0; i < job_.ops.size(); ++i) {
      const OpType type = info(OpId(i)).type;
      if (type == OpType::EmbeddingGradsAllReduce || type == OpType::OptimizerClipMainGrad) {
        whole_pipeline[{type, info(OpId(i)).seq}].push_back(OpId(i));
      } else if (is_dp_stream(type) || type == OpType::SeparateGradsAllReduce) {
        add_group({OpId(i)}, true);
      }
    }
    for (auto& [key, members] : whole_pipeline) add_group(std::move(members), spans_replicas(key.first));
  }

  /// What would join the ranks at the end of a step may not be recorded; then nothing is modelled in its
  /// place.
  void report_uncoupled() {
    const auto is_recorded = [&](OpType type) {
      return std::ranges::any_of(job_.ops, [&](const TemplateOp& op) { return op.type == type; });
    };
    const bool couples =
        std::ranges::any_of(graph_.groups, [](const OpGroup& group) { return group.spans_replicas; });
    if (job_.replicas() > 1 && !couples) {
      report_.add(Severity::Info, "nothing that joins replicas is recorded; they run independently",
                  job_.source);
    } else if (job_.ranks.size() > 1 && !is_recorded(OpType::OptimizerClipMainGrad)) {
      report_.add(Severity::Info,
                  "no gradient clipping is recorded; nothing joins all ranks at the end of a step",
                  job_.source);
    }
  }

  void group_rest() {
    for (std::size_t i = 0; i < job_.ops.size(); ++i) {
      if (is_communication(info(OpId(i)).type) && !graph_.group_of[OpId(i)]) add_group({OpId(i)}, false);
    }
  }

  const RecordedJob& job_;
  ImportReport& report_;
  OpGraph graph_;
  std::vector<StageOps> stages_;
  std::map<std::pair<OpType, int>, std::vector<OpId>> partners_;
  int max_chunk_ = -1;
  bool overlapped_ = false;
};

}  // namespace

std::size_t OpGraph::edge_count() const {
  std::size_t edges = 0;
  for (const auto& before : depends_on) edges += before.size();
  return edges;
}

bool OpGraph::add_dependency(OpId op, OpId before) {
  auto& list = depends_on[op];
  const auto at = std::ranges::lower_bound(list, before);
  if (at != list.end() && *at == before) return false;
  list.insert(at, before);
  return true;
}

OpGraph build_op_graph(const RecordedJob& job, ImportReport& report) {
  return Builder(job, report).build();
}

}  // namespace prism
