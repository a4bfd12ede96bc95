// SPDX-License-Identifier: Apache-2.0
// A plan file: a plan, a clear error, never anything else. Small plans are built as well.
#include <cstdint>
#include <string_view>

#include "prism/plan/build_plan_model.hpp"
#include "prism/plan/read_plan.hpp"
#include "prism/trace/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const prism::Plan plan =
        prism::parse_plan({reinterpret_cast<const char*>(data), size}, "plan.toml", "/nowhere");
    const bool small = plan.parallel.world_size() <= 64 && plan.microbatches <= 16 &&
                       plan.schedule.chunks <= 4 && (!plan.model || plan.model->layers <= 64);
    if (small) prism::build_plan_model(plan);
  } catch (const prism::InputError&) {
  }
  return 0;
}
