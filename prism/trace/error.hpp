// SPDX-License-Identifier: Apache-2.0
// The only exception types of the library.
//
// A bad record is counted in an ImportReport and reading goes on. An input that cannot be used throws
// InputError, which names the file, the place in it, what was expected and the likely fix; programs print it
// and exit with 3.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

namespace prism {

/// A place in a file: a line (from 1) for text, a byte offset otherwise, or the whole file.
struct Place {
  std::string file;
  std::optional<std::uint64_t> line;
  std::optional<std::uint64_t> byte;

  /// "file", "file:12" or "file at byte 99".
  [[nodiscard]] std::string text() const;
};

/// The input cannot be used: where, what is wrong, and what would fix it.
class InputError : public std::runtime_error {
 public:
  InputError(const Place& place, const std::string& problem, const std::string& fix = {});
};

/// The user asked for a stop (Ctrl-C). Programs exit with 130.
class Cancelled : public std::runtime_error {
 public:
  Cancelled() : std::runtime_error("interrupted") {}
};

}  // namespace prism
