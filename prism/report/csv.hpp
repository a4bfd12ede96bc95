// SPDX-License-Identifier: Apache-2.0
// Results as CSV, where rows are natural: profiled steps, scores, pools, samples. Times are seconds.
#pragma once

#include <string>

#include "prism/analysis/forecast.hpp"
#include "prism/analysis/inspect.hpp"
#include "prism/analysis/replay.hpp"
#include "prism/analysis/validate.hpp"

namespace prism {

/// key,category,count,mean_s,per_step_s,cv,p95_s,best_law,law_ks
std::string inspect_csv(const InspectResult& result);
/// step,observed_s,replayed_s,error
std::string replay_csv(const ReplayResult& result);
/// name,folds,p50_error,p95_error,p95_error_low,p95_error_high,ks,ks_noise,crps_ratio
std::string validate_csv(const ValidateResult& result);
/// sample,step_time_s
std::string forecast_csv(const ForecastResult& result);

}  // namespace prism
