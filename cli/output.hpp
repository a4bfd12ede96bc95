// SPDX-License-Identifier: Apache-2.0
// Where results go, and the checks that scripts ask for.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/commands.hpp"

namespace prism::cli {

/// Writes a result to standard output, or atomically to options.output.
void emit(const CommonOptions& options, const std::string& result);

/// Evaluates `--fail-if NAME>NUMBER` (or <) on a command's metrics; says each that holds on standard error.
/// Returns kCheckFailed if any holds. Throws UsageError for a condition that cannot be read or a name the
/// command does not have.
int check(const std::vector<std::string>& conditions, const std::map<std::string, double>& metrics);

/// Bad use of the command line found after parsing. Programs exit with 2.
class UsageError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace prism::cli
