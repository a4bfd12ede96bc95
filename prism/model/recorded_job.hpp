// SPDX-License-Identifier: Apache-2.0
// A recorded job: the timeline's records aligned into K profiled steps x D replicas of one list of template
// ops.
//
// Real timelines are ragged: a row is missing or doubled, a rank is absent in a step, a step ran another
// schedule. align() finds the structure that most (step, replica) pairs share and keeps what has it: it
// leaves out the replicas without which the most complete pairs remain, then the steps that are still
// incomplete. Each loss is an entry of the import report.
#pragma once

#include <string>
#include <vector>

#include "prism/model/mesh.hpp"
#include "prism/trace/ids.hpp"
#include "prism/trace/import_report.hpp"
#include "prism/trace/op_timeline.hpp"

namespace prism {

/// One op of a replica: the same op in every profiled step and every replica.
struct TemplateOp {
  OpType type = OpType::Gc;
  int stage = 0;
  int seq = 0;          ///< occurrence of the type on its stage, in start order
  int chunk = -1;       ///< virtual pipeline chunk; -1 where it does not apply
  int microbatch = -1;  ///< of compute ops; -1 if unknown
  friend bool operator==(const TemplateOp&, const TemplateOp&) = default;
};

/// "forward-compute 3 of stage 1".
std::string op_text(const TemplateOp& op);

struct RecordedJob {
  std::string source;
  std::string trial_name;          ///< from the metadata; may be empty
  Mesh mesh;                       ///< dp and pp from the trace, tp and cp from the metadata
  std::vector<int> steps;          ///< profiled step numbers, ascending, size K
  IdVector<OpId, TemplateOp> ops;  ///< ordered by stage, type, seq
  std::vector<int> ranks;          ///< global rank of the recorded worker, [replica * stages + stage]
  std::vector<double> start_ns;    ///< [(op * K + step) * D + replica]
  std::vector<double> end_ns;      ///< same shape

  [[nodiscard]] std::size_t step_count() const { return steps.size(); }
  [[nodiscard]] std::size_t replicas() const { return static_cast<std::size_t>(mesh.size(Axis::Dp)); }
  [[nodiscard]] int stages() const { return mesh.size(Axis::Pp); }
  [[nodiscard]] std::size_t index(OpId op, std::size_t step, std::size_t replica) const {
    return (op.value * step_count() + step) * replicas() + replica;
  }
  [[nodiscard]] double start(OpId op, std::size_t step, std::size_t replica) const {
    return start_ns[index(op, step, replica)];
  }
  [[nodiscard]] double end(OpId op, std::size_t step, std::size_t replica) const {
    return end_ns[index(op, step, replica)];
  }
  /// First start over all ops and replicas, per step.
  [[nodiscard]] std::vector<double> first_starts_ns() const;
  /// Last end minus first start over all ops and replicas, per step: the observed step time.
  [[nodiscard]] std::vector<double> step_times_ns() const;
};

/// The aligned job. Throws InputError if no complete step is left or a pipeline stage is missing from the
/// trace.
RecordedJob align(const OpTimeline& timeline, ImportReport& report);

}  // namespace prism
