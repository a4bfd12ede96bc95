// SPDX-License-Identifier: Apache-2.0
// Results as text for people: aligned tables, units, plain words, what was dropped, and the next step.
#pragma once

#include <string>

#include "prism/analysis/forecast.hpp"
#include "prism/analysis/inspect.hpp"
#include "prism/analysis/replay.hpp"
#include "prism/analysis/validate.hpp"
#include "prism/model/step_model.hpp"
#include "prism/report/export_result.hpp"
#include "prism/report/run_info.hpp"

namespace prism {

std::string inspect_text(const StepModel& model, const InspectResult& result);
std::string replay_text(const StepModel& model, const ReplayResult& result);
std::string validate_text(const StepModel& model, const ValidateResult& result);
std::string forecast_text(const StepModel& model, const ForecastResult& result, const RunInfo& info);
std::string export_text(const StepModel& model, const ExportResult& result, const RunInfo& info);
std::string model_text(const StepModel& model);

}  // namespace prism
