// SPDX-License-Identifier: Apache-2.0
// Bytes as profiler traces of several ranks, one after the other behind lines "====": an InputError, or a model whose
// replay gives back every recorded step and start and whose shares add up.
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "prism/analysis/replay.hpp"
#include "prism/ingest/kineto.hpp"
#include "prism/kernels/build_kernel_model.hpp"
#include "prism/trace/error.hpp"
#include "tests/fuzz/require.hpp"

namespace {

using namespace prism;
using prism::fuzz::require;

constexpr std::string_view kNextRank = "\n====\n";
constexpr std::size_t kMostRanks = 4;

std::vector<RankTrace> read_ranks(std::string_view bytes, ImportReport& report) {
  std::vector<RankTrace> traces;
  while (traces.size() < kMostRanks) {
    const std::size_t end = bytes.find(kNextRank);
    const auto rank = static_cast<int>(traces.size());
    const std::string name = "rank" + std::to_string(rank) + ".json";
    traces.push_back(read_kineto_bytes(bytes.substr(0, end), name, {.strict = false, .rank = rank}, report));
    if (end == std::string_view::npos) break;
    bytes.remove_prefix(end + kNextRank.size());
  }
  return traces;
}

/// Differences of doubles are exact up to 2^53 ns; hostile times go beyond.
bool about_equal(double a, double b, double scale) {
  return std::abs(a - b) <= 1e-9 * std::max(1e6, scale);
}

void check(const StepModel& model) {
  require(model.step_count() > 0, "a model without steps");
  require(model.observed_ns.size() == model.step_count(), "observed times of other steps");
  double longest = model.lead_ns;
  for (const double value : model.pools.values_ns) {
    require(std::isfinite(value), "a duration is not finite");
    longest = std::max(longest, std::abs(value));
  }
  for (const RankActivity& of : model.activity) {
    const double sum = of.busy + of.communicating + of.waiting_host + of.waiting_ranks;
    require(std::abs(sum - 1) < 1e-6, "shares do not add up");
    require(of.busy >= 0 && of.communicating >= 0 && of.waiting_ranks >= 0, "a negative share");
  }
  const ReplayResult result = replay(model, {.threads = 1});
  for (const ReplayedStep& step : result.steps) {
    require(step.observed_ns > 0, "a step of no time");
    require(about_equal(step.replayed_ns, step.observed_ns, longest), "replay differs");
  }
  require(result.start_errors.has_value(), "no recorded starts");
  require(about_equal(result.start_errors->p99_ns, 0, longest), "replayed starts differ");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  ImportReport report;
  try {
    const KernelRecording job = record_ranks(read_ranks(bytes, report), {.threads = 1}, report);
    check(build_kernel_model(job, std::move(report)));
  } catch (const InputError&) {
    return 0;
  }
  return 0;
}
