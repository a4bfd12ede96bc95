// SPDX-License-Identifier: Apache-2.0
#include "prism/ingest/json_string.hpp"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace prism {

namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

/// Length of the well-formed UTF-8 sequence at the start, 0 if there is none (RFC 3629, section 4).
std::size_t utf8_length(std::string_view bytes) {
  const auto byte = [&](std::size_t i) {
    return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : std::uint8_t{0};
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4) return 0;
  const unsigned low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  }
  return length;
}

void append_code_point(std::string& text, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | (code >> 6));
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3f));
    put(0x80 | ((code >> 6) & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

/// The code unit of an escape \uXXXX at `at`.
std::optional<std::uint32_t> code_unit(std::string_view raw, std::size_t at) {
  constexpr std::size_t kLength = 6;
  if (at + kLength > raw.size() || raw[at] != '\\' || raw[at + 1] != 'u') return std::nullopt;
  std::uint32_t unit = 0;
  const char* const end = raw.data() + at + kLength;
  if (std::from_chars(raw.data() + at + 2, end, unit, 16).ptr != end) return std::nullopt;
  return unit;
}

/// Appends the escape at `at` and returns its length; 0 if there is none.
std::size_t append_escape(std::string_view raw, std::size_t at, std::string& text) {
  if (at + 1 >= raw.size()) return 0;
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  if (const std::size_t letter = kLetters.find(raw[at + 1]); letter != std::string_view::npos) {
    text += kMeanings[letter];
    return 2;
  }
  const auto unit = code_unit(raw, at);
  if (!unit) return 0;
  if (*unit < 0xd800 || *unit > 0xdfff) {
    append_code_point(text, *unit);
    return 6;
  }
  const auto second = code_unit(raw, at + 6);
  if (*unit < 0xdc00 && second && *second >= 0xdc00 && *second <= 0xdfff) {
    append_code_point(text, 0x10000 + ((*unit - 0xd800) << 10) + (*second - 0xdc00));
    return 12;
  }
  text += kReplacement;
  return 6;
}

}  // namespace

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t length = utf8_length(bytes);
    if (length == 0) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

JsonString resolve_json_string(std::string_view raw) {
  JsonString result;
  result.text.reserve(raw.size());
  for (std::size_t at = 0; at < raw.size();) {
    if (raw[at] == '\\') {
      if (const std::size_t length = append_escape(raw, at, result.text); length != 0) {
        at += length;
        continue;
      }
    }
    const std::size_t length = utf8_length(raw.substr(at));
    if (length == 0) {
      result.text += kReplacement;
      result.repaired = true;
      ++at;
    } else {
      result.text += raw.substr(at, length);
      at += length;
    }
  }
  return result;
}

}  // namespace prism
