// SPDX-License-Identifier: Apache-2.0
// What the raw content of a JSON string says.
#pragma once

#include <string>
#include <string_view>

namespace prism {

struct JsonString {
  std::string text;       ///< valid UTF-8
  bool repaired = false;  ///< bytes that were not UTF-8 became U+FFFD
};

/// Resolves escapes. A backslash that begins no escape stands for itself, an unpaired surrogate becomes
/// U+FFFD.
[[nodiscard]] JsonString resolve_json_string(std::string_view raw);

/// True if the bytes are UTF-8 (RFC 3629: no surrogates, nothing overlong).
[[nodiscard]] bool is_utf8(std::string_view bytes);

}  // namespace prism
