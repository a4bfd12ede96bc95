// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "prism/io/bytes.hpp"
#include "prism/plan/plan_sections.hpp"

namespace prism {

namespace {

constexpr std::int64_t kMostRanks = std::int64_t{1} << 20;

void read_degrees(PlanTable& table, Parallel& p) {
  const auto degree = [&](const char* key, std::int64_t otherwise, const char* source) {
    return table.integer(key, 1, kMostRanks, otherwise, source);
  };
  p.tp = degree("tp", 1, "default: not split");
  p.cp = degree("cp", 1, "default: not split");
  p.pp = degree("pp", 1, "default: not split");
  p.ep = degree("ep", 1, "default: every rank has all experts");
  p.etp = degree("etp", 1, "default: experts are whole");
  const std::optional<std::int64_t> dp = table.integer("dp", 1, kMostRanks);
  const std::optional<std::int64_t> gpus = table.integer("gpus", 1, kMostRanks);
  if (p.tp > kMostRanks / p.cp || p.tp * p.cp > kMostRanks / p.pp)
    table.refuse("tp", "tp x cp x pp is too large", "at most 1 million");
  const std::int64_t model = p.tp * p.cp * p.pp;
  if (!dp && !gpus) table.refuse("dp", "is missing", "dp, or gpus: the number of all ranks");
  if (gpus && *gpus % model != 0) {
    table.refuse("gpus", std::to_string(*gpus) + " is no multiple of tp x cp x pp = " + std::to_string(model),
                 "change a degree or the number of GPUs");
  }
  p.dp = dp.value_or(gpus.value_or(model) / model);
  if (gpus && p.dp * model != *gpus) {
    table.refuse("gpus",
                 std::to_string(*gpus) + " is not tp x cp x pp x dp = " + std::to_string(model * p.dp),
                 "leave one of gpus and dp out");
  }
  if (dp) {
    table.record("gpus", std::to_string(p.world_size()), "tp x cp x pp x dp");
  } else {
    table.record("dp", std::to_string(p.dp), "gpus / (tp x cp x pp)");
  }
}

}  // namespace

void read_parallel(PlanTable root, Plan& plan) {
  PlanTable table = root.table("parallel");
  Parallel& p = plan.parallel;
  read_degrees(table, p);
  p.sequence_parallel =
      table.flag("sequence_parallel", true, "default: with tensor parallelism (arXiv 2205.05198)");
  p.tp_overlap = table.share("tp_overlap", 1, 0, "default: transfers are exposed");
  constexpr ContextExchange kExchanges[] = {ContextExchange::Ring, ContextExchange::AllGather,
                                            ContextExchange::AllToAll};
  p.cp_exchange = kExchanges[table.choice("cp_exchange", {"ring", "all-gather", "all-to-all"}, 0,
                                          "default: ring attention")];
  p.zero = static_cast<int>(table.integer("zero", 0, 3, 1, "default: sharded optimizer"));
  p.shard = table.integer("shard", 0, kMostRanks, 0, "default: over all of dp x cp");
  p.reshard_after_forward = table.flag("reshard_after_forward", p.pp == 1, "default: without a pipeline");
  p.overlap_gradients =
      table.flag("overlap_gradients", true, "default: behind the last microbatch's backward");
  p.overlap_parameters =
      table.flag("overlap_parameters", true, "default: behind the first microbatch's forward");
  p.overlap_p2p = table.flag("overlap_p2p", true, "default: beside compute");
  p.bucket_parameters = table.integer("bucket_parameters", 0, std::int64_t{1} << 40, 0,
                                      "default: max(40 M, 1 M x dp x cp), Megatron");
  p.gradient_bytes = static_cast<int>(table.integer("gradient_bytes", 1, 8, 4, "default: reduced in fp32"));
  p.main_gradient_bytes =
      static_cast<int>(table.integer("main_gradient_bytes", 1, 8, 4, "default: added up in fp32"));
  p.optimizer_state_bytes =
      table.number("optimizer_state_bytes", 0, 64, 12, "default: Adam, fp32 weight and two moments");
  constexpr Recompute kRecomputes[] = {Recompute::None, Recompute::Selective, Recompute::Full};
  p.recompute = kRecomputes[table.choice("recompute", {"none", "selective", "full"}, 0,
                                         "default: all activations are kept")];
  p.recompute_layers = table.integer("recompute_layers", 0, 1'000'000, 0, "default: all layers of a stage");
  p.expert_load = table.number("expert_load", 1, 1000, 1, "default: balanced");
  const std::optional<std::string> order = table.text("order");
  if (order) {
    const auto parsed = Mesh::parse_order(*order);
    if (!parsed)
      table.refuse("order", "'" + *order + "' does not name each axis once",
                   "such as tp-cp-ep-dp-pp, fastest first");
    p.order = *parsed;
  } else {
    table.record("order", "tp-cp-ep-dp-pp", "default: Megatron");
  }
  table.finish();
}

void read_schedule(PlanTable root, const std::filesystem::path& folder, Plan& plan) {
  PlanTable table = root.table("schedule");
  ScheduleChoice& s = plan.schedule;
  constexpr ScheduleKind kKinds[] = {ScheduleKind::OneForwardOneBackward,
                                     ScheduleKind::GPipe,
                                     ScheduleKind::Interleaved,
                                     ScheduleKind::ZeroBubbleH1,
                                     ScheduleKind::ZeroBubbleV,
                                     ScheduleKind::DualPipe,
                                     ScheduleKind::DualPipeV,
                                     ScheduleKind::Table};
  std::vector<std::string> names;
  for (const ScheduleKind kind : kKinds) names.emplace_back(schedule_name(kind));
  s.kind = kKinds[table.choice("kind", names, 0, "default: Narayanan et al. 2021 (arXiv 2104.04473)")];
  const bool v = s.kind == ScheduleKind::ZeroBubbleV || s.kind == ScheduleKind::DualPipeV;
  s.chunks = table.integer("chunks", 1, 1024, v ? 2 : 1,
                           v ? "of the schedule" : "default: one virtual stage per rank");
  if (s.kind == ScheduleKind::Interleaved && s.chunks == 1) {
    table.refuse("chunks", "an interleaved schedule has more than one virtual stage per rank",
                 "such as chunks = 2");
  }
  if (s.kind == ScheduleKind::Interleaved) s.group = table.integer("group", 0, kMostRanks, 0, "default: pp");
  const std::optional<std::string> file = table.text("table");
  if ((s.kind == ScheduleKind::Table) != file.has_value()) {
    table.refuse("table", file ? "is given and kind is not \"table\"" : "is missing",
                 "kind = \"table\" and table = \"schedule.csv\"");
  }
  if (file) {
    s.table = named_file(folder, *file).string();
    plan.schedule_table = read_bytes(s.table);
  }
  s.layers = table.integers("layers", 0, 1'000'000);
  s.embedding_counts = table.flag("embedding_counts", false, "default: beside a full share of layers");
  s.loss_counts = table.flag("loss_counts", false, "default: beside a full share of layers");
  s.embedding_alone = table.flag("embedding_alone", false, "default: with layers");
  s.loss_alone = table.flag("loss_alone", false, "default: with layers");
  table.finish();
}

void read_precision(PlanTable root, Plan& plan) {
  PlanTable table = root.table("precision");
  constexpr Precision kPrecisions[] = {Precision::Bf16, Precision::Fp8, Precision::Fp4, Precision::Tf32};
  const std::vector<std::string> names = {"bf16", "fp8", "fp4", "tf32"};
  const auto index = [&](Precision precision) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (kPrecisions[i] == precision) return i;
    }
    return std::size_t{0};
  };
  Precisions& p = plan.precisions;
  const auto read = [&](const char* key, Precision otherwise, const char* source) {
    return kPrecisions[table.choice(key, names, index(otherwise), source)];
  };
  p.matmul = read("matmul", Precision::Bf16, "default");
  p.expert = read("expert", p.matmul, "default: as matmul");
  p.attention = read("attention", Precision::Bf16, "default");
  p.output = read("output", Precision::Bf16, "default");
  p.dispatch = read("dispatch", Precision::Bf16, "default");
  p.tp_gather = read("tp_gather", Precision::Bf16, "default");
  p.parameter_gather = read("parameter_gather", Precision::Bf16, "default");
  table.finish();
}

}  // namespace prism
