// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <initializer_list>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "prism/io/atomic_file.hpp"
#include "prism/io/csv.hpp"
#include "prism/io/decimal_seconds.hpp"
#include "prism/model/graph_folder.hpp"
#include "prism/model/graph_folder_categories.hpp"

namespace prism {

namespace {

namespace fs = std::filesystem;

/// Names that differ from each other and are not empty, as close to the given ones as can be.
class UniqueNames {
 public:
  explicit UniqueNames(std::string fallback) : fallback_(std::move(fallback)) {}

  std::string operator()(const std::string& wanted) {
    const std::string& base = wanted.empty() ? fallback_ : wanted;
    std::string name = base;
    std::size_t& copies = copies_[base];
    while (!taken_.insert(name).second) name = base + " (" + std::to_string(++copies + 1) + ")";
    return name;
  }

 private:
  std::string fallback_;
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, std::size_t> copies_;
};

std::string row(std::initializer_list<std::string> fields) {
  return csv_row({fields.begin(), fields.size()});
}

std::string mesh_csv(const StepModel& model) {
  std::string text = "axis,size\n";
  for (const Axis axis : Mesh{}.order) {
    const bool dp = axis == Axis::Dp;
    text += row({std::string(axis_name(axis)),
                 std::to_string(dp ? model.replicas : static_cast<std::uint32_t>(model.mesh.size(axis)))});
  }
  return text;
}

std::string pools_csv(const StepModel& model, const std::vector<std::string>& pool_names) {
  std::string text = "pool,duration_s\n";
  for (std::size_t c = 0; c < pool_names.size(); ++c) {
    const std::string start = csv_field(pool_names[c]) + ",";
    for (const double value : model.pools.all(ClassId(c), model.pool_replicas())) {
      text += start + seconds_text(std::max(0.0, value)) + '\n';
    }
  }
  return text;
}

std::string nodes_csv(const StepModel& model, const std::vector<std::string>& names,
                      const std::vector<std::string>& pool_names) {
  std::string text = "node,pool,rank,stage,microbatch,category,group_size,group_stride\n";
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Node& node = model.nodes[NodeId(i)];
    const ReplicaGroup group = model.graph.replica_group(NodeId(i));
    std::string pool;
    std::string_view category;
    if (node.kind != NodeKind::Join) {
      pool = pool_names[node.duration_class.value];
      const Category of_class = model.pools.classes[node.duration_class].category;
      category = kFolderCategories[static_cast<std::size_t>(
          node.kind == NodeKind::Delay ? Category::LaunchDelay : of_class)];
    }
    const bool all = node.over_replicas && group.size == model.replicas;
    text += row({names[i], pool, std::to_string(node.rank), std::to_string(node.stage),
                 std::to_string(node.microbatch), std::string(category),
                 all ? "all" : std::to_string(group.size), std::to_string(group.stride)});
  }
  return text;
}

std::string edges_csv(const StepModel& model, const std::vector<std::string>& names) {
  std::string text = "before,after\n";
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (const NodeId before : model.graph.predecessors(NodeId(i)))
      text += row({names[before.value], names[i]});
  }
  return text;
}

}  // namespace

void write_graph_folder(const StepModel& model, const fs::path& folder) {
  refuse_composed(model, "keep the plan: it is all that is needed to build the model again");
  UniqueNames unique_node("node");
  std::vector<std::string> names;
  for (const Node& node : model.nodes) names.push_back(unique_node(node.name));
  UniqueNames unique_pool("pool");
  std::vector<std::string> pool_names;
  for (const DurationClass& c : model.pools.classes) pool_names.push_back(unique_pool(c.key));
  fs::create_directories(folder);
  write_atomically(folder / "mesh.csv", mesh_csv(model));
  write_atomically(folder / "pools.csv", pools_csv(model, pool_names));
  write_atomically(folder / "nodes.csv", nodes_csv(model, names, pool_names));
  write_atomically(folder / "edges.csv", edges_csv(model, names));
}

}  // namespace prism
