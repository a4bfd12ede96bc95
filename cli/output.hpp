// SPDX-License-Identifier: Apache-2.0
// Where results go, and the checks that scripts ask for.
#pragma once

#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.hpp"

namespace prism::cli {

/// Bad use of the command line found after parsing, or an output that cannot be written. Programs exit
/// with 2.
class UsageError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Writes a result to standard output, or atomically to options.output. Throws UsageError if it cannot be
/// written.
void emit(const CommonOptions& options, const std::string& result);

/// With --csv, which has no place for it: says on standard error what was lost or changed on the way to the result.
void warn_losses(const CommonOptions& options, const ImportReport& report);

/// `--fail-if NAME>NUMBER` (or <): read before any work is done, checked at the end.
class FailConditions {
 public:
  /// Throws UsageError for a condition that cannot be read or a name that is not among the command's
  /// `metrics`.
  FailConditions(const std::vector<std::string>& texts, std::span<const std::string_view> metrics);

  /// Says each condition that holds on standard error. Returns kCheckFailed if any does, else kDone.
  [[nodiscard]] int check(const std::map<std::string_view, double>& values) const;

 private:
  struct Condition {
    std::string text;
    std::string metric;
    bool above = true;
    double bound = 0;
  };
  std::vector<Condition> conditions_;
};

}  // namespace prism::cli
