// SPDX-License-Identifier: Apache-2.0
// The lags that a rank's GPU and host always have: what remains of a start's delay after these is a finding.
#pragma once

#include <cstdint>
#include <vector>

#include "prism/kernels/launches.hpp"
#include "prism/kernels/stream_order.hpp"
#include "prism/trace/rank_trace.hpp"

namespace prism {

struct UsualLags {
  /// Median gap between two kernels of a stream when the second was waiting in the queue. Negative with
  /// programmatic dependent launch.
  double gap_ns = 0;
  /// [name of the call] from the begin of the call to the start of its op on an idle stream, if no op of another
  /// stream ended in between, for which it may have waited: the shortest seen but for one in a hundred, at least 0;
  /// that of all launches for a name with too few of them.
  std::vector<double> launch_ns;
  double any_launch_ns =
      5'000;  ///< of a device that was never idle: 5 us, the middle of what is seen elsewhere

  [[nodiscard]] double launch(NameId call) const { return launch_ns[call.value]; }
};

UsualLags measure_usual_lags(const RankTrace& trace, const Launches& launches, const StreamOrder& streams);

}  // namespace prism
