// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/build_kernel_model.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "prism/kernels/job_steps.hpp"
#include "prism/kernels/kernel_durations.hpp"
#include "prism/kernels/kernel_graph.hpp"
#include "prism/kernels/node_names.hpp"
#include "prism/kernels/op_phases.hpp"
#include "prism/kernels/parallel_layout.hpp"
#include "prism/kernels/rank_activity.hpp"
#include "prism/kernels/split_collectives.hpp"
#include "prism/stats/random.hpp"

namespace prism {

namespace {

constexpr std::uint64_t kLaneMask = 0x7fffffffffffffff;  // ids of HIP streams have 64 bits
constexpr double kSameKindShare = 0.01;  // of the ops: steps that differ by no more are of one kind

Category category_of(const KernelNode& node, bool unexplained, bool host_bound, bool pair) {
  switch (node.role) {
    case KernelRole::LaneStart:
      return Category::StepStart;
    case KernelRole::CallBegin:
      return Category::HostWork;
    case KernelRole::CallEnd:
      return Category::QueueLag;
    case KernelRole::Launch:
      return host_bound ? Category::HostWork : Category::QueueLag;
    case KernelRole::Gap:
      return unexplained ? Category::Unexplained : Category::QueueLag;
    case KernelRole::Waiting:
      return Category::Waiting;
    case KernelRole::Transfer:
      return pair ? Category::PointToPoint : Category::Collective;
    case KernelRole::Join:
    case KernelRole::StepEnd:
    case KernelRole::Compute:
      break;
  }
  return Category::Compute;
}

NodeKind kind_of(KernelRole role) {
  switch (role) {
    case KernelRole::Join:
    case KernelRole::StepEnd:
      return NodeKind::Join;
    case KernelRole::CallBegin:
    case KernelRole::Compute:
    case KernelRole::Transfer:
      return NodeKind::Op;
    default:
      return NodeKind::Delay;
  }
}

/// Steps by what their GPUs ran: equal numbers where the communication is the same and no more than a hundredth of the ops
/// differ.
std::vector<int> step_kinds(const KernelRecording& job, const JobSteps& steps, const KernelGraph& graph) {
  std::vector<int> kinds;
  std::vector<std::size_t> first_of;  // [kind] its first step
  for (std::size_t k = 0; k < steps.size(); ++k) {
    int kind = -1;
    for (std::size_t candidate = 0; candidate < first_of.size() && kind < 0; ++candidate) {
      std::size_t ops = 0;
      std::size_t different = 0;
      bool same_communication = true;
      for (std::size_t r = 0; r < graph.templates.size(); ++r) {
        const RankTemplate& rank = graph.templates[r];
        for (std::uint32_t v = 0; v < rank.vertices.size(); ++v) {
          if (rank.vertices[v].kind != VertexKind::GpuOp) continue;
          ++ops;
          const std::uint32_t here = rank.at(v, k);
          const std::uint32_t there = rank.at(v, first_of[candidate]);
          if ((here == kAbsent) == (there == kAbsent)) continue;
          ++different;
          const bool communicates =
              job.communication[r].of_gpu_op[here == kAbsent ? there : here].has_value();
          same_communication = same_communication && !communicates;
        }
      }
      if (same_communication && static_cast<double>(different) <= kSameKindShare * static_cast<double>(ops)) {
        kind = static_cast<int>(candidate);
      }
    }
    if (kind < 0) {
      kind = static_cast<int>(first_of.size());
      first_of.push_back(k);
    }
    kinds.push_back(kind);
  }
  return kinds;
}

/// Describes nodes and makes pools of what they took.
class Describer {
 public:
  Describer(const KernelRecording& job, const JobSteps& steps, const KernelGraph& graph,
            const KernelDurations& durations, const ParallelLayout& layout)
      : job_(job), steps_(steps), graph_(graph), durations_(durations), layout_(layout) {
    for (std::size_t r = 0; r < job.ranks.size(); ++r) {
      places_.push_back(find_op_places(job.traces[r], job.ranks[r].launches, job.communication[r]));
    }
    for (const KernelNode& node : graph.nodes) {
      if (node.role != KernelRole::Join && node.role != KernelRole::Waiting) continue;
      for (const auto& member : node.members) met_in_.try_emplace(member, &node);
    }
    for (const KernelNode& node : graph.nodes) {
      if (node.role != KernelRole::Launch) continue;
      const bool at_end = vertex(node.rank, node.call).kind == VertexKind::CallEnd;  // right after its begin
      launched_.try_emplace({node.rank, at_end ? node.call - 1 : node.call}, node.vertex);
    }
  }

  void fill(StepModel& model) {
    model.nodes = IdVector<NodeId, Node>(graph_.nodes.size());
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) model.nodes[NodeId(i)] = describe(NodeId(i));
    add_compute_pools(model);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (model.nodes[NodeId(i)].kind == NodeKind::Join ||
          graph_.nodes[NodeId(i)].role == KernelRole::Compute)
        continue;
      add_own_pool(NodeId(i), model);
    }
  }

 private:
  [[nodiscard]] const TemplateVertex& vertex(std::uint32_t rank, std::uint32_t v) const {
    return graph_.templates[rank].vertices[v];
  }

  /// A step's instance of a vertex: GPU op or call of the trace.
  [[nodiscard]] std::uint32_t example(std::uint32_t rank, std::uint32_t v) const {
    for (std::size_t k = 0; k < steps_.size(); ++k) {
      if (graph_.templates[rank].at(v, k) != kAbsent) return graph_.templates[rank].at(v, k);
    }
    return kAbsent;
  }

  [[nodiscard]] std::uint64_t stable_id(const KernelNode& node) const {
    std::uint64_t id = mix_id(0x6b65726e656c, static_cast<std::uint64_t>(node.role));
    id = mix_vertex(id, node.rank, node.vertex);
    if (node.role == KernelRole::Launch) id = mix_vertex(id, node.rank, node.call);
    for (const auto& [rank, v] : node.members) id = mix_vertex(id, rank, v);
    return id;
  }

  [[nodiscard]] std::uint64_t mix_vertex(std::uint64_t id, std::uint32_t rank, std::uint32_t of) const {
    const TemplateVertex& v = vertex(rank, of);
    id = mix_id(id, rank);
    id = mix_id(id, static_cast<std::uint64_t>(v.kind));
    id = mix_id(id, v.lane);
    id = mix_id(id, v.signature);
    return mix_id(id, v.occurrence);
  }

  [[nodiscard]] std::string rank_text(std::uint32_t rank) const {
    return "rank " + std::to_string(job_.traces[rank].rank.value_or(static_cast<int>(rank)));
  }

  [[nodiscard]] std::string numbered(const std::string& what, const KernelNode& node) const {
    return numbered_node_name(what, vertex(node.rank, node.vertex).occurrence, rank_text(node.rank));
  }

  [[nodiscard]] const std::string& short_name(std::uint32_t rank, NameId name) {
    const std::string& full = job_.traces[rank].name(name);
    const auto [place, is_new] = short_names_.try_emplace(full);
    if (is_new) {
      place->second = parse_kernel_name(full).base;
      while (place->second.ends_with(' ')) place->second.pop_back();
      if (place->second.empty()) place->second = full;
    }
    return place->second;
  }

  [[nodiscard]] std::string op_name(std::uint32_t rank, std::uint32_t v) {
    return short_name(rank, job_.traces[rank].gpu_ops[example(rank, v)].name);
  }

  [[nodiscard]] std::string name_of(const KernelNode& node) {
    const TemplateVertex& v = vertex(node.rank, node.vertex);
    switch (node.role) {
      case KernelRole::LaneStart:
        if (v.kind == VertexKind::ThreadStart) return "start of a thread of " + rank_text(node.rank);
        return "stream " + std::to_string(job_.ranks[node.rank].streams.streams[v.lane].stream) + " of " +
               rank_text(node.rank) + " free";
      case KernelRole::CallBegin:
      case KernelRole::CallEnd: {
        const std::string_view before = node.role == KernelRole::CallBegin ? kHostTo : kReturnOf;
        return numbered(std::string(before) + call_name(node.rank, node.vertex), node);
      }
      case KernelRole::Launch:
        return numbered("launch of " + op_name(node.rank, node.vertex), node);
      case KernelRole::Gap:
        return numbered("gap before " + op_name(node.rank, node.vertex), node);
      case KernelRole::Join:
        return numbered("join of " + op_name(node.rank, node.vertex), node);
      case KernelRole::Waiting:
        return numbered("untraced members of " + op_name(node.rank, node.vertex), node);
      case KernelRole::StepEnd:
        return "end of the step";
      case KernelRole::Compute:
      case KernelRole::Transfer:
        break;
    }
    return numbered(op_name(node.rank, node.vertex), node);
  }

  /// The communication op of a node's first instance; nullptr if it computes or is no op.
  [[nodiscard]] const CommunicationOp* communication(std::uint32_t rank, std::uint32_t v) const {
    const std::uint32_t op = example(rank, v);
    if (op == kAbsent || vertex(rank, v).kind != VertexKind::GpuOp) return nullptr;
    const auto index = job_.communication[rank].of_gpu_op[op];
    return index ? &job_.communication[rank].ops[*index] : nullptr;
  }

  /// Whether a communication goes on over further replicas of the traced ranks: along the data-parallel axis, or, where
  /// the layout is unknown, as a collective with members that were not traced.
  [[nodiscard]] bool over_replicas(const KernelNode& node) const {
    const CommunicationOp* comm = communication(node.rank, node.vertex);
    if (comm == nullptr || is_point_to_point(comm->kind)) return false;
    const auto index = static_cast<std::size_t>(comm - job_.communication[node.rank].ops.data());
    const auto group = job_.matching.groups.of_op[node.rank][index];
    const auto axis = group ? layout_.axis_of_group[*group] : std::nullopt;
    if (axis) return *axis == Axis::Dp;
    return node.role == KernelRole::Waiting && !layout_.known;
  }

  /// Stream of what runs on the GPU, thread of what runs on the host.
  [[nodiscard]] std::int64_t lane_of(const KernelNode& node) const {
    const TemplateVertex& v = vertex(node.rank, node.vertex);
    if (v.kind == VertexKind::GpuOp || v.kind == VertexKind::StreamStart) {
      return static_cast<std::int64_t>(job_.ranks[node.rank].streams.streams[v.lane].stream & kLaneMask);
    }
    return v.lane;
  }

  Node describe(NodeId id) {
    const KernelNode& from = graph_.nodes[id];
    Node node{.kind = kind_of(from.role),
              .name = name_of(from),
              .rank = static_cast<std::int32_t>(from.rank),
              .lane = lane_of(from),
              .cell = layout_.cell_of[from.rank],
              .id = stable_id(from)};
    node.draw_id = node.id;
    const bool of_op = vertex(from.rank, from.vertex).kind == VertexKind::GpuOp;
    if (of_op && (from.role == KernelRole::Compute || from.role == KernelRole::Transfer)) {
      const OpPlace& place = places_[from.rank][example(from.rank, from.vertex)];
      node.phase = place.phase;
      node.microbatch = place.microbatch;
      node.stage = place.stage;
    }
    const bool communicates = from.role == KernelRole::Join || from.role == KernelRole::Waiting ||
                              from.role == KernelRole::Transfer;
    if (communicates) node.over_replicas = over_replicas(from);
    if (from.role == KernelRole::Transfer) {
      const auto met = met_in_.find({from.rank, from.vertex});
      if (met != met_in_.end()) node.draw_id = stable_id(*met->second);
    }
    return node;
  }

  [[nodiscard]] std::string call_name(std::uint32_t rank, std::uint32_t v) const {
    return job_.traces[rank].name(job_.traces[rank].calls[example(rank, v)].name);
  }

  /// What a call is made for: the op it launches, else the call itself.
  [[nodiscard]] std::string call_target(std::uint32_t rank, std::uint32_t v) {
    const auto launched = launched_.find({rank, v});
    return launched != launched_.end() ? op_name(rank, launched->second) : call_name(rank, v);
  }

  [[nodiscard]] std::string key_of(const KernelNode& node, Category category) {
    switch (node.role) {
      case KernelRole::Compute:
        return op_name(node.rank, node.vertex);
      case KernelRole::Transfer: {
        const CommunicationOp* comm = communication(node.rank, node.vertex);
        return transfer_key(node.rank, *comm);
      }
      case KernelRole::CallBegin:
        return "host before " + call_target(node.rank, node.vertex);
      case KernelRole::CallEnd:
        return "return of " + call_name(node.rank, node.vertex);
      case KernelRole::LaneStart:
        return vertex(node.rank, node.vertex).kind == VertexKind::ThreadStart ? "host at step start"
                                                                              : "stream at step start";
      case KernelRole::Launch:
        return category == Category::HostWork ? "inside " + call_name(node.rank, node.call)
                                              : "launch by " + call_name(node.rank, node.call);
      case KernelRole::Waiting: {
        const CommunicationOp* comm = communication(node.rank, node.vertex);
        return "wait for untraced ranks, " + std::string(collective_kind_name(comm->kind));
      }
      default:
        return category == Category::Unexplained ? "unexplained before " + op_name(node.rank, node.vertex)
                                                 : "gap between kernels";
    }
  }

  [[nodiscard]] std::string transfer_key(std::uint32_t rank, const CommunicationOp& comm) const {
    const auto index = static_cast<std::size_t>(&comm - job_.communication[rank].ops.data());
    const auto group = job_.matching.groups.of_op[rank][index];
    const GroupPlacement placement =
        group ? placement_of(job_.traces, job_.matching.groups.groups[*group]) : GroupPlacement::Unknown;
    const std::int32_t size = group ? job_.matching.groups.groups[*group].size : comm.group_size;
    std::string key = communication_pool_key(comm.kind, size, placement, comm.bytes,
                                             job_.communication[rank].kernels[comm.kernel]);
    const auto axis = group ? layout_.axis_of_group[*group] : std::nullopt;
    if (axis) key = std::string(axis_name(*axis)) + " " + key;
    return is_point_to_point(comm.kind) ? key + pair_text(comm) : key;
  }

  /// ", stage 0 to 1" of a send or receive between pipeline stages, else its ranks; nothing if they are not recorded.
  [[nodiscard]] std::string pair_text(const CommunicationOp& comm) const {
    if (comm.source < 0 || comm.destination < 0) return "";
    const bool stages = layout_.known && layout_.mesh.size(Axis::Pp) > 1;
    const auto place = [&](std::int32_t rank) {
      return std::to_string(stages ? layout_.mesh.coordinate(rank, Axis::Pp) : rank);
    };
    return (stages ? ", stage " : ", rank ") + place(comm.source) + " to " + place(comm.destination);
  }

  /// Kernels of one rank with one signature are members of one class.
  void add_compute_pools(StepModel& model) {
    std::map<std::pair<std::uint32_t, std::uint64_t>, std::vector<NodeId>> classes;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const KernelNode& node = graph_.nodes[NodeId(i)];
      if (node.role != KernelRole::Compute) continue;
      classes[{node.rank, vertex(node.rank, node.vertex).signature}].push_back(NodeId(i));
    }
    for (const auto& [key, members] : classes) {
      std::vector<double> values;
      for (std::size_t k = 0; k < steps_.size(); ++k) {
        for (const NodeId member : members)
          values.push_back(durations_.value_ns[member.value * steps_.size() + k]);
      }
      const KernelNode& first = graph_.nodes[members.front()];
      const ClassId id = model.pools.add({.key = key_of(first, Category::Compute),
                                          .category = Category::Compute,
                                          .rank = static_cast<std::int32_t>(first.rank),
                                          .members = static_cast<std::uint32_t>(members.size())},
                                         values, 1);
      for (std::size_t m = 0; m < members.size(); ++m) {
        model.nodes[members[m]].duration_class = id;
        model.nodes[members[m]].member = static_cast<std::uint32_t>(m);
      }
    }
  }

  void add_own_pool(NodeId id, StepModel& model) {
    const KernelNode& node = graph_.nodes[id];
    const CommunicationOp* comm = communication(node.rank, node.vertex);
    const bool pair = node.role == KernelRole::Transfer && comm != nullptr && is_point_to_point(comm->kind);
    const Category category =
        category_of(node, durations_.unexplained[id.value], durations_.host_bound[id.value], pair);
    const double* values = durations_.value_ns.data() + id.value * steps_.size();
    model.nodes[id].duration_class = model.pools.add(
        {.key = key_of(node, category), .category = category, .rank = static_cast<std::int32_t>(node.rank)},
        std::span(values, steps_.size()), 1);
  }

  const KernelRecording& job_;
  const JobSteps& steps_;
  const KernelGraph& graph_;
  const KernelDurations& durations_;
  const ParallelLayout& layout_;
  std::vector<std::vector<OpPlace>> places_;                                     // [rank][GPU op]
  std::map<std::pair<std::uint32_t, std::uint32_t>, const KernelNode*> met_in_;  // (rank, vertex) -> join
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t>
      launched_;  // (rank, call) -> first op, vertices
  std::map<std::string, std::string> short_names_;
};

std::string source_of(const KernelRecording& job) {
  if (job.traces.size() == 1) return job.traces.front().source;
  const std::string& first = job.traces.front().source;
  const auto slash = first.find_last_of('/');
  return slash == std::string::npos ? first : first.substr(0, slash);
}

/// What the profiler did not record and times could not settle.
void report_left_out(const KernelRecording& job, const KernelGraph& graph, ImportReport& report) {
  const auto say = [&](const char* reason, std::size_t count) {
    if (count > 0) report.add({Severity::Info, reason, count, {}});
  };
  std::size_t contradicted = 0;
  for (const RankRecording& rank : job.ranks) {
    for (const std::size_t of_kind : rank.dependencies.contradicted) contradicted += of_kind;
  }
  std::size_t unsupported = 0;
  for (const RankTemplate& rank : graph.templates) {
    contradicted += rank.contradicted;
    unsupported += rank.unsupported;
  }
  say("dependencies between streams that the recorded times rule out (left out)", contradicted);
  say("inferred dependencies that less than half of the steps show (left out)", unsupported);
  say("dependencies that the steps order differently (left out)", graph.contradictory);
  say("communication whose members are other ops from step to step (not joined across ranks)",
      graph.split_matches);
}

/// How many edges of each inferred kind the graph holds.
void report_inferred(const KernelGraph& graph, ImportReport& report) {
  std::array<std::size_t, kDependencyKindCount> count = {};
  for (const RankTemplate& rank : graph.templates) {
    for (const TemplateEdge& edge : rank.edges) ++count[static_cast<std::size_t>(edge.kind)];
  }
  for (std::size_t kind = 0; kind < count.size(); ++kind) {
    const auto of = static_cast<DependencyKind>(kind);
    if (!is_inferred(of) || count[kind] == 0) continue;
    report.add({Severity::Info,
                "dependencies inferred from times: " + std::string(dependency_name(of)),
                count[kind],
                {}});
  }
}

}  // namespace

StepModel build_kernel_model(const KernelRecording& job, ImportReport report) {
  const JobSteps steps = find_job_steps(job, report);
  const KernelGraph graph = build_kernel_graph(job, steps);
  const KernelDurations durations = measure_durations(job, steps, graph);
  const ParallelLayout layout = find_layout(job.traces, job.matching.groups);
  report_left_out(job, graph, report);
  report_inferred(graph, report);
  StepModel model;
  Describer(job, steps, graph, durations, layout).fill(model);
  model.source = source_of(job);
  model.mesh = layout.mesh;
  model.template_ranks = static_cast<std::uint32_t>(job.traces.size());
  model.world_ranks = static_cast<std::uint32_t>(layout.world);
  model.cells = layout.cells;
  model.graph = graph.graph;
  model.steps = steps.numbers;
  for (std::size_t k = 0; k < steps.size(); ++k) {
    model.observed_ns.push_back(static_cast<double>(steps.end_ns[k] - steps.begin_ns[k]));
  }
  model.step_kinds = step_kinds(job, steps, graph);
  model.lead_ns = static_cast<double>(steps.lead_ns);
  model.recorded_start_ns = durations.start_ns;
  model.activity = find_rank_activity(job, steps);
  for (const TraceClock& clock : job.matching.clocks) {
    model.clock_offsets_ns.push_back(static_cast<double>(clock.offset_ns));
  }
  model.report = std::move(report);
  return model;
}

}  // namespace prism
