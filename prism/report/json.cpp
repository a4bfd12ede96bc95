// SPDX-License-Identifier: Apache-2.0
#include "prism/report/json.hpp"

#include <cmath>

#include <nlohmann/json.hpp>

#include "prism/model/extend_replicas.hpp"
#include "prism/trace/time.hpp"

namespace prism {

namespace {

using Json = nlohmann::ordered_json;

Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}
Json seconds(double ns) {
  return number(seconds_from_ns(ns));
}
Json seconds(const std::optional<double>& ns) {
  return ns ? seconds(*ns) : Json(nullptr);
}

Json mesh_json(const Mesh& mesh) {
  Json json;
  for (std::size_t axis = 0; axis < kAxisCount; ++axis) {
    json[std::string(axis_name(static_cast<Axis>(axis)))] = mesh.sizes[axis];
  }
  json["rank_order"] = mesh.order_text();
  json["world_size"] = mesh.world_size();
  return json;
}

Json dropped_json(const StepModel& model) {
  Json list = Json::array();
  for (const ImportEntry& entry : model.report.entries()) {
    list.push_back({{"severity", severity_name(entry.severity)},
                    {"reason", entry.reason},
                    {"count", entry.count},
                    {"places", entry.places}});
  }
  return list;
}

Json inferences_json(const StepModel& model, std::string_view kind) {
  Json list = Json::array();
  for (const Inference& inference : model.inferences) {
    if (inference.kind == kind) list.push_back(inference.what);
  }
  return list;
}

Json graph_json(const StepModel& model) {
  return {{"nodes", model.graph.size()},
          {"edges", model.graph.edge_count()},
          {"ranks", std::size_t{model.template_ranks} * model.replicas},
          {"traced_ranks", model.traced_ranks()},
          {"replicas", model.replicas}};
}

/// What all documents start with.
Json document(std::string_view command, const StepModel& model, const RunInfo& info) {
  Json json;
  json["schema"] = "prism." + std::string(command) + "/1";
  json["version"] = prism_version();
  if (info.seed) json["seed"] = *info.seed;
  json["inputs"] = Json::array({{{"path", model.source}, {"digest", model.digest}}});
  return json;
}

std::string text_of(Json json, const StepModel& model, const std::vector<std::string>& warnings) {
  json["warnings"] = warnings;
  json["dropped"] = dropped_json(model);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json score_json(const ModelScore& score) {
  return {{"name", score.name},
          {"folds", fold_name(score.folds)},
          {"p50_error", number(score.p50_error)},
          {"p50_error_range", {number(score.p50_low), number(score.p50_high)}},
          {"p95_error", number(score.p95_error)},
          {"p95_error_range", {number(score.p95_low), number(score.p95_high)}},
          {"ks", number(score.ks)},
          {"ks_noise", number(score.ks_noise)},
          {"crps_ratio", number(score.crps_ratio)}};
}

Json component_json(const StepModel& model, const ClassComponents& c) {
  return {{"class", c.duration_class ? model.pools.classes[*c.duration_class].key : "all compute of a cell"},
          {"rank_sd", number(c.rank_sd)},
          {"step_sd", number(c.step_sd)},
          {"cell_sd", number(c.cell_sd)},
          {"residual_sd", number(c.residual_sd)},
          {"f_step", number(c.tests.step)},
          {"f_step_limit", number(c.tests.step_limit)},
          {"f_rank", number(c.tests.rank)},
          {"f_rank_limit", number(c.tests.rank_limit)},
          {"f_cell", number(c.tests.cell)},
          {"f_cell_limit", number(c.tests.cell_limit)}};
}

Json inferred(Json json, const StepModel& model) {
  json["inferred_edges"] = inferences_json(model, "posting edge");
  json["barriers"] = inferences_json(model, "barrier over replicas");
  json["stage_waits"] = inferences_json(model, "wait for all stages");
  return json;
}

}  // namespace

namespace {

/// Where the time of each rank went, of kernel-level models.
Json with_ranks(Json json, const StepModel& model, const InspectResult& result) {
  if (result.rank_compute.empty()) return json;
  Json activity = Json::array();
  for (const RankActivity& rank : model.activity) {
    activity.push_back({{"rank", rank.rank},
                        {"busy", number(rank.busy)},
                        {"exposed_communication", number(rank.communicating)},
                        {"waiting_for_ranks", number(rank.waiting_ranks)},
                        {"waiting_for_host", number(rank.waiting_host)}});
  }
  json["activity"] = std::move(activity);
  Json compute = Json::array();
  for (const RankCompute& rank : result.rank_compute) {
    compute.push_back({{"rank", rank.rank}, {"mean_s", seconds(rank.mean_ns)}, {"cv", number(rank.cv)}});
  }
  json["rank_compute"] = std::move(compute);
  Json phases = Json::array();
  for (const PhaseTime& time : result.phases) {
    phases.push_back({{"phase", time.phase == Phase::Unknown ? "unknown" : phase_name(time.phase)},
                      {"per_step_s", seconds(time.per_step_ns)}});
  }
  json["phases"] = std::move(phases);
  return json;
}

}  // namespace

std::string inspect_json(const StepModel& model, const InspectResult& result, const RunInfo& info) {
  Json json = document("inspect", model, info);
  json["ranks"] = result.ranks;
  json["steps"] = model.steps;
  json["ops"] = result.ops;
  json["mesh"] = mesh_json(model.mesh);
  json["graph"] = graph_json(model);
  json = inferred(std::move(json), model);
  Json pools = Json::array();
  for (const PoolSummary& pool : result.pools) {
    pools.push_back({{"key", pool.key},
                     {"category", category_name(pool.category)},
                     {"count", pool.count},
                     {"mean_s", seconds(pool.mean_ns)},
                     {"per_step_s", seconds(pool.per_step_ns)},
                     {"cv", number(pool.cv)},
                     {"p95_s", seconds(pool.p95_ns)},
                     {"best_law", pool.best_law},
                     {"law_ks", number(pool.law_ks)}});
  }
  json["pools"] = std::move(pools);
  json = with_ranks(std::move(json), model, result);
  Json offsets = Json::array();
  for (std::size_t i = 0; i < model.clock_offsets_ns.size(); ++i) {
    offsets.push_back({{"rank", model.recording ? model.recording->ranks[i] : static_cast<int>(i)},
                       {"offset_s", seconds(model.clock_offsets_ns[i])}});
  }
  json["clock_offsets_s"] = std::move(offsets);
  return text_of(std::move(json), model, extension_warnings(model));
}

std::string replay_json(const StepModel& model, const ReplayResult& result, const RunInfo& info) {
  Json json = document("replay", model, info);
  json["launch_delays"] = launch_delays_name(model.delays);
  json["mean_observed_s"] = seconds(result.mean_observed_ns);
  json["mean_replayed_s"] = seconds(result.mean_replayed_ns);
  json["discrepancy"] = number(result.discrepancy());
  json["graph"] = graph_json(model);
  json = inferred(std::move(json), model);
  Json steps = Json::array();
  for (const ReplayedStep& step : result.steps) {
    steps.push_back({{"step", step.step},
                     {"observed_s", seconds(step.observed_ns)},
                     {"replayed_s", seconds(step.replayed_ns)},
                     {"error", number(step.error())}});
  }
  json["steps"] = std::move(steps);
  if (result.start_errors) {
    json["op_start_error_s"] = {{"ops", result.start_errors->ops},
                                {"p50", seconds(result.start_errors->p50_ns)},
                                {"p99", seconds(result.start_errors->p99_ns)}};
  }
  if (result.unexplained_share) json["unexplained_share"] = number(*result.unexplained_share);
  if (!result.across_steps.empty()) {
    Json across = Json::array();
    for (const CrossStep& pair : result.across_steps) {
      across.push_back({{"from", pair.from},
                        {"to", pair.to},
                        {"error", number(pair.error)},
                        {"gpu_error", number(pair.gpu_error)},
                        {"lags_error", number(pair.lags_error)},
                        {"observed_change", number(pair.observed_change)},
                        {"kept_share", number(pair.kept_share)}});
    }
    json["across_steps"] = std::move(across);
  }
  return text_of(std::move(json), model, result.warnings);
}

std::string validate_json(const StepModel& model, const ValidateResult& result, const RunInfo& info) {
  Json json = document("validate", model, info);
  json["target"] = result.target;
  json["chosen"] = sampling_name(result.chosen);
  json["steps"] = model.steps;
  Json scores = Json::array();
  for (const ModelScore& score : result.models) scores.push_back(score_json(score));
  json["models"] = std::move(scores);
  Json baseline = Json::array();
  for (const ModelScore& score : result.baseline) baseline.push_back(score_json(score));
  json["baseline"] = std::move(baseline);
  json["a"] = number(result.effects.share);
  json["coupling"] = number(result.coupling);
  Json components = Json::array();
  for (const ClassComponents& c : result.effects.components) components.push_back(component_json(model, c));
  json["components"] = std::move(components);
  json["findings"] = result.findings;
  json = inferred(std::move(json), model);
  return text_of(std::move(json), model, result.warnings);
}

std::string forecast_json(const StepModel& model, const ForecastResult& result, const RunInfo& info) {
  Json json = document("forecast", model, info);
  const Moments& m = result.summary.moments_ns;
  Json step_time = {{"mean", seconds(m.mean)},
                    {"std", seconds(m.sd)},
                    {"cv", number(m.cv)},
                    {"min", seconds(m.min)},
                    {"max", seconds(m.max)}};
  Json quantiles = Json::array();
  for (std::size_t i = 0; i < result.summary.quantiles.size(); ++i) {
    const QuantileEstimate& q = result.summary.quantiles[i];
    const bool has_input = i < result.input_intervals.size();
    quantiles.push_back(
        {{"p", q.p},
         {"value", seconds(q.value_ns)},
         {"low", seconds(q.low_ns)},
         {"high", seconds(q.high_ns)},
         {"input_low", has_input ? seconds(result.input_intervals[i].low_ns) : Json(nullptr)},
         {"input_high", has_input ? seconds(result.input_intervals[i].high_ns) : Json(nullptr)}});
  }
  step_time["quantiles"] = std::move(quantiles);
  json["step_time_s"] = std::move(step_time);
  if (result.guarantee.bound_ns) {
    json["guarantee"] = {{"p", result.guarantee.p},
                         {"confidence", result.guarantee.confidence},
                         {"bound_s", seconds(result.guarantee.bound_ns)},
                         {"basis", result.guarantee.reason}};
  } else {
    json["guarantee"] = nullptr;
    json["reason"] = result.guarantee.reason;
  }
  json["anchor"] = nullptr;
  if (result.anchor) {
    json["anchor"] = {{"source", result.anchor->source},
                      {"factor", number(result.anchor->factor)},
                      {"steps", result.anchor->steps},
                      {"uses_log_variation", result.anchor->uses_log_variation}};
  }
  json["samples"] = result.samples_ns.size();
  json["model"] = is_composed(model) ? "laws" : sampling_name(result.sampling);
  json["graph"] = graph_json(model);
  Json windows = Json::array();
  for (const ProfiledWindow& w : result.windows) {
    windows.push_back({{"first_step", w.first_step},
                       {"last_step", w.last_step},
                       {"steps", w.steps},
                       {"mean_s", seconds(w.mean_ns)},
                       {"differs", w.differs}});
  }
  json["windows"] = std::move(windows);
  Json sources = Json::array();
  for (const SpreadSource& source : result.spread.sources) {
    sources.push_back({{"pool", source.key},
                       {"category", category_name(source.category)},
                       {"share", number(source.share)},
                       {"mean_s", seconds(source.mean_ns)}});
  }
  Json ranks = Json::array();
  for (const RankOnPath& rank : result.spread.ranks) {
    ranks.push_back({{"rank", rank.rank}, {"share", number(rank.share)}});
  }
  json["ranks_on_path"] = std::move(ranks);
  json["spread_samples"] = result.spread.samples;
  json["spread"] = std::move(sources);
  if (info.timing) {
    json["elapsed_s"] = number(result.sampling_seconds);
    json["node_samples_per_s"] =
        number(static_cast<double>(result.nodes_per_sample) * static_cast<double>(result.samples_ns.size()) /
               result.sampling_seconds);
  }
  return text_of(std::move(json), model, result.warnings);
}

std::string export_json(const StepModel& model, const ExportResult& result, const RunInfo& info) {
  Json json = document("export", model, info);
  json["folder"] = result.folder;
  json["files"] = result.files;
  json["model"] = is_composed(model) ? "laws" : sampling_name(result.sampling);
  Json steps = Json::array();
  for (const ExportResult::Step& step : result.steps) {
    steps.push_back({{"step", step.number}, {"step_time_s", seconds(step.step_ns)}});
  }
  json["steps"] = std::move(steps);
  return text_of(std::move(json), model, {});
}

std::string model_json(const StepModel& model, std::string_view command, const RunInfo& info) {
  Json json = document(command, model, info);
  json["mesh"] = mesh_json(model.mesh);
  json["graph"] = graph_json(model);
  json["classes"] = model.pools.classes.size();
  json["pool_values"] = model.pools.values_ns.size();
  json["steps"] = model.steps;
  json = inferred(std::move(json), model);
  json["has_recording"] = model.recording != nullptr;
  return text_of(std::move(json), model, {});
}

}  // namespace prism
