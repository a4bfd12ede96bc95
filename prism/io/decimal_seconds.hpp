// SPDX-License-Identifier: Apache-2.0
// Seconds as decimal text to and from nanoseconds, rounded once: the point is moved in the text, not by a
// multiplication. So what is written reads back as the same number.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace prism {

/// The nanoseconds of a decimal number of seconds; nothing if it is not a number. "nan" and "inf" are read as
/// such.
[[nodiscard]] std::optional<double> ns_of_seconds(std::string_view text);

/// What ns_of_seconds reads back as the same number. Precondition: ns is finite and not negative.
[[nodiscard]] std::string seconds_text(double ns);

}  // namespace prism
