// SPDX-License-Identifier: Apache-2.0
// Which number formats a plan computes and communicates in.
#pragma once

#include "prism/plan/pass_program.hpp"

namespace prism {

struct Precisions {
  Precision matmul = Precision::Bf16;     ///< dense products of layers
  Precision expert = Precision::Bf16;     ///< products of experts
  Precision attention = Precision::Bf16;  ///< attention core
  Precision output = Precision::Bf16;     ///< output layer
  Precision dispatch = Precision::Bf16;   ///< tokens sent to experts
  Precision tp_gather = Precision::Bf16;  ///< activations gathered over tp (fp8 recipes gather fp8)
  Precision parameter_gather = Precision::Bf16;
  friend bool operator==(const Precisions&, const Precisions&) = default;
};

}  // namespace prism
