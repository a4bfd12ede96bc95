// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/kernel_durations.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "prism/model/duration_pools.hpp"

namespace prism {

namespace {

constexpr double kUsualGapNs = 20'000;  // beyond the rank's usual gap; a later start is unexplained

constexpr std::int64_t kLongLaunchNs = 100'000;  // a launch call this long did more than enqueue

class Measure {
 public:
  Measure(const KernelRecording& job, const JobSteps& steps, const KernelGraph& graph)
      : job_(job), steps_(steps), graph_(graph), finish_(graph.nodes.size()) {
    result_.value_ns.resize(graph.nodes.size() * steps.size());
    result_.start_ns.resize(graph.nodes.size() * steps.size(), std::numeric_limits<double>::quiet_NaN());
    result_.unexplained.resize(graph.nodes.size(), false);
    result_.host_bound.resize(graph.nodes.size(), false);
  }

  KernelDurations run() {
    for (std::size_t k = 0; k < steps_.size(); ++k) walk(k);
    return std::move(result_);
  }

 private:
  /// A time of a rank as nanoseconds since the graph's time zero in a step.
  [[nodiscard]] double since_zero(std::size_t rank, std::int64_t time_ns, std::size_t step) const {
    return static_cast<double>(job_.matching.clocks[rank].aligned(time_ns) - steps_.begin_ns[step] +
                               steps_.lead_ns);
  }
  [[nodiscard]] double step_end(std::size_t step) const {
    return static_cast<double>(steps_.end_ns[step] - steps_.begin_ns[step] + steps_.lead_ns);
  }
  [[nodiscard]] std::uint32_t at(const KernelNode& node, std::uint32_t vertex, std::size_t step) const {
    return graph_.templates[node.rank].at(vertex, step);
  }
  [[nodiscard]] const GpuOp& op(std::size_t rank, std::uint32_t index) const {
    return job_.traces[rank].gpu_ops[index];
  }

  /// Latest end less latest start of the members that ran; the shortest end is when the transfer was over first.
  [[nodiscard]] std::optional<double> open_time(const KernelNode& node, std::size_t step) const {
    double start = -std::numeric_limits<double>::infinity();
    double end = std::numeric_limits<double>::infinity();
    for (const auto& [rank, vertex] : node.members) {
      const std::uint32_t index = graph_.templates[rank].at(vertex, step);
      if (index == kAbsent) continue;
      start = std::max(start, since_zero(rank, op(rank, index).start_ns, step));
      end = std::min(end, since_zero(rank, op(rank, index).end_ns(), step));
    }
    return end > start ? std::optional(end - start) : std::nullopt;
  }

  /// When a node can start: 0 if it waits for nothing. GPU clocks may be somewhat behind, so times can be negative.
  [[nodiscard]] double ready_at(NodeId id) const {
    const auto before = graph_.graph.predecessors(id);
    if (before.empty()) return 0;
    double ready = finish_[before.front().value];
    for (const NodeId other : before) ready = std::max(ready, finish_[other.value]);
    return ready;
  }

  void walk(std::size_t step) {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const NodeId id(i);
      const KernelNode& node = graph_.nodes[id];
      const double ready = ready_at(id);
      double value = 0;
      switch (node.role) {
        case KernelRole::LaneStart:
          value = lane_start(node, step);
          break;
        case KernelRole::CallBegin:
          if (const auto c = at(node, node.vertex, step); c != kAbsent) {
            value = since_zero(node.rank, job_.traces[node.rank].calls[c].start_ns, step) - ready;
          }
          break;
        case KernelRole::CallEnd:
          if (const auto c = at(node, node.vertex, step); c != kAbsent) {
            value = since_zero(node.rank, job_.traces[node.rank].calls[c].end_ns(), step) - ready;
          }
          break;
        case KernelRole::Launch:
          value = launch(id, node, step);
          break;
        case KernelRole::Gap:
          if (const auto o = at(node, node.vertex, step); o != kAbsent) {
            value = since_zero(node.rank, op(node.rank, o).start_ns, step) - ready;
            const double late = value - job_.ranks[node.rank].lags.gap_ns;
            if (late > kUsualGapNs) result_.unexplained[i] = true;
          } else {
            // What the step did not run must not end it, however late the host got there.
            value = std::min(0.0, step_end(step) - ready);
          }
          break;
        case KernelRole::Join:
        case KernelRole::StepEnd:
          break;
        case KernelRole::Waiting:
          value = waiting(node, step);
          break;
        case KernelRole::Compute:
        case KernelRole::Transfer:
          if (node.role == KernelRole::Transfer) value = kDidNotRunNs;
          if (const auto o = at(node, node.vertex, step); o != kAbsent) {
            value = since_zero(node.rank, op(node.rank, o).end_ns(), step) - ready;
            result_.start_ns[i * steps_.size() + step] = ready - static_cast<double>(steps_.lead_ns);
          }
          break;
      }
      result_.value_ns[i * steps_.size() + step] = value;
      finish_[i] = ready + value;
    }
  }

  /// A stream: until when it was busy with earlier work. A thread: when it made its first call of the step,
  /// unless another thread woke it.
  [[nodiscard]] double lane_start(const KernelNode& node, std::size_t step) const {
    const RankRecording& rank = job_.ranks[node.rank];
    const RankTemplate& rank_template = graph_.templates[node.rank];
    const auto first = first_in_lane(rank_template, node.vertex, step);
    if (!first) return 0;
    const std::uint32_t index = rank_template.at(*first, step);
    if (rank_template.vertices[node.vertex].kind == VertexKind::StreamStart) {
      const auto before = rank.streams.previous[index];
      if (!before) return 0;
      return std::max(0.0, since_zero(node.rank, rank.trace->gpu_ops[*before].end_ns(), step));
    }
    if (is_woken(rank_template, *first, step)) return 0;
    return since_zero(node.rank, rank.trace->calls[index].start_ns, step);
  }

  /// The first vertex of a lane that a step ran. The vertices of a lane follow its start.
  [[nodiscard]] static std::optional<std::uint32_t> first_in_lane(const RankTemplate& rank_template,
                                                                  std::uint32_t start, std::size_t step) {
    for (std::uint32_t v = start + 1; v < rank_template.vertices.size(); ++v) {
      const VertexKind kind = rank_template.vertices[v].kind;
      if (kind == VertexKind::StreamStart || kind == VertexKind::ThreadStart) break;
      if (rank_template.at(v, step) != kAbsent) return v;
    }
    return std::nullopt;
  }

  /// Whether another thread's call of the same step precedes a call.
  [[nodiscard]] static bool is_woken(const RankTemplate& rank_template, std::uint32_t vertex,
                                     std::size_t step) {
    auto edge = std::ranges::lower_bound(rank_template.edges, vertex, {}, &TemplateEdge::after);
    for (; edge != rank_template.edges.end() && edge->after == vertex; ++edge) {
      if (edge->kind == DependencyKind::Handoff && rank_template.at(edge->before, step) != kAbsent)
        return true;
    }
    return false;
  }

  /// The latency that a launch of this kind always has. If nothing but the launch held the op up and the call was long
  /// (it loaded a module, allocated memory), up to the call's end. The gap that follows is counted there.
  [[nodiscard]] double launch(NodeId id, const KernelNode& node, std::size_t step) {
    const RankRecording& rank = job_.ranks[node.rank];
    const std::uint32_t index = at(node, node.vertex, step);
    const std::uint32_t launched_by = at(node, node.call, step);
    if (index == kAbsent || launched_by == kAbsent || rank.launches.call_of[index] != launched_by) return 0;
    const HostCall& call = rank.trace->calls[launched_by];
    const double usual = std::max(0.0, rank.lags.launch(call.name) - rank.lags.gap_ns);
    const bool from_end = graph_.templates[node.rank].vertices[node.call].kind == VertexKind::CallEnd;
    if (from_end) return 0;
    const std::int64_t start = rank.trace->gpu_ops[index].start_ns;
    const auto before = rank.streams.previous[index];
    const bool stream_was_free =
        !before || static_cast<double>(start - rank.trace->gpu_ops[*before].end_ns()) > kUsualGapNs;
    if (call.duration_ns < kLongLaunchNs || !stream_was_free) return usual;
    const double waited = static_cast<double>(start - call.start_ns) - rank.lags.gap_ns;
    const double longest = static_cast<double>(call.duration_ns) + usual;
    if (std::min(waited, longest) <= usual) return usual;
    result_.host_bound[id.value] = true;
    return std::min(waited, longest);
  }

  /// What a communication took longer than its transfer, once all traced members were there.
  [[nodiscard]] double waiting(const KernelNode& node, std::size_t step) const {
    const auto open = open_time(node, step);
    for (const auto& [rank, vertex] : node.members) {
      const std::uint32_t index = graph_.templates[rank].at(vertex, step);
      if (!open || index == kAbsent) continue;
      const auto comm = job_.communication[rank].of_gpu_op[index];
      if (!comm) continue;
      return std::max(0.0, *open - static_cast<double>(job_.split.ops[rank][*comm].transfer_ns));
    }
    return 0;
  }

  const KernelRecording& job_;
  const JobSteps& steps_;
  const KernelGraph& graph_;
  KernelDurations result_;
  std::vector<double> finish_;
};

}  // namespace

KernelDurations measure_durations(const KernelRecording& job, const JobSteps& steps,
                                  const KernelGraph& graph) {
  return Measure(job, steps, graph).run();
}

}  // namespace prism
