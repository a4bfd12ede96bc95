// SPDX-License-Identifier: Apache-2.0
// Plans and sweeps over plans as text, JSON and CSV.
#pragma once

#include <string>

#include "prism/analysis/plan_sweep.hpp"
#include "prism/plan/plan.hpp"
#include "prism/plan/plan_summary.hpp"
#include "prism/report/run_info.hpp"

namespace prism {

std::string plan_text(const Plan& plan, const PlanSummary& summary);
/// Schema prism.inspect.plan/1.
std::string plan_json(const Plan& plan, const PlanSummary& summary);
/// The settings: key, value, given, source.
std::string plan_csv(const Plan& plan);

/// The `shown` best ways by p50 and by p95.
std::string sweep_text(const SweepResult& result, std::size_t shown);
/// Schema prism.plan.sweep/1.
std::string sweep_json(const SweepResult& result, const RunInfo& info);
std::string sweep_csv(const SweepResult& result);

}  // namespace prism
