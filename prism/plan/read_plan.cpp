// SPDX-License-Identifier: Apache-2.0
#include "prism/plan/read_plan.hpp"

#include <string>

#include "prism/io/bytes.hpp"
#include "prism/plan/plan_sections.hpp"
#include "prism/plan/plan_table.hpp"

namespace prism {

std::filesystem::path named_file(const std::filesystem::path& folder, const std::string& name) {
  const std::filesystem::path path(name);
  return path.is_absolute() ? path : folder / path;
}

bool looks_like_plan(std::string_view text) {
  // A table of a plan at the start of a line; CSV and JSON have no such lines.
  std::size_t begin = 0;
  while (begin < text.size()) {
    std::size_t end = text.find('\n', begin);
    if (end == std::string_view::npos) end = text.size();
    const std::string_view line = text.substr(begin, end - begin);
    for (const std::string_view table : {"[model", "[parallel]", "[batch]", "[cluster]", "[[op]]"}) {
      if (line.starts_with(table)) return true;
    }
    begin = end + 1;
  }
  return false;
}

Plan parse_plan(std::string_view text, const std::string& source, const std::filesystem::path& folder) {
  PlanTable root = PlanTable::parse(text, source);
  Plan plan;
  plan.source = source;
  plan.digest = digest_text(content_digest(text));
  plan.name = root.text("name").value_or("");
  for (const char* later : {"scenario", "run"}) {
    if (root.has(later)) root.refuse(later, "is not supported yet", "leave it out");
  }
  read_parallel(root, plan);
  read_model(root, folder, plan);
  read_batch(root, plan);
  read_schedule(root, folder, plan);
  read_precision(root, plan);
  read_cluster(root, folder, plan);
  read_variability(root, folder, plan);
  read_free_ops(root, plan);
  PlanTable memory = root.table("memory");
  plan.check_memory = memory.flag("check", true, "default");
  plan.memory_reserve_gb =
      memory.number("reserve_gb", 0, 1e4, 4, "default: CUDA context, NCCL buffers, fragmentation");
  memory.finish();
  if (const auto bytes = root.number("boundary_bytes", 0, 1e18)) plan.boundary_bytes = *bytes;
  root.finish();
  if (plan.model.has_value() == !plan.free_ops.empty()) {
    root.refuse("model", plan.model ? "there are [[op]] entries too" : "neither a [model] nor an [[op]]",
                "one of them");
  }
  plan.settings = root.settings();
  return plan;
}

Plan read_plan(const std::filesystem::path& path) {
  return parse_plan(read_bytes(path), path.string(), path.parent_path());
}

}  // namespace prism
