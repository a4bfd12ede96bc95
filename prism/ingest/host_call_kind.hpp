// SPDX-License-Identifier: Apache-2.0
// What a runtime or driver call does, from its name. Internal to the readers of profiler traces.
#pragma once

#include <optional>
#include <string_view>

#include "prism/trace/rank_trace.hpp"

namespace prism {

/// For calls that wait, record or ask; nothing for all others, of which those that launch GPU work are known
/// by what they launched. Takes CUDA's runtime and driver names, HIP's and MTIA's.
[[nodiscard]] std::optional<HostCallKind> host_call_kind(std::string_view name);

}  // namespace prism
