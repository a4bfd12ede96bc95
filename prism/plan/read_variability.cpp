// SPDX-License-Identifier: Apache-2.0
// Defaults, level "published": PRISM (arXiv 2510.15596) gives 0.98 to 6.46 % between runs of one kernel and 1.64 to 14.04 %
// between GPUs for matrix products, and inter-node collectives with tails up to ten times the mean. A block of several kernels
// varies less than each, and whole GPUs less than single kernels: 1.6 % between 278 V100s (Sinha et al. 2022, SC22).
#include <string>

#include "prism/plan/gpu_fleet.hpp"
#include "prism/plan/nccl_tests.hpp"
#include "prism/plan/plan_sections.hpp"

namespace prism {

namespace {

constexpr const char* kPrism = "published: PRISM, arXiv 2510.15596";

struct KernelDefault {
  double temporal;
  double spatial;
};
// By KernelClass.
constexpr KernelDefault kKernels[kKernelClassCount] = {
    {0.025, 0.0164}, {0.04, 0.0164}, {0.025, 0.0164}, {0.0098, 0.0164}, {0.0098, 0.0164}};

struct LinkDefault {
  double temporal;
  double spatial;
  Disturbance tail;
  Disturbance regime;
};
// By LinkClass.
constexpr LinkDefault kLinks[kLinkClassCount] = {{0, 0, {}, {}},
                                                 {0.02, 0.005, {}, {}},
                                                 {0.05, 0.02, {1e-4, 3, 0.5}, {0.02, 1.2, 0.1}},
                                                 {0.08, 0.03, {2e-4, 4, 0.7}, {0.03, 1.3, 0.15}}};

const std::vector<std::string> kLaws = {"lognormal", "normal", "gamma", "constant"};
constexpr LawForm kForms[] = {LawForm::Lognormal, LawForm::Normal, LawForm::Gamma, LawForm::Constant};

Spread read_spread(PlanTable& table, const std::string& key, LawForm law, double otherwise,
                   const std::string& source) {
  return {.law = law, .cv = table.share(key, 10, otherwise, source), .pool = {}};
}

/// A table with probability, factor and cv.
Disturbance read_disturbance(PlanTable& parent, const std::string& key, const Disturbance& otherwise,
                             const std::string& source, double most_factor = 1000) {
  PlanTable table = parent.table(key);
  Disturbance d;
  d.probability = table.share("probability", 1, otherwise.probability, source);
  d.factor = table.number("factor", 0, most_factor, otherwise.factor, source);
  d.cv = table.share("cv", 10, otherwise.cv, source);
  if (d.probability > 0 && d.factor <= 0) table.refuse("factor", "is not above 0", "times as long");
  table.finish();
  return d;
}

void read_slow(PlanTable& table, Variability& v) {
  for (PlanTable& slow : table.tables("slow")) {
    SlowPart part;
    const std::optional<std::int64_t> rank = slow.integer("rank", 0, std::int64_t{1} << 24);
    const std::optional<std::int64_t> host = slow.integer("host", 0, std::int64_t{1} << 24);
    if (rank.has_value() == host.has_value())
      slow.refuse("host", "needs a host or a rank, one of them", "host = 3");
    part.what = rank ? SlowPart::What::Rank : SlowPart::What::Host;
    part.number = rank.value_or(host.value_or(0));
    part.compute = slow.number("compute", 1e-3, 1e3).value_or(1);
    part.communication = slow.number("communication", 1e-3, 1e3).value_or(1);
    slow.finish();
    v.slow.push_back(part);
  }
}

void read_fleet(PlanTable& table, const std::filesystem::path& folder, Plan& plan) {
  const std::optional<std::string> file = table.text("pools");
  if (!file) return;
  const GpuFleet fleet = read_gpu_fleet(named_file(folder, *file), plan.report);
  for (KernelSpread& spread : plan.variability.kernels) {
    spread.spatial = {LawForm::Pool, 0, fleet.spatial};
    spread.temporal = {LawForm::Pool, 0, fleet.temporal};
  }
  table.record("pools.gpus", std::to_string(fleet.spatial.size()), *file);
}

}  // namespace

void read_variability(PlanTable root, const std::filesystem::path& folder, Plan& plan) {
  PlanTable table = root.table("variability");
  Variability& v = plan.variability;
  const bool published = table.choice("level", {"published", "none"}, 0, "default") == 0;
  const double on = published ? 1 : 0;
  const std::string source = published ? kPrism : "level none";
  v.one_fleet = table.choice("fleet", {"any", "one"}, 0, "default: other GPUs in each sample") == 1;
  const LawForm law = kForms[table.choice("law", kLaws, 0, "default")];
  for (std::size_t i = 0; i < kKernelClassCount; ++i) {
    PlanTable kernel = table.table(kernel_class_name(static_cast<KernelClass>(i)));
    v.kernels[i].temporal = read_spread(kernel, "temporal", law, on * kKernels[i].temporal, source);
    v.kernels[i].spatial = read_spread(kernel, "spatial", law, on * kKernels[i].spatial, source);
    kernel.finish();
  }
  constexpr const char* kLinkKeys[kLinkClassCount] = {"", "scale_up", "network", "far_network"};
  for (std::size_t i = 1; i < kLinkClassCount; ++i) {
    PlanTable link = table.table(kLinkKeys[i]);
    v.links[i].temporal = read_spread(link, "temporal", law, on * kLinks[i].temporal, source);
    v.links[i].spatial = read_spread(link, "spatial", law, on * kLinks[i].spatial, source);
    Disturbance tail = kLinks[i].tail;
    Disturbance regime = kLinks[i].regime;
    if (!published) tail = regime = {};
    v.links[i].tail = read_disturbance(link, "tail", tail, source);
    v.links[i].regime = read_disturbance(link, "regime", regime, source);
    if (const auto file = link.text("pools")) {
      const MeasuredCollectives measured = read_measured_collectives(named_file(folder, *file), plan.report);
      const std::vector<double> spread = measured.network_spread();
      if (spread.empty())
        link.refuse("pools", "fewer than three groups of one form over hosts",
                    "nccl-tests of several pairs of hosts");
      v.links[i].spatial = {LawForm::Pool, 0, spread};
      link.record("pools.groups", std::to_string(spread.size()), *file);
    }
    link.finish();
  }
  const std::string traces =
      published ? "published: step effects of three traced jobs (arXiv 2505.05713), the lower end" : source;
  v.step = read_spread(table, "step", law, on * 0.005, traces);
  v.host = read_spread(table, "host", law, 0, "default: none");
  v.microbatch = read_spread(table, "microbatch", law, 0, "default: sequences of equal length");
  v.straggler = read_disturbance(table, "straggler", {}, "default: none");
  v.pause = read_disturbance(table, "pause", {}, "default: none", 1e9);
  read_slow(table, v);
  read_fleet(table, folder, plan);
  table.finish();
}

}  // namespace prism
