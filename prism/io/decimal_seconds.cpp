// SPDX-License-Identifier: Apache-2.0
#include "prism/io/decimal_seconds.hpp"

#include <array>
#include <charconv>
#include <cmath>

#include "prism/io/csv.hpp"

namespace prism {

std::optional<double> ns_of_seconds(std::string_view text) {
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  const std::size_t e = text.find_first_of("eE");
  std::int64_t exponent = 0;
  if (e != std::string_view::npos) {
    const auto written = parse_int(text.substr(e + 1));
    if (!written || std::abs(*written) > 1000) return std::nullopt;
    exponent = *written;
  }
  return parse_double(std::string(text.substr(0, e)) + "e" + std::to_string(exponent + 9));
}

std::string seconds_text(double ns) {
  if (ns == 0) return "0";
  std::array<char, 32> buffer;
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), ns, std::chars_format::scientific).ptr;
  const std::string_view text(buffer.data(), static_cast<std::size_t>(end - buffer.data()));  // "1.25e+08"
  const std::size_t e = text.find('e');
  std::string digits(text.substr(0, e));
  std::erase(digits, '.');
  // The value is digits[0].digits[1]... times ten to this.
  const auto exponent = static_cast<int>(*parse_int(text.substr(e + 1))) - 9;
  constexpr int kMostZeros = 9;
  if (exponent < -kMostZeros || exponent > kMostZeros) {
    return std::string(text.substr(0, e)) + "e" + std::to_string(exponent);
  }
  if (exponent < 0) return "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return digits + std::string(whole - digits.size(), '0');
  return digits.substr(0, whole) + "." + digits.substr(whole);
}

}  // namespace prism
