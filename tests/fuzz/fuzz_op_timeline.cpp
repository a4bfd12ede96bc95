// SPDX-License-Identifier: Apache-2.0
// Bytes as an op-level timeline, through alignment, graph and replay. Either an InputError, or a model whose
// replay is a finite time for every step and whose saved structure is sound.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string_view>

#include "prism/analysis/replay.hpp"
#include "prism/ingest/op_timeline_csv.hpp"
#include "prism/model/build_step_model.hpp"
#include "prism/model/clocks.hpp"
#include "prism/trace/error.hpp"
#include "tests/fuzz/require.hpp"

namespace {

void use_model(const std::shared_ptr<const prism::RecordedJob>& job, prism::LaunchDelays delays) {
  const prism::StepModel model = prism::build_step_model(job, delays);
  prism::fuzz::require(std::ranges::all_of(model.pools.values_ns, [](double v) { return std::isfinite(v); }),
                       "a pool value is not finite");
  const prism::ReplayResult result = prism::replay(model, {.threads = 1});
  prism::fuzz::require(result.steps.size() == job->steps.size(), "a step is lost in replay");
  for (const prism::ReplayedStep& step : result.steps) {
    prism::fuzz::require(std::isfinite(step.replayed_ns), "a replayed time is not finite");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    prism::ImportReport report;
    const prism::OpTimeline timeline = prism::parse_op_timeline(text, "fuzz.csv", report);
    auto job = std::make_shared<prism::RecordedJob>(prism::align(timeline, report));
    prism::align_clocks(*job, report);
    for (const prism::LaunchDelays delays :
         {prism::LaunchDelays::Clean, prism::LaunchDelays::Raw, prism::LaunchDelays::Off}) {
      use_model(job, delays);
    }
  } catch (const prism::InputError&) {
    return 0;
  }
  return 0;
}
