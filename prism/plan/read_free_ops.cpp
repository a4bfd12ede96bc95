// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "prism/plan/plan_sections.hpp"

namespace prism {

namespace {

constexpr double kMostWork = 1e24;

const std::vector<std::string> kPhases = {"forward", "backward", "backward-weight", "step-end"};
const std::vector<std::string> kCollectives = {"all-reduce", "all-gather", "reduce-scatter",
                                               "all-to-all", "broadcast",  "send-receive"};
const std::vector<std::string> kGroups = {"tp", "cp",        "ep",        "etp",   "shard", "replicate",
                                          "dp", "expert-dp", "embedding", "model", "world"};
const std::vector<std::string> kClasses = {"gemm", "grouped-gemm", "attention", "memory", "optimizer"};
const std::vector<std::string> kPrecisions = {"bf16", "fp8", "fp4", "tf32"};

Kernel read_kernel(PlanTable& table, const std::string& name) {
  Kernel kernel{.name = name};
  kernel.flops = table.number("flops", 0, kMostWork).value_or(0);
  kernel.bytes = table.number("bytes", 0, kMostWork).value_or(0);
  kernel.launches = table.number("launches", 1, 1e9).value_or(1);
  if (const auto us = table.number("time_us", 0, 1e12)) kernel.fixed_ns = *us * 1e3;
  kernel.kind = static_cast<KernelClass>(
      table.choice("class", kClasses, kernel.flops > 0 ? 0 : 3, "default: by flops"));
  kernel.precision = static_cast<Precision>(table.choice("precision", kPrecisions, 0, "default"));
  if (kernel.flops == 0 && kernel.bytes == 0 && kernel.fixed_ns == 0) {
    table.refuse("flops", "the op has neither flops, bytes, time_us nor a collective", "one of them");
  }
  return kernel;
}

}  // namespace

void read_free_ops(PlanTable root, Plan& plan) {
  // Ops of one stage and phase, by name.
  std::map<std::tuple<FreeOp::Phase, std::int64_t>, std::map<std::string, int>> known;
  for (PlanTable& table : root.tables("op")) {
    const std::optional<std::string> name = table.text("name");
    if (!name || name->empty())
      table.refuse("name", "is missing", "a name of its own in its stage and phase");
    FreeOp op;
    op.phase = static_cast<FreeOp::Phase>(table.choice("phase", kPhases, 0, "default"));
    op.stage = table.integer("stage", 0, 1 << 20).value_or(0);
    op.op.name = *name;
    std::map<std::string, int>& before = known[{op.phase, op.stage}];
    const std::optional<std::string> collective = table.text("collective");
    if (collective) {
      Communication c;
      const auto kind = std::ranges::find(kCollectives, *collective);
      if (kind == kCollectives.end())
        table.refuse("collective", "'" + *collective + "' is not known", "such as all-reduce");
      c.kind = static_cast<CollectiveOp>(kind - kCollectives.begin());
      c.axis = static_cast<GroupAxis>(table.choice("group", kGroups, 6, "default"));
      const auto bytes = table.number("bytes", 0, kMostWork);
      if (!bytes) table.refuse("bytes", "is missing", "the collective's size, as nccl-tests counts it");
      c.bytes = *bytes;
      c.hidden = table.share("hidden").value_or(0);
      op.op.communication = c;
    } else {
      op.op.kernels.push_back(read_kernel(table, *name));
    }
    const std::vector<std::string> after = table.texts("after");
    for (const std::string& other : after) {
      const auto place = before.find(other);
      if (other != "input" && place == before.end()) {
        table.refuse("after", "no op '" + other + "' comes before it in its stage and phase",
                     "names of earlier ops, or \"input\"");
      }
      op.op.after.push_back(other == "input" ? kPassInput : place->second);
    }
    if (after.empty())
      op.op.after.push_back(static_cast<int>(before.size()) - 1);  // the op before, or the input
    constexpr When kWhens[] = {When::Always, When::FirstMicrobatch, When::LastMicrobatch};
    op.op.when =
        kWhens[table.choice("when", {"always", "first-microbatch", "last-microbatch"}, 0, "default")];
    if (!before.emplace(*name, static_cast<int>(before.size())).second) {
      table.refuse("name", "'" + *name + "' comes twice in its stage and phase", "another name");
    }
    table.finish();
    plan.free_ops.push_back(std::move(op));
  }
}

}  // namespace prism
