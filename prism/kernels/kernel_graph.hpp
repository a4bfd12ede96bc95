// SPDX-License-Identifier: Apache-2.0
// The kernel-level step graph of all traced ranks: their templates joined by matched communication.
//
//   call begin -> launch -> [gap -> op]            compute: the gap is what is left after the latest dependency
//                             gap -> join -> op    communication: members wait for each other, then transfer
//                             gap -> waiting -> op    ... and for members that were not traced
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "prism/kernels/job_steps.hpp"
#include "prism/kernels/rank_recording.hpp"
#include "prism/kernels/rank_template.hpp"
#include "prism/model/step_graph.hpp"

namespace prism {

enum class KernelRole : std::uint8_t {
  LaneStart,  ///< where a stream or thread stands when the step begins
  CallBegin,  ///< host work up to the begin of a call
  CallEnd,    ///< return of a call that blocks
  Launch,     ///< launch latency
  Gap,        ///< between the latest dependency and the start of an op
  Join,       ///< members of a communication wait for each other
  Waiting,    ///< for members that were not traced
  Compute,    ///< a kernel, copy or fill
  Transfer,   ///< a communication op from the last arrival on
  StepEnd,    ///< ops that outlast what follows them on their stream and so end a step
};

struct KernelNode {
  KernelRole role = KernelRole::Compute;
  std::uint32_t rank =
      0;  ///< index into KernelRecording::ranks; of a join, waiting or step end that of its first member
  std::uint32_t vertex = 0;  ///< of the rank's template; of a launch the op's
  std::uint32_t call = 0;    ///< of a launch: vertex of the call
  std::vector<std::pair<std::uint32_t, std::uint32_t>> members;  ///< of the same: (rank, vertex)
};

struct KernelGraph {
  std::vector<RankTemplate> templates;  ///< [rank]
  StepGraph graph;
  IdVector<NodeId, KernelNode> nodes;
  std::size_t split_matches = 0;  ///< matches whose members are not the same ops in most steps, not joined
  std::size_t contradictory = 0;  ///< edges left out because the steps order the same ops differently
};

KernelGraph build_kernel_graph(const KernelRecording& job, const JobSteps& steps);

}  // namespace prism
