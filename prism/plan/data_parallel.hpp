// SPDX-License-Identifier: Apache-2.0
// Data-parallel communication of a virtual stage: which weights are gathered and which gradients reduced, when. Internal to
// the pass programs.
#pragma once

#include <cstdint>
#include <vector>

#include "prism/plan/parallel.hpp"
#include "prism/plan/precisions.hpp"
#include "prism/plan/program_writer.hpp"
#include "prism/plan/stage_programs.hpp"

namespace prism {

class DataParallel {
 public:
  DataParallel(const Transformer& model, const Parallel& parallel, const Precisions& precisions,
               const StageLayers& layers);

  /// Writes the gathers that layer `index` (of the stage, from 0) needs in a forward pass; returns what its first compute op
  /// waits for. Layers are asked for in order.
  std::vector<int> before_forward(ProgramWriter& writer, std::int64_t index);
  /// The same in a backward pass; layers are asked for in reverse.
  std::vector<int> before_backward(ProgramWriter& writer, std::int64_t index);
  /// Writes the reductions that are due when the gradients of layer `index` are there.
  void after_gradients(ProgramWriter& writer, std::int64_t index);
  /// And when those of the whole stage are.
  void after_stage(ProgramWriter& writer);

  /// Reduction of so many gradients, and gather of so many weights.
  void reduce(ProgramWriter& writer, RankParameters gradients, const std::vector<int>& after,
              When when) const;
  std::vector<int> gather(ProgramWriter& writer, RankParameters weights, const std::vector<int>& after,
                          When when) const;

 private:
  std::vector<int> gather_ahead(ProgramWriter& writer, std::int64_t index);
  [[nodiscard]] std::int64_t bucket() const;

  const Parallel& parallel_;
  const Precisions& precisions_;
  bool pipelined_ = false;
  std::vector<RankParameters>
      layers_;                 // weights of each layer; embedding and output layer go with the first and last
  RankParameters due_;         // gradients not yet reduced
  std::vector<int> computed_;  // last compute op of the layers before, in the order asked for
  std::vector<int> gathered_;  // the bucket's gathers that cover the layers up to covered_
  std::int64_t covered_ = 0;
};

}  // namespace prism
