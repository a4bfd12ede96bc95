// SPDX-License-Identifier: Apache-2.0
// A plan file (TOML) -> Plan. Keys: docs/plans.md.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "prism/plan/plan.hpp"

namespace prism {

/// Whether text is a plan: TOML with a [model], [[op]] or [parallel] table.
bool looks_like_plan(std::string_view text);

/// Reads a plan and the files it names (config.json, schedule table, measured pools; relative to the plan's folder). Throws
/// InputError with file and line for text that is no TOML, unknown keys (naming the nearest known one), values of the wrong
/// type or range, and keys that contradict each other.
Plan read_plan(const std::filesystem::path& path);

/// The same of text; files it names are looked for in `folder`.
Plan parse_plan(std::string_view text, const std::string& source, const std::filesystem::path& folder);

}  // namespace prism
