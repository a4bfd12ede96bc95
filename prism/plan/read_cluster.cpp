// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "prism/plan/nccl_tests.hpp"
#include "prism/plan/plan_sections.hpp"

namespace prism {

namespace {

constexpr std::int64_t kMostHosts = std::int64_t{1} << 24;
constexpr double kMostRate = 1e9;

/// The kinds a plan knows: its own [[gpu]] entries before the shipped table.
class GpuKinds {
 public:
  explicit GpuKinds(PlanTable& root) {
    for (PlanTable table : root.tables("gpu")) own_.push_back(read(std::move(table)));
  }

  GpuKind find(const PlanTable& table, const std::string& key, const std::string& name) const {
    for (const GpuKind& gpu : own_) {
      if (gpu.name == name) return gpu;
    }
    if (const GpuKind* known = find_gpu_kind(name)) return *known;
    std::string names;
    for (const GpuKind& gpu : gpu_kinds()) names += (names.empty() ? "" : ", ") + gpu.name;
    table.refuse(key, "'" + name + "' is not known", "known: " + names + "; or describe it in [[gpu]]");
  }

 private:
  GpuKind read(PlanTable table) const {
    const std::optional<std::string> name = table.text("name");
    if (!name) table.refuse("name", "is missing", "what [cluster] calls it");
    GpuKind gpu;
    if (const auto like = table.text("like")) gpu = find(table, "like", *like);
    gpu.name = *name;
    const auto rate = [&](const char* key, double& value) {
      value = table.number(key, 0, kMostRate).value_or(value);
    };
    rate("bf16_tflops", gpu.bf16_tflops);
    rate("fp8_tflops", gpu.fp8_tflops);
    rate("fp4_tflops", gpu.fp4_tflops);
    rate("tf32_tflops", gpu.tf32_tflops);
    rate("memory_gb", gpu.memory_gb);
    rate("memory_gb_per_s", gpu.memory_gb_per_s);
    rate("scale_up_gb_per_s", gpu.scale_up_gb_per_s);
    rate("scale_up_peer_gb_per_s", gpu.scale_up_peer_gb_per_s);
    rate("nic_gb_per_s", gpu.nic_gb_per_s);
    rate("launch_us", gpu.launch_us);
    gpu.scale_up_domain =
        static_cast<int>(table.integer("scale_up_domain", 1, 1 << 20).value_or(gpu.scale_up_domain));
    gpu.in_switch_reduction = table.flag("in_switch_reduction").value_or(gpu.in_switch_reduction);
    gpu.attention_backward = table.number("attention_backward", 0.01, 10).value_or(gpu.attention_backward);
    gpu.fp8_efficiency = table.number("fp8_efficiency", 0.01, 1).value_or(gpu.fp8_efficiency);
    gpu.fp4_efficiency = table.number("fp4_efficiency", 0.01, 1).value_or(gpu.fp4_efficiency);
    PlanTable efficiency = table.table("efficiency");
    for (std::size_t i = 0; i < kKernelClassCount; ++i) {
      const char* key = kernel_class_name(static_cast<KernelClass>(i));
      if (const auto most = efficiency.share(key)) {
        if (*most <= 0) efficiency.refuse(key, "is not above 0", "such as \"70 %\"");
        gpu.efficiency[i].half *= *most / gpu.efficiency[i].most;
        gpu.efficiency[i].most = *most;
      }
    }
    efficiency.finish();
    gpu.source = "[[gpu]] of the plan";
    if (!(gpu.bf16_tflops > 0 && gpu.memory_gb_per_s > 0 && gpu.memory_gb > 0 && gpu.scale_up_gb_per_s > 0 &&
          gpu.nic_gb_per_s > 0)) {
      table.refuse(
          "name", "'" + gpu.name + "' lacks a rate",
          "bf16_tflops, memory_gb, memory_gb_per_s, scale_up_gb_per_s and nic_gb_per_s; or like = \"H100\"");
    }
    table.finish();
    return gpu;
  }

  std::vector<GpuKind> own_;
};

void record_gpu(PlanTable& table, const GpuKind& gpu) {
  const auto note = [&](const char* what, double value, const std::string& source) {
    table.record(gpu.name + "." + what, number_text(value), source);
  };
  note("bf16_tflops", gpu.bf16_tflops, gpu.source);
  if (gpu.fp8_tflops > 0) note("fp8_tflops", gpu.fp8_tflops, gpu.source);
  if (gpu.fp4_tflops > 0) note("fp4_tflops", gpu.fp4_tflops, gpu.source);
  note("memory_gb", gpu.memory_gb, gpu.source);
  note("memory_gb_per_s", gpu.memory_gb_per_s, gpu.source);
  note("scale_up_gb_per_s", gpu.scale_up_gb_per_s, gpu.source);
  for (std::size_t i = 0; i < kKernelClassCount; ++i) {
    table.record(gpu.name + ".efficiency." + kernel_class_name(static_cast<KernelClass>(i)),
                 number_text(gpu.efficiency[i].most * 100) + " %", gpu.efficiency_source);
  }
}

}  // namespace

void read_cluster(PlanTable root, const std::filesystem::path& folder, Plan& plan) {
  const GpuKinds kinds(root);
  PlanTable table = root.table("cluster");
  Cluster& c = plan.cluster;
  const std::optional<std::string> gpu = table.text("gpu");
  const std::int64_t per_host = table.integer("gpus_per_host", 1, 1024, 8, "default: HGX and OAM boards");
  const std::optional<std::int64_t> hosts = table.integer("hosts", 1, kMostHosts);
  std::vector<PlanTable> groups = table.tables("host");
  if (gpu && !groups.empty()) table.refuse("gpu", "there are [[cluster.host]] groups too", "one of them");
  if (!gpu && groups.empty()) table.refuse("gpu", "is missing", "such as gpu = \"H100\"");
  if (gpu) c.groups.push_back({kinds.find(table, "gpu", *gpu), hosts.value_or(0), per_host});
  for (PlanTable& group : groups) {
    const std::optional<std::string> kind = group.text("gpu");
    if (!kind) group.refuse("gpu", "is missing", "such as gpu = \"H100\"");
    const std::optional<std::int64_t> count = group.integer("count", 1, kMostHosts);
    if (!count) group.refuse("count", "is missing", "hosts of this kind");
    c.groups.push_back({kinds.find(group, "gpu", *kind), *count,
                        group.integer("gpus_per_host", 1, 1024).value_or(per_host)});
    group.finish();
  }
  c.scale_up_domain = table.integer("scale_up_domain", 0, 1 << 20, 0, "default: the GPU kind's");
  c.nic_gb_per_s = table.number("nic_gb_per_s", 0, kMostRate, 0, "default: the GPU kind's");
  c.nic_latency_us = table.number("nic_latency_us", 0, 1e6, 0, "default: NCCL's own latency table");
  c.host_order = table.integers("host_order", 0, kMostHosts);
  for (PlanTable& level : table.tables("level")) {
    NetworkLevel added;
    added.name = level.text("name").value_or("level " + std::to_string(c.levels.size()));
    added.hosts = level.integer("hosts", 0, kMostHosts).value_or(0);
    added.oversubscription = level.number("oversubscription", 1, 1000).value_or(1);
    added.latency_us = level.number("latency_us", 0, 1e6).value_or(0);
    level.finish();
    c.levels.push_back(std::move(added));
  }
  for (const std::string& file : table.texts("collectives")) {
    const MeasuredCollectives read = read_measured_collectives(named_file(folder, file), plan.report);
    plan.collectives.add(read);
  }
  table.finish();
  std::string last;
  for (const HostGroup& group : c.groups) {
    if (group.gpu.name != last) record_gpu(table, group.gpu);
    last = group.gpu.name;
  }
}

}  // namespace prism
