// SPDX-License-Identifier: Apache-2.0
// A cursor over JSON text in memory, tolerant of what profilers really write.
//
// It finds where strings, values and containers end; what they mean is the caller's business. Beyond JSON it
// takes raw control characters and bare backslashes in strings, and any word (NaN, -inf) as a value, and it
// notes that it did. Nesting is counted, not recursed into.
//
// The text must be followed by kJsonPadding zero bytes, so that no loop has to look at the end. A function
// that returns false has either met the end of the text (`at_end()`: more may follow, try again from the
// start) or text that is not JSON.
//
//   JsonText text{begin, end};
//   std::string_view value;
//   if (!text.value(value)) return text.at_end() ? Need::More : Need::Repair;
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace prism {

inline constexpr std::size_t kJsonPadding = 16;

namespace json_detail {

enum class ByteKind : std::uint8_t { Other, Plain, Quote, Open, Close };

/// What a byte means outside of strings. Plain: white space, comma, colon, and all that numbers and words
/// consist of.
constexpr std::array<ByteKind, 256> byte_kinds() {
  std::array<ByteKind, 256> kinds{};
  for (const char c : std::string_view(" \t\r\n,:+-.0123456789"))
    kinds[static_cast<unsigned char>(c)] = ByteKind::Plain;
  for (unsigned c = 'a'; c <= 'z'; ++c) kinds[c] = kinds[c - 'a' + 'A'] = ByteKind::Plain;
  kinds['"'] = ByteKind::Quote;
  kinds['{'] = kinds['['] = ByteKind::Open;
  kinds['}'] = kinds[']'] = ByteKind::Close;
  return kinds;
}
inline constexpr std::array<ByteKind, 256> kByteKinds = byte_kinds();

inline ByteKind kind_of(char c) {
  return kByteKinds[static_cast<unsigned char>(c)];
}
inline bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}
/// May stand directly before the quote that opens a string.
inline bool may_precede_string(char c) {
  return is_space(c) || c == ',' || c == ':' || c == '[' || c == '{';
}
inline bool is_escape(char c) {
  return c == '"' || c == '\\' || c == '/' || c == 'b' || c == 'f' || c == 'n' || c == 'r' || c == 't' ||
         c == 'u';
}

}  // namespace json_detail

struct JsonText {
  static constexpr int kMaxDepth = 60;

  const char* p = nullptr;         ///< the next byte
  const char* end = nullptr;       ///< followed by kJsonPadding zeros
  bool ended = false;              ///< the last failure was the end of the text
  bool control_character = false;  ///< seen raw in a string since this was last cleared
  bool bare_backslash = false;     ///< a backslash that begins no escape, likewise

  /// Whether the last function that returned false met the end of the text.
  [[nodiscard]] bool at_end() const { return ended; }

  /// The next byte that is no white space, without taking it; 0 at the end.
  char peek() {
    while (json_detail::is_space(*p)) ++p;
    return *p;
  }

  /// Takes `c`, after white space.
  bool take(char c) {
    if (peek() != c) return fail();
    ++p;
    return true;
  }

  /// Takes a string and gives its raw content: escapes are not resolved.
  bool string(std::string_view& raw, bool& has_escape) {
    if (peek() != '"') return fail();
    const char* const begin = ++p;
    if (!string_rest(has_escape)) return false;
    raw = {begin, static_cast<std::size_t>(p - 1 - begin)};
    return true;
  }

  /// Takes a key and its colon.
  bool key(std::string_view& raw) {
    bool escape = false;
    return string(raw, escape) && take(':');
  }

  /// Takes any value and gives its text: a string's raw content, a number's or word's characters, and
  /// nothing for null, objects and arrays.
  bool value(std::string_view& text) {
    text = {};
    const char c = peek();
    bool escape = false;
    switch (json_detail::kind_of(c)) {
      case json_detail::ByteKind::Quote:
        return string(text, escape);
      case json_detail::ByteKind::Open:
        return skip_value();
      default:
        return word(text);
    }
  }

  /// Takes any value.
  bool skip_value() {
    const char c = peek();
    if (json_detail::kind_of(c) == json_detail::ByteKind::Open) {
      ++p;
      return skip_open(c == '{' ? 1U : 0U, 1);
    }
    std::string_view ignored;
    bool escape = false;
    return c == '"' ? string(ignored, escape) : word(ignored);
  }

  /// Takes everything up to the end of the object whose inside the cursor is in.
  bool skip_rest_of_object() { return skip_open(1U, 1); }

  /// False, and notes whether that is because of the end.
  bool fail() {
    ended = p >= end;
    return false;
  }

 private:
  /// Takes the rest of a string, from behind its opening quote to behind its closing one.
  bool string_rest(bool& has_escape) {
    static_assert(std::endian::native == std::endian::little);
    constexpr std::uint64_t kOnes = 0x0101010101010101U;
    constexpr std::uint64_t kHighs = 0x8080808080808080U;
    const char* q = p;
    for (;;) {
      // The lowest high bit of each term marks the first byte that is a quote, a backslash, below a space
      // (Mycroft); higher ones may be wrong.
      std::uint64_t word;
      std::memcpy(&word, q, sizeof word);
      const std::uint64_t quote = word ^ (kOnes * '"');
      const std::uint64_t slash = word ^ (kOnes * '\\');
      const std::uint64_t found =
          (((quote - kOnes) & ~quote) | ((slash - kOnes) & ~slash) | ((word - kOnes * ' ') & ~word)) & kHighs;
      if (found == 0) {
        q += sizeof word;
        continue;
      }
      q += std::countr_zero(found) / 8;
      if (*q == '"') {
        p = q + 1;
        return true;
      }
      if (q >= end || (*q == '\\' && q + 1 >= end)) {
        p = end;
        return fail();
      }
      if (*q != '\\') {
        control_character = true;
        ++q;
      } else if (json_detail::is_escape(q[1])) {
        has_escape = true;
        q += 2;
      } else {
        has_escape = true;
        bare_backslash = true;
        ++q;
      }
    }
  }

  bool word(std::string_view& text) {
    const char* const begin = p;
    while (json_detail::kind_of(*p) == json_detail::ByteKind::Plain && !json_detail::is_space(*p) &&
           *p != ',' && *p != ':') {
      ++p;
    }
    text = {begin, static_cast<std::size_t>(p - begin)};
    if (text == "null") text = {};
    const char after = *p;
    if (p == begin || !(after == ',' || after == '}' || after == ']' || json_detail::is_space(after))) {
      return fail();
    }
    return true;
  }

  /// Takes everything up to the close of `depth` open containers, whose kinds are the low bits of `kinds`,
  /// innermost lowest, 1 for objects.
  bool skip_open(std::uint64_t kinds, int depth) {
    using json_detail::ByteKind;
    bool escape = false;
    for (;;) {
      while (json_detail::kind_of(*p) == ByteKind::Plain) ++p;
      const char c = *p;
      switch (json_detail::kind_of(c)) {
        case ByteKind::Quote: {
          // What stands around a string tells most unescaped quotes inside a name.
          if (!json_detail::may_precede_string(p[-1])) return fail();
          ++p;
          if (!string_rest(escape)) return false;
          if (*p != ',' && *p != ':') {
            const char after = peek();
            if (after != ',' && after != '}' && after != ']' && after != ':') return fail();
          }
          break;
        }
        case ByteKind::Open:
          if (++depth > kMaxDepth) return fail();
          kinds = (kinds << 1) | (c == '{' ? 1U : 0U);
          ++p;
          break;
        case ByteKind::Close:
          if ((kinds & 1U) != (c == '}' ? 1U : 0U)) return fail();
          ++p;
          kinds >>= 1;
          if (--depth == 0) return true;
          break;
        default:
          return fail();
      }
    }
  }
};

}  // namespace prism
