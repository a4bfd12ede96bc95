// SPDX-License-Identifier: Apache-2.0
#include "prism/ingest/decimal_micros.hpp"

#include <charconv>

namespace prism {

namespace {

constexpr std::uint64_t kMostNanos = 4'000'000'000'000'000'000;
constexpr int kMostDigits = 19;  // of any number that fits

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// digits.next x 10^exponent, rounded to a whole number; `next` is one digit.
std::optional<std::uint64_t> scaled(std::uint64_t digits, unsigned next, std::int64_t exponent) {
  if (digits == 0) return 0;
  if (exponent == 0) return next < 5 ? digits : digits + 1;
  for (; exponent > 0; --exponent) {
    if (digits > kMostNanos / 10) return std::nullopt;
    digits *= 10;
  }
  if (exponent < -kMostDigits - 1) return 0;
  for (; exponent < -1; ++exponent) digits /= 10;  // exact enough: the last digit alone decides the rounding
  return exponent == -1 ? (digits + 5) / 10 : digits;
}

}  // namespace

std::optional<std::int64_t> ns_of_micros(std::string_view text) {
  const char* p = text.data();
  const char* const end = p + text.size();
  const bool negative = p != end && *p == '-';
  if (p != end && (*p == '-' || *p == '+')) ++p;

  std::uint64_t digits = 0;
  std::int64_t exponent = 3;  // microseconds to nanoseconds
  int significant = 0;
  unsigned next = 0;  // the first digit that no longer fits
  bool any = false;
  bool point = false;
  for (; p != end; ++p) {
    if (is_digit(*p)) {
      any = true;
      if (significant < kMostDigits) {
        digits = digits * 10 + static_cast<std::uint64_t>(*p - '0');
        significant += digits != 0;
        exponent -= point;
      } else {
        if (significant == kMostDigits) next = static_cast<unsigned>(*p - '0');
        significant = kMostDigits + 1;
        exponent += !point;
      }
    } else if (*p == '.' && !point) {
      point = true;
    } else {
      break;
    }
  }
  if (!any) return std::nullopt;
  if (p != end) {
    if (*p != 'e' && *p != 'E') return std::nullopt;
    ++p;
    if (p != end && *p == '+') ++p;
    std::int32_t written = 0;
    const auto [rest, error] = std::from_chars(p, end, written);
    if (error != std::errc() || rest != end) return std::nullopt;
    exponent += written;
    if (exponent > kMostDigits && digits != 0) return std::nullopt;
  }
  const auto value = scaled(digits, next, exponent);
  if (!value || *value > kMostNanos) return std::nullopt;
  const auto ns = static_cast<std::int64_t>(*value);
  return negative ? -ns : ns;
}

}  // namespace prism
