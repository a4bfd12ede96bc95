// SPDX-License-Identifier: Apache-2.0
#include "prism/report/csv.hpp"

#include <array>

#include "prism/io/csv.hpp"
#include "prism/trace/time.hpp"

namespace prism {

namespace {

std::string seconds(double ns) {
  return csv_number(seconds_from_ns(ns));
}

template <class... Fields>
std::string row(Fields... fields) {
  const std::array<std::string, sizeof...(fields)> list{std::move(fields)...};
  return csv_row(list);
}

}  // namespace

std::string inspect_csv(const InspectResult& result) {
  std::string text = "key,category,count,mean_s,per_step_s,cv,p95_s,best_law,law_ks\n";
  for (const PoolSummary& pool : result.pools) {
    text += row(pool.key, std::string(category_name(pool.category)), std::to_string(pool.count),
                seconds(pool.mean_ns), seconds(pool.per_step_ns), csv_number(pool.cv), seconds(pool.p95_ns),
                pool.best_law, csv_number(pool.law_ks));
  }
  return text;
}

std::string replay_csv(const ReplayResult& result) {
  std::string text = "step,observed_s,replayed_s,error\n";
  for (const ReplayedStep& step : result.steps) {
    text += row(std::to_string(step.step), seconds(step.observed_ns), seconds(step.replayed_ns),
                csv_number(step.error()));
  }
  return text;
}

std::string validate_csv(const ValidateResult& result) {
  std::string text = "name,folds,p50_error,p95_error,p95_error_low,p95_error_high,ks,ks_noise,crps_ratio\n";
  for (const auto* scores : {&result.models, &result.baseline}) {
    for (const ModelScore& score : *scores) {
      text += row(score.name, std::string(fold_name(score.folds)), csv_number(score.p50_error),
                  csv_number(score.p95_error), csv_number(score.p95_low), csv_number(score.p95_high),
                  csv_number(score.ks), csv_number(score.ks_noise), csv_number(score.crps_ratio));
    }
  }
  return text;
}

std::string forecast_csv(const ForecastResult& result) {
  std::string text = "sample,step_time_s\n";
  for (std::size_t i = 0; i < result.samples_ns.size(); ++i) {
    text += row(std::to_string(i), seconds(result.samples_ns[i]));
  }
  return text;
}

}  // namespace prism
