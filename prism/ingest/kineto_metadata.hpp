// SPDX-License-Identifier: Apache-2.0
// What a PyTorch profiler trace says beside its events. Internal to the reader of such traces.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "prism/ingest/json_text.hpp"
#include "prism/trace/rank_trace.hpp"

namespace prism {

struct KinetoMetadata {
  std::optional<int> rank;
  std::optional<int> world_size;
  std::string backend;
  std::string host;
  std::string common_clock;
  std::optional<std::int64_t> base_time_ns;
  std::vector<ProcessGroup> groups;
  std::vector<std::pair<std::int32_t, std::string>> devices;  ///< number and name
};

/// Whether the block under this key of the top level is of use.
[[nodiscard]] bool is_kineto_metadata(std::string_view key);

/// Takes the value of a block of use and keeps what it says; a later one overwrites an earlier one. Fails like
/// all of JsonText.
[[nodiscard]] bool read_kineto_metadata(std::string_view key, JsonText& text, KinetoMetadata& metadata);

}  // namespace prism
