// SPDX-License-Identifier: Apache-2.0
// Bytes as a log of step times: an InputError, or times above 0 on lines that the text has.
#include <algorithm>
#include <cmath>
#include <string_view>

#include "prism/ingest/step_log.hpp"
#include "prism/trace/error.hpp"
#include "tests/fuzz/require.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  prism::ImportReport report;
  try {
    const prism::StepLog log = prism::parse_step_log(text, "fuzz.log", report);
    const auto lines = static_cast<std::uint64_t>(std::ranges::count(text, '\n')) + 1;
    prism::fuzz::require(!log.steps.empty() && log.averaged >= 1, "a log without steps");
    for (const prism::LoggedStep& step : log.steps) {
      prism::fuzz::require(std::isfinite(step.time_ns) && step.time_ns > 0, "no time");
      prism::fuzz::require(step.line >= 1 && step.line <= lines, "a line that is not there");
    }
  } catch (const prism::InputError&) {
    return 0;
  }
  return 0;
}
