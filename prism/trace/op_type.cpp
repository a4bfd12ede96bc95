// SPDX-License-Identifier: Apache-2.0
#include "prism/trace/op_type.hpp"

namespace prism {

namespace {

constexpr std::array<std::string_view, kOpTypeCount> kNames = {"forward-compute",
                                                               "backward-compute",
                                                               "forward-send",
                                                               "forward-recv",
                                                               "backward-send",
                                                               "backward-recv",
                                                               "params-all-gather",
                                                               "grads-reduce-scatter",
                                                               "separate-grads-all-reduce",
                                                               "layernorm-grads-all-reduce",
                                                               "embedding-grads-all-reduce",
                                                               "optimizer-clip-main-grad",
                                                               "optimizer",
                                                               "gc"};

}  // namespace

std::string_view op_type_name(OpType type) {
  return kNames[static_cast<std::size_t>(type)];
}

std::optional<OpType> op_type_from_name(std::string_view name) {
  for (const OpType type : all_op_types()) {
    if (op_type_name(type) == name) return type;
  }
  return std::nullopt;
}

}  // namespace prism
