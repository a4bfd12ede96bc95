// SPDX-License-Identifier: Apache-2.0
// A schedule as a table: a schedule that runs, or a clear error.
#include <cstdint>
#include <string_view>

#include "prism/plan/schedule.hpp"
#include "prism/trace/error.hpp"
#include "tests/fuzz/require.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const prism::PipelineSchedule schedule =
        prism::parse_schedule_table({reinterpret_cast<const char*>(data), size}, "table.csv");
    prism::fuzz::require(prism::time_schedule(schedule, {}, "table.csv").makespan > 0,
                         "a schedule takes time");
  } catch (const prism::InputError&) {
  }
  return 0;
}
