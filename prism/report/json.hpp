// SPDX-License-Identifier: Apache-2.0
// Results as JSON documents: `"schema": "prism.<command>/1"`, version, seed, input digest, warnings, what was
// dropped. Times are seconds. The same result gives the same bytes.
#pragma once

#include <string>
#include <string_view>

#include "prism/analysis/forecast.hpp"
#include "prism/analysis/inspect.hpp"
#include "prism/analysis/replay.hpp"
#include "prism/analysis/validate.hpp"
#include "prism/model/step_model.hpp"
#include "prism/report/export_result.hpp"
#include "prism/report/run_info.hpp"

namespace prism {

std::string inspect_json(const StepModel& model, const InspectResult& result, const RunInfo& info);
std::string replay_json(const StepModel& model, const ReplayResult& result, const RunInfo& info);
std::string validate_json(const StepModel& model, const ValidateResult& result, const RunInfo& info);
std::string forecast_json(const StepModel& model, const ForecastResult& result, const RunInfo& info);
std::string export_json(const StepModel& model, const ExportResult& result, const RunInfo& info);
/// What a saved model holds, for `command` "model.save" or "model.show".
std::string model_json(const StepModel& model, std::string_view command, const RunInfo& info);

}  // namespace prism
