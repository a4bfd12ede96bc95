// SPDX-License-Identifier: Apache-2.0
// The kernels that one rank runs for each block of a layer, forward and backward. Internal to the pass programs.
//
// A matrix product of m x k and k x n costs 2mnk forward, the same for the gradient of its input (dgrad) and the same for
// that of its weights (wgrad). The attention core's backward computes the scores again: 2.5 times its forward
// (FlashAttention-2, arXiv 2307.08691). Memory-bound work is counted in bytes: each read and write of an activation.
#pragma once

#include <vector>

#include "prism/plan/parallel.hpp"
#include "prism/plan/pass_program.hpp"
#include "prism/plan/precisions.hpp"
#include "prism/plan/stage_programs.hpp"
#include "prism/plan/transformer.hpp"

namespace prism {

/// Kernels of one block.
struct BlockKernels {
  std::vector<Kernel> forward;
  std::vector<Kernel> dgrad;
  std::vector<Kernel> wgrad;
};

/// Attention in the parts that context parallelism separates.
struct AttentionKernels {
  BlockKernels before;  ///< norm, queries, keys and values
  BlockKernels core;
  BlockKernels after;  ///< output projection and residual
};

class LayerKernels {
 public:
  /// Keeps references to all.
  LayerKernels(const Transformer& model, const Parallel& parallel, const Precisions& precisions,
               const Microbatch& microbatch);

  [[nodiscard]] AttentionKernels attention() const;
  [[nodiscard]] BlockKernels dense_ffn() const;
  [[nodiscard]] BlockKernels router() const;          ///< norm and routing, before tokens are sent
  [[nodiscard]] BlockKernels experts() const;         ///< routed ones, and the residual
  [[nodiscard]] BlockKernels shared_experts() const;  ///< whole on each rank, for its part of the sequence
  [[nodiscard]] BlockKernels embedding() const;
  [[nodiscard]] BlockKernels loss() const;  ///< final norm, output layer, cross-entropy
  /// What joins a prediction layer's two inputs: norms and a product of 2h x h, for the rank's part of the sequence.
  [[nodiscard]] BlockKernels prediction_input() const;

  /// Tokens of a microbatch on one context-parallel rank.
  [[nodiscard]] double tokens() const { return tokens_; }
  /// Bytes of their activations, h values each, in bf16.
  [[nodiscard]] double activation_bytes() const;
  /// Bytes in bf16 of the queries, keys and values (or results) of a rank's heads, for the tokens of its part.
  struct HeadBytes {
    double queries = 0;
    double keys_and_values = 0;
    double results = 0;
  };
  [[nodiscard]] HeadBytes head_bytes() const;
  /// Ranks along which norms and residuals are split: tp with sequence parallelism.
  [[nodiscard]] double sequence_split() const { return sequence_split_; }

 private:
  const Transformer& model_;
  const Parallel& parallel_;
  const Precisions& precisions_;
  const Microbatch& microbatch_;
  double tokens_ = 0;
  double tp_ = 1;
  double sequence_split_ = 1;
};

}  // namespace prism
