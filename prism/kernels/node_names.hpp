// SPDX-License-Identifier: Apache-2.0
// Names of kernel-level nodes, "gemm_kernel 3 of rank 1": what a node is about, its number and its rank.
// Made where nodes are described and taken apart where they become events again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace prism {

/// In front of the name of a call: the host's way to it, and its return.
inline constexpr std::string_view kHostTo = "host to ";
inline constexpr std::string_view kReturnOf = "return of ";

/// "gemm_kernel 3 of rank 1".
std::string numbered_node_name(std::string_view what, std::uint32_t occurrence, std::string_view rank);

/// What a numbered name is about, "gemm_kernel"; nothing for other names, such as those of anonymised models.
std::optional<std::string_view> what_of_node_name(std::string_view name);

}  // namespace prism
