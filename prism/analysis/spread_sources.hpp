// SPDX-License-Identifier: Apache-2.0
// Which ops make the step-time distribution wide.
//
// An op's criticality is the share of samples in which it lies on the critical path. To first order the step time is
// the sum of all durations weighted by it, so the covariance of a pool's weighted durations with the step time is its
// part of the variance. A pool that is long but constant counts for nothing, and so does one that is never critical.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "prism/model/duration_pools.hpp"
#include "prism/model/sampling.hpp"
#include "prism/model/step_model.hpp"
#include "prism/run/control.hpp"

namespace prism {

struct SpreadSource {
  std::string key;  ///< pool key
  Category category = Category::Compute;
  double mean_ns = 0;  ///< time on the critical path, mean over samples
  double share =
      0;  ///< of the step time's variance; the shares of all sources add up to 1 and may be negative
};

/// How much of the critical path lies on a rank of the template (of any replica).
struct RankOnPath {
  std::int32_t rank = 0;  ///< template rank; of a plan the pipeline rank
  double share = 0;       ///< of the time on the path, mean over samples
};

struct SpreadSources {
  std::size_t samples = 0;
  std::vector<SpreadSource> sources;  ///< largest share first; empty if all samples take equally long
  std::vector<RankOnPath> ranks;      ///< largest share first
};

/// From as many of the first samples as fit a budget of node evaluations, at most 256; none where not even 32 fit (more
/// than 500,000 nodes times replicas).
SpreadSources find_spread_sources(const StepModel& model, Sampling sampling, const StepEffects& effects,
                                  std::uint32_t seed, const RunControl& control);

}  // namespace prism
