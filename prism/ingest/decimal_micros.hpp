// SPDX-License-Identifier: Apache-2.0
// Decimal microseconds, as profilers write times, straight to whole nanoseconds: no double in between, since
// Unix time in microseconds with three decimals has 19 digits and a double keeps 16.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace prism {

/// Nanoseconds of a decimal number of microseconds ("1000", "6322354292522.072", "-0.5", "1.5e6"), rounded to
/// the nearest (halves away from zero) where there are more than three decimals. Nothing if the text is no
/// such number, or beyond 4e18 ns (126 years) either way.
[[nodiscard]] std::optional<std::int64_t> ns_of_micros(std::string_view text);

}  // namespace prism
