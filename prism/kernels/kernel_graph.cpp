// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/kernel_graph.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "prism/kernels/break_cycles.hpp"

namespace prism {

namespace {

using Members = std::vector<std::pair<std::uint32_t, std::uint32_t>>;  // (rank, vertex), ascending

/// How far an edge can be doubted; the more, the sooner it goes where edges contradict each other.
enum Doubt : std::uint8_t {
  kCertain,   // order of a lane, launches
  kRecorded,  // recorded waits, whose ops were told apart by time
  kMatched,   // members of a communication meet
  kInferred,
};

/// Members of one communication as template vertices, and in how many steps they met.
struct JoinSupport {
  std::size_t steps = 0;
  bool untraced = false;
};

class Assembler {
 public:
  Assembler(const KernelRecording& job, const JobSteps& steps) : job_(job), steps_(steps) {}

  KernelGraph run() {
    for (std::size_t r = 0; r < job_.ranks.size(); ++r) {
      result_.templates.push_back(make_rank_template(job_.ranks[r], steps_.chosen[r]));
      entry_.emplace_back(result_.templates[r].vertices.size(), kNone);
      exit_.emplace_back(result_.templates[r].vertices.size(), kNone);
      for (std::uint32_t v = 0; v < result_.templates[r].vertices.size(); ++v) {
        add_vertex(static_cast<std::uint32_t>(r), v);
      }
    }
    add_joins();
    add_untraced_waits();
    for (std::uint32_t r = 0; r < job_.ranks.size(); ++r) add_edges(r);
    result_.contradictory = break_cycles(nodes_.size(), edges_);
    add_step_end();
    finish();
    return std::move(result_);
  }

 private:
  static constexpr std::uint32_t kNone = kAbsent;

  std::uint32_t add_node(KernelNode node) {
    nodes_.push_back(std::move(node));
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  }
  void add_edge(std::uint32_t before, std::uint32_t after, Doubt doubt = kCertain) {
    edges_.push_back({before, after, doubt});
  }

  void add_vertex(std::uint32_t rank, std::uint32_t vertex) {
    const VertexKind kind = result_.templates[rank].vertices[vertex].kind;
    if (kind != VertexKind::GpuOp) {
      const KernelRole role = kind == VertexKind::CallBegin ? KernelRole::CallBegin
                              : kind == VertexKind::CallEnd ? KernelRole::CallEnd
                                                            : KernelRole::LaneStart;
      entry_[rank][vertex] = exit_[rank][vertex] = add_node({role, rank, vertex, 0, {}});
      return;
    }
    entry_[rank][vertex] = add_node({KernelRole::Gap, rank, vertex, 0, {}});
    const KernelRole role = is_communication(rank, vertex) ? KernelRole::Transfer : KernelRole::Compute;
    exit_[rank][vertex] = add_node({role, rank, vertex, 0, {}});
    add_edge(entry_[rank][vertex], exit_[rank][vertex]);
  }

  /// The communication op of a vertex in a step; nothing if it is absent or computes.
  [[nodiscard]] std::optional<std::uint32_t> communication_at(std::uint32_t rank, std::uint32_t vertex,
                                                              std::size_t step) const {
    const std::uint32_t op = result_.templates[rank].at(vertex, step);
    if (op == kAbsent) return std::nullopt;
    return job_.communication[rank].of_gpu_op[op];
  }

  [[nodiscard]] bool is_communication(std::uint32_t rank, std::uint32_t vertex) const {
    for (std::size_t k = 0; k < steps_.size(); ++k) {
      if (communication_at(rank, vertex, k)) return true;
    }
    return false;
  }

  /// Vertex of a matched op, if it is in a chosen step.
  [[nodiscard]] std::uint32_t vertex_of(const CommMember& member) const {
    const std::uint32_t op = job_.communication[member.trace].ops[member.op].gpu_op;
    return result_.templates[member.trace].op_vertex[op];
  }

  void add_joins() {
    std::map<Members, JoinSupport> support;
    for (const MatchedCollective& match : job_.matching.matched) {
      Members members;
      for (const CommMember& member : match.members) {
        if (const std::uint32_t vertex = vertex_of(member); vertex != kAbsent) {
          members.emplace_back(static_cast<std::uint32_t>(member.trace), vertex);
        }
      }
      std::ranges::sort(members);
      if (members.size() < 2) continue;
      JoinSupport& found = support[members];
      ++found.steps;
      found.untraced = found.untraced || match.untraced > 0;
    }
    for (const auto& [members, found] : support) {
      if (2 * found.steps < steps_with_all(members)) {
        result_.split_matches += found.steps;
        continue;
      }
      const auto [rank, vertex] = members.front();
      const std::uint32_t join = add_node({KernelRole::Join, rank, vertex, 0, members});
      std::uint32_t go = join;
      if (found.untraced) {
        go = add_node({KernelRole::Waiting, rank, vertex, 0, members});
        add_edge(join, go);
      }
      for (const auto& [r, v] : members) {
        add_edge(entry_[r][v], join, kMatched);
        add_edge(go, exit_[r][v], kMatched);
        joined_.emplace(r, v);
      }
    }
  }

  [[nodiscard]] std::size_t steps_with_all(const Members& members) const {
    std::size_t count = 0;
    for (std::size_t k = 0; k < steps_.size(); ++k) {
      const auto present = [&](const auto& m) {
        return result_.templates[m.first].at(m.second, k) != kAbsent;
      };
      if (std::ranges::all_of(members, present)) ++count;
    }
    return count;
  }

  /// Communication whose other members were not traced waits for them, as long as it was recorded to.
  void add_untraced_waits() {
    for (const LocalOp& local : job_.matching.local) {
      if (!waits_for_untraced(local.reason)) continue;
      const auto rank = static_cast<std::uint32_t>(local.op.trace);
      const std::uint32_t vertex = vertex_of(local.op);
      if (vertex == kAbsent || !joined_.emplace(rank, vertex).second) continue;
      const std::uint32_t waiting = add_node({KernelRole::Waiting, rank, vertex, 0, {{rank, vertex}}});
      add_edge(entry_[rank][vertex], waiting);
      add_edge(waiting, exit_[rank][vertex]);
    }
  }

  void add_edges(std::uint32_t rank) {
    for (const TemplateEdge& edge : result_.templates[rank].edges) {
      std::uint32_t from = exit_[rank][edge.before];
      const bool is_certain = edge.kind == DependencyKind::Stream || edge.kind == DependencyKind::Host ||
                              edge.kind == DependencyKind::Launch;
      const Doubt doubt = is_certain ? kCertain : is_inferred(edge.kind) ? kInferred : kRecorded;
      if (edge.kind == DependencyKind::Launch) {
        const std::uint32_t launch = add_node({KernelRole::Launch, rank, edge.after, edge.before, {}});
        add_edge(from, launch);
        from = launch;
      }
      add_edge(from, entry_[rank][edge.after], doubt);
    }
  }

  /// Kernels of a stream may overlap, so the op that ends a step may be followed by one that ends before it. A graph ends
  /// with what nothing follows: here such ops meet.
  void add_step_end() {
    const std::vector<bool> keep = needed();
    std::vector<bool> is_followed(nodes_.size(), false);
    for (const auto& [from, to, doubt] : edges_) is_followed[from] = is_followed[from] || keep[to];
    std::set<std::pair<std::uint32_t, std::uint32_t>> last;
    for (std::size_t k = 0; k < steps_.size(); ++k) {
      const auto [rank, vertex] = last_to_end(k);
      if (is_followed[exit_[rank][vertex]]) last.emplace(rank, vertex);
    }
    if (last.empty()) return;
    const Members members(last.begin(), last.end());
    const std::uint32_t end =
        add_node({KernelRole::StepEnd, members.front().first, members.front().second, 0, members});
    for (const auto& [rank, vertex] : members) add_edge(exit_[rank][vertex], end);
  }

  /// (rank, vertex) of the op that ends a step.
  [[nodiscard]] std::pair<std::uint32_t, std::uint32_t> last_to_end(std::size_t step) const {
    std::pair<std::uint32_t, std::uint32_t> last;
    std::int64_t latest = std::numeric_limits<std::int64_t>::min();
    for (std::uint32_t r = 0; r < job_.ranks.size(); ++r) {
      for (const std::uint32_t op : job_.ranks[r].steps[steps_.chosen[r][step]].gpu_ops) {
        const std::int64_t end = job_.matching.clocks[r].aligned(job_.traces[r].gpu_ops[op].end_ns());
        if (end <= latest) continue;
        latest = end;
        last = {r, result_.templates[r].op_vertex[op]};
      }
    }
    return last;
  }

  /// Which nodes some GPU op waits for, directly or not. The others (the host after its last launch) end no step.
  [[nodiscard]] std::vector<bool> needed() const {
    std::vector<std::vector<std::uint32_t>> before(nodes_.size());
    for (const auto& [from, to, doubt] : edges_) before[to].push_back(from);
    std::vector<bool> keep(nodes_.size(), false);
    std::vector<std::uint32_t> open;
    for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
      const KernelRole role = nodes_[n].role;
      if (role == KernelRole::Compute || role == KernelRole::Transfer || role == KernelRole::StepEnd)
        open.push_back(n);
    }
    for (const std::uint32_t n : open) keep[n] = true;
    while (!open.empty()) {
      const std::uint32_t n = open.back();
      open.pop_back();
      for (const std::uint32_t p : before[n]) {
        if (keep[p]) continue;
        keep[p] = true;
        open.push_back(p);
      }
    }
    return keep;
  }

  void finish() {
    const std::vector<bool> keep = needed();
    StepGraphBuilder builder;
    std::vector<std::uint32_t> id(nodes_.size(), kNone);
    std::vector<std::uint32_t> kept;
    for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
      if (!keep[n]) continue;
      id[n] = builder.add_node();
      kept.push_back(n);
    }
    for (const auto& [from, to, doubt] : edges_) {
      if (keep[from] && keep[to]) builder.add_edge(id[from], id[to]);
    }
    auto built =
        builder.build(job_.traces.front().source, [&](std::uint32_t n) { return label(nodes_[kept[n]]); });
    result_.graph = std::move(built.graph);
    result_.nodes = IdVector<NodeId, KernelNode>(kept.size());
    for (std::size_t n = 0; n < kept.size(); ++n)
      result_.nodes[built.node_of[n]] = std::move(nodes_[kept[n]]);
  }

  [[nodiscard]] std::string label(const KernelNode& node) const {
    return "activity " + std::to_string(node.vertex) + " of " + job_.traces[node.rank].source;
  }

  const KernelRecording& job_;
  const JobSteps& steps_;
  KernelGraph result_;
  std::vector<KernelNode> nodes_;
  std::vector<DoubtfulEdge> edges_;
  std::vector<std::vector<std::uint32_t>>
      entry_;  // [rank][vertex] node that waits for the vertex's dependencies
  std::vector<std::vector<std::uint32_t>> exit_;  // [rank][vertex] node whose finish is the vertex's end
  std::set<std::pair<std::uint32_t, std::uint32_t>> joined_;
};

}  // namespace

KernelGraph build_kernel_graph(const KernelRecording& job, const JobSteps& steps) {
  return Assembler(job, steps).run();
}

}  // namespace prism
