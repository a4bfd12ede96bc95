// SPDX-License-Identifier: Apache-2.0
#include "cli/output.hpp"

#include <cstdio>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "prism/io/atomic_file.hpp"
#include "prism/io/csv.hpp"

namespace prism::cli {

void emit(const CommonOptions& options, const std::string& result) {
  if (!options.output.empty() && options.output != "-") {
    write_atomically(options.output, result);
    return;
  }
  const std::size_t written = std::fwrite(result.data(), 1, result.size(), stdout);
  if (written != result.size() || std::fflush(stdout) != 0) {
    throw std::system_error(errno, std::generic_category(), "standard output");
  }
}

int check(const std::vector<std::string>& conditions, const std::map<std::string, double>& metrics) {
  int code = kDone;
  for (const std::string& condition : conditions) {
    const std::size_t at = condition.find_first_of("<>");
    std::optional<double> bound;
    if (at != std::string::npos) bound = parse_double(std::string_view(condition).substr(at + 1));
    if (!bound) throw UsageError("--fail-if '" + condition + "': expected NAME>NUMBER or NAME<NUMBER");
    const auto metric = metrics.find(condition.substr(0, at));
    if (metric == metrics.end()) {
      std::string names;
      for (const auto& [name, value] : metrics) names += (names.empty() ? "" : ", ") + name;
      throw UsageError("--fail-if '" + condition + "': this command's names are " + names);
    }
    const bool holds = condition[at] == '>' ? metric->second > *bound : metric->second < *bound;
    if (!holds) continue;
    std::fprintf(stderr, "prism: check failed: %s (%s is %.6g)\n", condition.c_str(), metric->first.c_str(),
                 metric->second);
    code = kCheckFailed;
  }
  return code;
}

}  // namespace prism::cli
