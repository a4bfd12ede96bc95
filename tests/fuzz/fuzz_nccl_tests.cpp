// SPDX-License-Identifier: Apache-2.0
// Measured collectives and GPU fleets: points with positive times, or a clear error.
#include <cstdint>
#include <string>
#include <string_view>

#include "prism/plan/gpu_fleet.hpp"
#include "prism/plan/nccl_tests.hpp"
#include "prism/trace/error.hpp"
#include "tests/fuzz/require.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  prism::ImportReport report;
  prism::MeasuredCollectives measured;
  try {
    prism::read_nccl_tests_log(text, "all_reduce.log", measured, report);
  } catch (const prism::InputError&) {
  }
  try {
    prism::read_nccl_tests_csv(text, "table.csv", measured, report);
  } catch (const prism::InputError&) {
  }
  for (const auto& point : measured.points()) {
    prism::fuzz::require(point.ns > 0 && point.bytes > 0 && point.ranks > 0, "measured points are positive");
  }
  try {
    for (const double factor : prism::parse_gpu_fleet(text, "fleet.csv", report).spatial) {
      prism::fuzz::require(factor > 0, "factors are positive");
    }
  } catch (const prism::InputError&) {
  }
  return 0;
}
