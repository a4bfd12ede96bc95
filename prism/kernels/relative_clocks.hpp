// SPDX-License-Identifier: Apache-2.0
// What is known about the clocks of traces relative to each other, while matching goes on.
//
// Unix times of two machines agree to milliseconds; relative times say nothing until some communication is matched.
// Whatever was learned from one process group helps the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "prism/kernels/align_order.hpp"

namespace prism {

class RelativeClocks {
 public:
  /// [trace] whether its times are Unix times.
  explicit RelativeClocks(std::vector<bool> absolute);

  /// What is known about clock(b) - clock(a); none: nothing.
  [[nodiscard]] std::optional<ClockPrior> prior(std::size_t a, std::size_t b) const;

  /// clock(b) - clock(a): learned, else 0.
  [[nodiscard]] std::int64_t offset(std::size_t a, std::size_t b) const;

  /// Takes clock(b) - clock(a) from a matched set; of no effect if it was known by learning already.
  void learn(std::size_t a, std::size_t b, std::int64_t offset_ns);

  /// Takes Unix clocks that nothing linked for equal.
  void join_absolute();

 private:
  std::vector<bool> absolute_;
  std::vector<std::size_t> set_;             // [trace] traces of one set are known relative to each other
  std::vector<std::int64_t> offset_in_set_;  // clock(trace) - clock(first of the set)
};

}  // namespace prism
