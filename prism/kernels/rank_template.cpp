// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/rank_template.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "prism/io/bytes.hpp"
#include "prism/kernels/merge_sequences.hpp"
#include "prism/stats/random.hpp"
#include "prism/trace/error.hpp"

namespace prism {

namespace {

/// All-to-all of tokens, sends of activations: sizes vary from step to step, so they cannot tell ops apart.
bool moves_fixed_sizes(CollectiveKind kind) {
  return kind == CollectiveKind::AllReduce || kind == CollectiveKind::AllGather ||
         kind == CollectiveKind::ReduceScatter || kind == CollectiveKind::Broadcast ||
         kind == CollectiveKind::Reduce;
}

// Places in the template, one per vertex and step. Steps that do the same work have about one activity for each; where
// none is like another, most places are empty and their number grows with the square of the steps.
constexpr std::size_t kMostInstances = std::size_t{1} << 26U;
constexpr std::size_t kMostSpread = 4;  // places per activity, beyond that number

/// Merges the steps lane by lane, then carries the dependencies of each step over.
class Merger {
 public:
  Merger(const RankRecording& rank, std::span<const std::size_t> chosen) : rank_(rank), chosen_(chosen) {
    result_.step_count = chosen.size();
    result_.op_vertex.assign(rank.trace->gpu_ops.size(), kAbsent);
    begin_vertex_.assign(rank.trace->calls.size(), kAbsent);
    end_vertex_.assign(rank.trace->calls.size(), kAbsent);
    for (const std::size_t k : chosen)
      activities_ += rank.steps[k].gpu_ops.size() + rank.steps[k].calls.size();
  }

  RankTemplate run() {
    sign();
    merge_streams();
    merge_threads();
    carry_dependencies();
    std::ranges::sort(result_.edges, {},
                      [](const TemplateEdge& e) { return std::tie(e.after, e.before, e.kind); });
    // Steps that leave out the same ops say the same.
    result_.edges.erase(std::unique(result_.edges.begin(), result_.edges.end()), result_.edges.end());
    return std::move(result_);
  }

 private:
  [[nodiscard]] const TraceStep& step(std::size_t k) const { return rank_.steps[chosen_[k]]; }

  void sign() {
    const RankTrace& trace = *rank_.trace;
    for (const std::string& name : trace.names) name_digest_.push_back(content_digest(name));
    op_signature_.resize(trace.gpu_ops.size());
    first_launched_.assign(trace.calls.size(), 0);
    op_step_.assign(trace.gpu_ops.size(), kAbsent);
    call_step_.assign(trace.calls.size(), kAbsent);
    for (std::uint32_t k = 0; k < chosen_.size(); ++k) {
      for (const std::uint32_t i : step(k).gpu_ops) {
        op_step_[i] = k;
        op_signature_[i] = op_signature(i);
        const auto call = rank_.launches.call_of[i];
        if (call && first_launched_[*call] == 0) first_launched_[*call] = op_signature_[i];
      }
      for (const std::uint32_t c : step(k).calls) call_step_[c] = k;
    }
  }

  /// Equal for equal work: the name and, of communication, what it moves.
  [[nodiscard]] std::uint64_t op_signature(std::uint32_t gpu_op) const {
    const std::uint64_t signature = name_digest_[rank_.trace->gpu_ops[gpu_op].name.value];
    const auto comm = rank_.communication->of_gpu_op[gpu_op];
    if (!comm) return signature;
    const CommunicationOp& op = rank_.communication->ops[*comm];
    if (!moves_fixed_sizes(op.kind)) return mix_id(signature, static_cast<std::uint64_t>(op.kind));
    return mix_id(mix_id(signature, static_cast<std::uint64_t>(op.in_elements)),
                  static_cast<std::uint64_t>(op.out_elements));
  }

  [[nodiscard]] std::uint64_t call_signature(std::uint32_t call) const {
    return mix_id(name_digest_[rank_.trace->calls[call].name.value], first_launched_[call]);
  }

  std::uint32_t add_vertex(VertexKind kind, std::size_t lane, std::uint64_t signature) {
    const auto vertex = static_cast<std::uint32_t>(result_.vertices.size());
    const std::uint32_t occurrence = occurrences_[{kind, lane, signature}]++;
    result_.vertices.push_back({kind, static_cast<std::uint32_t>(lane), signature, occurrence});
    const std::size_t instances = result_.instance.size() + chosen_.size();
    if (instances > std::max(kMostInstances, kMostSpread * activities_)) {
      throw InputError({rank_.trace->source, {}, {}},
                       "the profiled steps have too little in common to be one model",
                       "profile steps that do the same work, or fewer of them");
    }
    result_.instance.resize(instances, kAbsent);
    return vertex;
  }

  void add_edge(std::uint32_t before, std::uint32_t after, DependencyKind kind) {
    result_.edges.push_back({before, after, kind});
  }

  void merge_streams() {
    std::vector<std::vector<std::vector<std::uint32_t>>> ops(rank_.streams.streams.size());  // [stream][step]
    for (auto& of_stream : ops) of_stream.resize(chosen_.size());
    for (std::size_t k = 0; k < chosen_.size(); ++k) {
      for (const std::uint32_t i : step(k).gpu_ops) ops[rank_.streams.stream_of[i]][k].push_back(i);
    }
    for (std::size_t s = 0; s < ops.size(); ++s) {
      stream_start_.push_back(add_vertex(VertexKind::StreamStart, s, 0));
      std::vector<std::vector<std::uint64_t>> sequences(chosen_.size());
      for (std::size_t k = 0; k < chosen_.size(); ++k) {
        for (const std::uint32_t i : ops[s][k]) sequences[k].push_back(op_signature_[i]);
      }
      const MergedSequences merged = merge_sequences(sequences);
      std::uint32_t before = stream_start_.back();
      const auto first = static_cast<std::uint32_t>(result_.vertices.size());
      for (const std::uint64_t signature : merged.symbols) {
        const std::uint32_t vertex = add_vertex(VertexKind::GpuOp, s, signature);
        add_edge(before, vertex, DependencyKind::Stream);
        before = vertex;
      }
      for (std::size_t k = 0; k < chosen_.size(); ++k) {
        std::uint32_t last = stream_start_.back();
        for (std::size_t j = 0; j < ops[s][k].size(); ++j) {
          const std::uint32_t vertex = first + merged.place[k][j];
          result_.instance[vertex * chosen_.size() + k] = ops[s][k][j];
          result_.op_vertex[ops[s][k][j]] = vertex;
          // Past ops that this step did not run: those that communicate let nothing through.
          if (vertex != last + 1) add_edge(last, vertex, DependencyKind::Stream);
          last = vertex;
        }
      }
    }
  }

  void merge_threads() {
    std::vector<std::vector<std::vector<std::uint32_t>>> calls(
        rank_.trace->threads.size());  // [thread][step]
    for (auto& of_thread : calls) of_thread.resize(chosen_.size());
    for (std::size_t k = 0; k < chosen_.size(); ++k) {
      for (const std::uint32_t c : step(k).calls) calls[rank_.trace->calls[c].thread.value][k].push_back(c);
    }
    for (std::size_t t = 0; t < calls.size(); ++t) {
      std::vector<std::vector<std::uint64_t>> sequences(chosen_.size());
      for (std::size_t k = 0; k < chosen_.size(); ++k) {
        for (const std::uint32_t c : calls[t][k]) {
          sequences[k].push_back(call_signature(c));
        }
      }
      const MergedSequences merged = merge_sequences(sequences);
      if (merged.symbols.empty()) continue;
      std::vector<std::vector<std::uint32_t>> at(merged.symbols.size(),
                                                 std::vector<std::uint32_t>(chosen_.size(), kAbsent));
      for (std::size_t k = 0; k < chosen_.size(); ++k) {
        for (std::size_t j = 0; j < calls[t][k].size(); ++j) at[merged.place[k][j]][k] = calls[t][k][j];
      }
      std::uint32_t before = add_vertex(VertexKind::ThreadStart, t, 0);
      for (std::size_t m = 0; m < merged.symbols.size(); ++m) {
        before = add_call(t, merged.symbols[m], at[m], before);
      }
    }
  }

  /// The begin of a call and, if it blocks in any step, its end. Returns the vertex that the next call follows.
  std::uint32_t add_call(std::size_t thread, std::uint64_t signature, const std::vector<std::uint32_t>& at,
                         std::uint32_t before) {
    const std::uint32_t begin = add_vertex(VertexKind::CallBegin, thread, signature);
    add_edge(before, begin, DependencyKind::Host);
    const auto blocks = [&](std::uint32_t c) { return c != kAbsent && rank_.dependencies.blocks[c]; };
    const bool has_end = std::ranges::any_of(at, blocks);
    std::uint32_t end = begin;
    if (has_end) {
      end = add_vertex(VertexKind::CallEnd, thread, signature);
      add_edge(begin, end, DependencyKind::Host);
    }
    for (std::size_t k = 0; k < chosen_.size(); ++k) {
      if (at[k] == kAbsent) continue;
      result_.instance[begin * chosen_.size() + k] = at[k];
      begin_vertex_[at[k]] = begin;
      if (!blocks(at[k])) continue;
      result_.instance[end * chosen_.size() + k] = at[k];
      end_vertex_[at[k]] = end;
    }
    return end;
  }

  /// Vertex of an activity of the rank (RankDependencies' numbering), or kAbsent outside the chosen steps.
  [[nodiscard]] std::uint32_t vertex_of(std::uint32_t activity) const {
    const RankDependencies& d = rank_.dependencies;
    if (d.is_gpu_op(activity)) return result_.op_vertex[activity];
    const std::uint32_t call = d.call_of(activity);
    return activity == d.call_end(call) ? end_vertex_[call] : begin_vertex_[call];
  }

  /// Which of the chosen steps an activity is in; kAbsent: in none.
  [[nodiscard]] std::uint32_t step_of(std::uint32_t activity) const {
    const RankDependencies& d = rank_.dependencies;
    return d.is_gpu_op(activity) ? op_step_[activity] : call_step_[d.call_of(activity)];
  }

  void carry_dependencies() {
    std::vector<TemplateEdge> seen;
    for (const Dependency& edge : rank_.dependencies.edges) {
      if (edge.kind == DependencyKind::Stream || edge.kind == DependencyKind::Host)
        continue;  // the lanes' own
      const std::uint32_t after = vertex_of(edge.after);
      if (after == kAbsent) continue;
      const std::uint32_t before = vertex_of(edge.before);
      if (before != kAbsent && step_of(edge.before) == step_of(edge.after)) {
        seen.push_back({before, after, edge.kind});
      } else if (rank_.dependencies.is_gpu_op(edge.before)) {
        // Work of an earlier step: what is left of it when this step begins.
        seen.push_back({stream_start_[rank_.streams.stream_of[edge.before]], after, edge.kind});
      }
    }
    std::ranges::sort(seen);
    for (auto first = seen.begin(); first != seen.end();) {
      const auto last = std::find_if(first, seen.end(), [&](const TemplateEdge& e) { return e != *first; });
      keep_if_supported(*first, static_cast<std::size_t>(last - first));
      first = last;
    }
  }

  void keep_if_supported(const TemplateEdge& edge, std::size_t count) {
    if (edge.kind == DependencyKind::Launch) {
      result_.edges.push_back(edge);
      return;
    }
    std::size_t both = 0;
    for (std::size_t k = 0; k < chosen_.size(); ++k) {
      const bool lane_start = result_.vertices[edge.before].kind == VertexKind::StreamStart;
      if (result_.at(edge.after, k) == kAbsent || (!lane_start && result_.at(edge.before, k) == kAbsent))
        continue;
      ++both;
      if (!lane_start && leaves_ns(edge.before, k) > enters_ns(edge.after, k) + kClockJitterNs) {
        ++result_.contradicted;
        return;
      }
    }
    if (is_inferred(edge.kind) && 2 * count < both) {
      ++result_.unsupported;
      return;
    }
    result_.edges.push_back(edge);
  }

  /// When what follows a vertex could go on.
  [[nodiscard]] std::int64_t leaves_ns(std::uint32_t vertex, std::size_t k) const {
    const std::uint32_t at = result_.at(vertex, k);
    switch (result_.vertices[vertex].kind) {
      case VertexKind::GpuOp:
        return rank_.trace->gpu_ops[at].end_ns();
      case VertexKind::CallEnd:
        return rank_.trace->calls[at].end_ns();
      default:
        return rank_.trace->calls[at].start_ns;
    }
  }

  /// When a vertex happened, for which its dependencies must have left.
  [[nodiscard]] std::int64_t enters_ns(std::uint32_t vertex, std::size_t k) const {
    const std::uint32_t at = result_.at(vertex, k);
    switch (result_.vertices[vertex].kind) {
      case VertexKind::GpuOp:
        return rank_.trace->gpu_ops[at].start_ns;
      case VertexKind::CallEnd:
        return rank_.trace->calls[at].end_ns();
      default:
        return rank_.trace->calls[at].start_ns;
    }
  }

  const RankRecording& rank_;
  std::span<const std::size_t> chosen_;
  RankTemplate result_;
  std::size_t activities_ = 0;              // of the chosen steps
  std::vector<std::uint64_t> name_digest_;  // [name]
  std::vector<std::uint64_t> op_signature_;
  std::vector<std::uint64_t> first_launched_;  // [call] signature of its first op, 0 if it launched none
  std::vector<std::uint32_t> op_step_;         // [GPU op] which of the chosen steps, or kAbsent
  std::vector<std::uint32_t> call_step_;
  std::vector<std::uint32_t> begin_vertex_;  // [call]
  std::vector<std::uint32_t> end_vertex_;
  std::vector<std::uint32_t> stream_start_;  // [stream] vertex
  std::map<std::tuple<VertexKind, std::size_t, std::uint64_t>, std::uint32_t> occurrences_;
};

}  // namespace

RankTemplate make_rank_template(const RankRecording& rank, std::span<const std::size_t> chosen) {
  return Merger(rank, chosen).run();
}

}  // namespace prism
