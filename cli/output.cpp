// SPDX-License-Identifier: Apache-2.0
#include "cli/output.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "prism/io/atomic_file.hpp"
#include "prism/io/csv.hpp"

namespace prism::cli {

void emit(const CommonOptions& options, const std::string& result) {
  if (!options.output.empty() && options.output != "-") {
    try {
      write_atomically(options.output, result);
    } catch (const std::system_error& error) {
      throw UsageError(error.what());
    }
    return;
  }
  const std::size_t written = std::fwrite(result.data(), 1, result.size(), stdout);
  if (written != result.size() || std::fflush(stdout) != 0) {
    throw UsageError("standard output cannot be written: " + std::string(std::strerror(errno)));
  }
}

void warn_losses(const CommonOptions& options, const ImportReport& report) {
  if (options.format != Format::Csv) return;
  for (const ImportEntry& entry : report.entries()) {
    if (entry.severity == Severity::Info) continue;
    std::fprintf(stderr, "prism: %s: %s: %zu times\n", std::string(severity_name(entry.severity)).c_str(),
                 entry.reason.c_str(), entry.count);
  }
}

FailConditions::FailConditions(const std::vector<std::string>& texts,
                               std::span<const std::string_view> metrics) {
  for (const std::string& text : texts) {
    const std::size_t at = text.find_first_of("<>");
    std::optional<double> bound;
    if (at != std::string::npos) bound = parse_double(std::string_view(text).substr(at + 1));
    if (!bound) throw UsageError("--fail-if '" + text + "': expected NAME>NUMBER or NAME<NUMBER");
    const std::string metric = text.substr(0, at);
    if (std::ranges::find(metrics, metric) == metrics.end()) {
      std::string names;
      for (const std::string_view name : metrics) names += (names.empty() ? "" : ", ") + std::string(name);
      throw UsageError("--fail-if '" + text + "': this command's names are " + names);
    }
    conditions_.push_back({text, metric, text[at] == '>', *bound});
  }
}

int FailConditions::check(const std::map<std::string_view, double>& values) const {
  int code = kDone;
  for (const Condition& condition : conditions_) {
    const double value = values.at(condition.metric);
    if (condition.above ? !(value > condition.bound) : !(value < condition.bound)) continue;
    std::fprintf(stderr, "prism: check failed: %s (it is %.6g)\n", condition.text.c_str(), value);
    code = kCheckFailed;
  }
  return code;
}

}  // namespace prism::cli
