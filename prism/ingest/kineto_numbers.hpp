// SPDX-License-Identifier: Apache-2.0
// Whole numbers as profiler traces write them. Internal to the reader of such traces.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace prism {

/// "7", "-1", "12.0", "0x7f"; up to 64 bits without a sign, beyond that nothing. Negative numbers come as
/// their two's complement, as ids are compared only.
[[nodiscard]] std::optional<std::uint64_t> kineto_id(std::string_view text);

/// As kineto_id, but in [low, high], else nothing.
[[nodiscard]] std::optional<std::int64_t> kineto_int(std::string_view text, std::int64_t low,
                                                     std::int64_t high);

/// The numbers of a list "[0, 1, 2]"; empty if it is cut ("[0, ..., 63]") or holds anything else.
[[nodiscard]] std::vector<std::int32_t> kineto_ranks(std::string_view list);

}  // namespace prism
