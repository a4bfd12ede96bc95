// SPDX-License-Identifier: Apache-2.0
#include "prism/report/plan_report.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "prism/io/csv.hpp"
#include "prism/trace/time.hpp"

namespace prism {

namespace {

using Json = nlohmann::ordered_json;

constexpr double kGb = 1e9;

std::string thousands(std::int64_t n) {
  std::string text = std::to_string(n);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

std::string bytes_text(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.2f} GB", bytes / 1e9);
  if (bytes >= 1e6) return fmt::format("{:.1f} MB", bytes / 1e6);
  if (bytes >= 1e3) return fmt::format("{:.1f} kB", bytes / 1e3);
  return fmt::format("{:.0f} B", bytes);
}

std::string duration_text(double ns) {
  if (ns >= 1e9) return fmt::format("{:.3f} s", ns / 1e9);
  if (ns >= 1e6) return fmt::format("{:.2f} ms", ns / 1e6);
  return fmt::format("{:.1f} us", ns / 1e3);
}

std::string degrees_text(const Parallel& p) {
  std::string text = fmt::format("tp {} x cp {} x pp {} x dp {}", p.tp, p.cp, p.pp, p.dp);
  if (p.ep > 1) text += fmt::format(", experts ep {} x etp {}", p.ep, p.etp);
  return text;
}

std::string memory_table(const PlanSummary& summary) {
  if (summary.memory.empty()) return {};
  std::string text =
      "\nGPU memory, GB   weights  gradients  optimizer  activations  other   total   free for it\n";
  for (std::size_t q = 0; q < summary.memory.size(); ++q) {
    const MemoryUse& m = summary.memory[q];
    text += fmt::format("pipeline rank {:<4}{:>6.1f}{:>11.1f}{:>11.1f}{:>13.1f}{:>7.1f}{:>8.1f}{:>14.1f}{}\n",
                        q, m.weights / kGb, m.gradients / kGb, m.optimizer / kGb, m.activations / kGb,
                        m.workspace / kGb, m.total() / kGb, summary.memory_limit_bytes[q] / kGb,
                        m.total() > summary.memory_limit_bytes[q] ? "  too much" : "");
  }
  return text;
}

std::string message_table(const PlanSummary& summary) {
  if (summary.messages.empty()) return "\nno messages\n";
  std::string text =
      fmt::format("\n{:<34}{:<15}{:>6} {:<12}{:>8}{:>12}{:>12}{:>12}  {}\n", "messages of a rank and step",
                  "kind", "ranks", "over", "count", "size", "each", "in all", "by");
  for (const MessageSummary& m : summary.messages) {
    text += fmt::format("{:<34}{:<15}{:>6} {:<12}{:>8}{:>12}{:>12}{:>12}  {}\n",
                        m.name + " (" + group_axis_name(m.axis) + ")", collective_name(m.kind), m.ranks,
                        link_class_name(m.link), m.count, bytes_text(m.bytes), duration_text(m.ns),
                        duration_text(m.ns * static_cast<double>(m.count)), m.algorithm);
  }
  return text;
}

std::string settings_table(const Plan& plan) {
  std::size_t key = 0;
  std::size_t value = 0;
  for (const Setting& s : plan.settings) {
    key = std::max(key, s.key.size());
    value = std::max(value, std::min<std::size_t>(s.value.size(), 40));
  }
  std::string text = "\nsettings\n";
  for (const Setting& s : plan.settings) {
    text += fmt::format("  {:<{}}  {:<{}}  {}\n", s.key, key, s.value, value, s.source);
  }
  return text;
}

Json difference_json(const PairedDifference& d) {
  return {{"value", seconds_from_ns(d.value_ns)},
          {"low", seconds_from_ns(d.low_ns)},
          {"high", seconds_from_ns(d.high_ns)}};
}

Json quantile_json(const QuantileEstimate& q) {
  const auto end = [](const std::optional<double>& ns) {
    return ns ? Json(seconds_from_ns(*ns)) : Json(nullptr);
  };
  return {
      {"p", q.p}, {"value", seconds_from_ns(q.value_ns)}, {"low", end(q.low_ns)}, {"high", end(q.high_ns)}};
}

/// One table of a sweep: its rows in the order of p50 or of p95.
std::string sweep_table(const std::vector<const SweepRow*>& rows, std::size_t shown, bool by_p50) {
  std::size_t width = 3;
  for (const SweepRow* row : rows) width = std::max(width, way_text(*row).size());
  std::string text = fmt::format("\n{:<7}{:>5}  {:<{}}{:>10}{:>10}  {:<33}{:>6}\n",
                                 by_p50 ? "by p50" : "by p95", by_p50 ? "p95" : "p50", "way", width, "p50, s",
                                 "p95, s", "s to the best, 95 % interval", "GB");
  for (std::size_t i = 0; i < std::min(shown, rows.size()); ++i) {
    const SweepRow& row = *rows[i];
    const PairedDifference& d = by_p50 ? row.p50_to_best : row.p95_to_best;
    const std::string difference =
        fmt::format("{:+.4f} ({:+.4f} .. {:+.4f})", d.value_ns / 1e9, d.low_ns / 1e9, d.high_ns / 1e9);
    text += fmt::format("{:>6}{:>6}  {:<{}}{:>10.4f}{:>10.4f}  {:<33}{:>6.1f}\n",
                        by_p50 ? row.rank_by_p50 : row.rank_by_p95,
                        by_p50 ? row.rank_by_p95 : row.rank_by_p50, way_text(row), width,
                        row.p50.value_ns / 1e9, row.p95.value_ns / 1e9, difference, row.memory_bytes / kGb);
  }
  return text;
}

/// What the order by p95 changes, in words.
std::string order_text(const SweepResult& result, const std::vector<const SweepRow*>& by_p95) {
  const SweepRow& median = result.rows.front();
  const SweepRow& tail = *by_p95.front();
  std::size_t moved = 0;
  for (const SweepRow& row : result.rows) moved += row.rank_by_p50 != row.rank_by_p95 ? 1 : 0;
  if (moved == 0) return "\nthe order by p95 is that by p50\n";
  std::string text =
      fmt::format("\n{} of {} ways have another place by p95 than by p50", moved, result.rows.size());
  if (&median == &tail) return text + "; the best is the best by both\n";
  text += fmt::format(": by p50 the best is {}, by p95 {}\n", way_text(median), way_text(tail));
  if (median.p95_to_best.low_ns <= 0) {
    text +=
        "  that their p95 differ at all is not certain (the paired interval holds 0): more --samples "
        "decide\n";
  }
  return text;
}

}  // namespace

std::string plan_text(const Plan& plan, const PlanSummary& summary) {
  std::string text = plan.source + (plan.name.empty() ? "" : ": " + plan.name) + "\n";
  if (plan.model) {
    const Transformer& m = *plan.model;
    text += fmt::format(
        "model     {}: {:.2f} billion parameters{}, {} layers, hidden {}\n", m.name,
        static_cast<double>(summary.parameters.total) / 1e9,
        summary.parameters.active == summary.parameters.total
            ? ""
            : fmt::format(" ({:.2f} active)", static_cast<double>(summary.parameters.active) / 1e9),
        m.layers, m.hidden);
    text += fmt::format("batch     {} sequences of {} tokens a step, {} microbatches of {} per replica\n",
                        thousands(plan.global_batch()), thousands(plan.microbatch.sequence),
                        plan.microbatches, plan.microbatch.sequences);
    text += fmt::format("work      {:.4g} model FLOPs a step; {:.3f} s at the GPUs' bf16 peak\n",
                        summary.flops_per_step, summary.flops_per_step / summary.peak_flops);
  } else {
    text += fmt::format("model     {} ops of the plan's own, {} microbatches per replica\n",
                        plan.free_ops.size(), plan.microbatches);
  }
  std::string gpus;
  for (const HostGroup& group : plan.cluster.groups) gpus += (gpus.empty() ? "" : " and ") + group.gpu.name;
  text += fmt::format("ranks     {} {}: {}\n", thousands(plan.parallel.world_size()), gpus,
                      degrees_text(plan.parallel));
  text += fmt::format("schedule  {}{}: {:.1f} % of the time idle with free communication\n",
                      schedule_name(plan.schedule.kind),
                      plan.schedule.chunks > 1 ? fmt::format(" x{}", plan.schedule.chunks) : "",
                      100 * summary.bubble);
  text += memory_table(summary) + message_table(summary) + settings_table(plan);
  for (const ImportEntry& entry : plan.report.entries()) {
    text += fmt::format("{}: {}: {} times\n", severity_name(entry.severity), entry.reason, entry.count);
  }
  return text + "\nnext: prism forecast " + plan.source + "\n";
}

std::string plan_json(const Plan& plan, const PlanSummary& summary) {
  Json json;
  json["schema"] = "prism.inspect.plan/1";
  json["version"] = prism_version();
  json["inputs"] = Json::array({{{"path", plan.source}, {"digest", plan.digest}}});
  json["name"] = plan.name;
  if (plan.model) {
    json["parameters"] = {{"total", summary.parameters.total},
                          {"active", summary.parameters.active},
                          {"embedding", summary.parameters.embedding},
                          {"output", summary.parameters.output},
                          {"attention_layer", summary.parameters.attention},
                          {"ffn_layer", summary.parameters.dense_ffn},
                          {"expert_layer", summary.parameters.expert_ffn},
                          {"prediction", summary.parameters.prediction}};
    json["model_flops_per_step"] = summary.flops_per_step;
    json["tokens_per_step"] = summary.tokens_per_step;
  }
  json["gpus"] = plan.parallel.world_size();
  json["peak_bf16_flops"] = summary.peak_flops;
  json["schedule"] = {{"kind", schedule_name(plan.schedule.kind)},
                      {"chunks", plan.schedule.chunks},
                      {"microbatches", plan.microbatches},
                      {"idle_share", summary.bubble}};
  Json memory = Json::array();
  for (std::size_t q = 0; q < summary.memory.size(); ++q) {
    const MemoryUse& m = summary.memory[q];
    memory.push_back({{"pipeline_rank", q},
                      {"weights", m.weights},
                      {"gradients", m.gradients},
                      {"optimizer", m.optimizer},
                      {"activations", m.activations},
                      {"other", m.workspace},
                      {"total", m.total()},
                      {"limit", summary.memory_limit_bytes[q]}});
  }
  json["memory_bytes"] = memory;
  Json messages = Json::array();
  for (const MessageSummary& m : summary.messages) {
    messages.push_back({{"name", m.name},
                        {"axis", group_axis_name(m.axis)},
                        {"kind", collective_name(m.kind)},
                        {"ranks", m.ranks},
                        {"link", link_class_name(m.link)},
                        {"count", m.count},
                        {"bytes", m.bytes},
                        {"seconds", seconds_from_ns(m.ns)},
                        {"algorithm", m.algorithm}});
  }
  json["messages"] = messages;
  Json settings = Json::array();
  for (const Setting& s : plan.settings) {
    settings.push_back({{"key", s.key}, {"value", s.value}, {"given", s.given}, {"source", s.source}});
  }
  json["settings"] = settings;
  json["warnings"] = Json::array();
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string plan_csv(const Plan& plan) {
  std::string text = "key,value,given,source\n";
  for (const Setting& s : plan.settings) {
    text += csv_row(std::array<std::string, 4>{s.key, s.value, s.given ? "1" : "0", s.source});
  }
  return text;
}

std::string sweep_text(const SweepResult& result, std::size_t shown) {
  std::string text =
      fmt::format("{}: {} GPUs, {} sequences a step; {} ways tried, {} possible, {} samples of each\n",
                  result.source, thousands(result.gpus), thousands(result.global_batch), result.tried,
                  result.rows.size(), result.samples);
  std::vector<const SweepRow*> rows;
  for (const SweepRow& row : result.rows) rows.push_back(&row);
  text += sweep_table(rows, shown, true);
  std::vector<const SweepRow*> by_p95 = rows;
  std::ranges::sort(by_p95, {}, [](const SweepRow* row) { return row->rank_by_p95; });
  text += sweep_table(by_p95, shown, false);
  text += order_text(result, by_p95);
  for (const SweepRefusal& refusal : result.refused) {
    text += fmt::format("not possible, {} time{}: {}\n", refusal.count, refusal.count == 1 ? "" : "s",
                        refusal.example);
  }
  return text;
}

std::string sweep_json(const SweepResult& result, const RunInfo& info) {
  Json json;
  json["schema"] = "prism.plan.sweep/1";
  json["version"] = prism_version();
  if (info.seed) json["seed"] = *info.seed;
  json["inputs"] = Json::array({{{"path", result.source}, {"digest", result.digest}}});
  json["gpus"] = result.gpus;
  json["global_batch"] = result.global_batch;
  json["samples"] = result.samples;
  json["tried"] = result.tried;
  Json rows = Json::array();
  for (const SweepRow& row : result.rows) {
    const Parallel& p = row.parallel;
    rows.push_back({{"way", way_text(row)},
                    {"tp", p.tp},
                    {"cp", p.cp},
                    {"pp", p.pp},
                    {"dp", p.dp},
                    {"ep", p.ep},
                    {"zero", p.zero},
                    {"schedule", schedule_name(row.schedule.kind)},
                    {"chunks", row.schedule.chunks},
                    {"micro_batch", row.micro_batch},
                    {"microbatches", row.microbatches},
                    {"rank_by_p50", row.rank_by_p50},
                    {"rank_by_p95", row.rank_by_p95},
                    {"mean_s", seconds_from_ns(row.mean_ns)},
                    {"quantiles", Json::array({quantile_json(row.p50), quantile_json(row.p95)})},
                    {"p50_to_best_s", difference_json(row.p50_to_best)},
                    {"p95_to_best_s", difference_json(row.p95_to_best)},
                    {"memory_bytes", row.memory_bytes}});
  }
  json["ways"] = rows;
  Json refused = Json::array();
  for (const SweepRefusal& refusal : result.refused) {
    refused.push_back({{"reason", refusal.reason}, {"count", refusal.count}, {"example", refusal.example}});
  }
  json["refused"] = refused;
  json["warnings"] = result.warnings;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string sweep_csv(const SweepResult& result) {
  std::string text =
      "rank_by_p50,rank_by_p95,tp,cp,pp,dp,ep,zero,schedule,chunks,micro_batch,microbatches,p50_s,p95_s,p50_"
      "to_best_s,p50_to_best_low_s,"
      "p50_to_best_high_s,p95_to_best_s,p95_to_best_low_s,p95_to_best_high_s,memory_bytes\n";
  for (const SweepRow& row : result.rows) {
    const Parallel& p = row.parallel;
    std::vector<std::string> fields;
    for (const std::int64_t n :
         {static_cast<std::int64_t>(row.rank_by_p50), static_cast<std::int64_t>(row.rank_by_p95), p.tp, p.cp,
          p.pp, p.dp, p.ep, static_cast<std::int64_t>(p.zero)}) {
      fields.push_back(std::to_string(n));
    }
    fields.emplace_back(schedule_name(row.schedule.kind));
    for (const std::int64_t n : {row.schedule.chunks, row.micro_batch, row.microbatches})
      fields.push_back(std::to_string(n));
    for (const double ns : {row.p50.value_ns, row.p95.value_ns, row.p50_to_best.value_ns,
                            row.p50_to_best.low_ns, row.p50_to_best.high_ns, row.p95_to_best.value_ns,
                            row.p95_to_best.low_ns, row.p95_to_best.high_ns}) {
      fields.push_back(csv_number(seconds_from_ns(ns)));
    }
    fields.push_back(csv_number(row.memory_bytes));
    text += csv_row(fields);
  }
  return text;
}

}  // namespace prism
