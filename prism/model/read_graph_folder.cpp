// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "prism/io/bytes.hpp"
#include "prism/io/csv.hpp"
#include "prism/io/decimal_seconds.hpp"
#include "prism/model/graph_folder.hpp"
#include "prism/model/graph_folder_categories.hpp"
#include "prism/stats/random.hpp"
#include "prism/trace/error.hpp"

namespace prism {

namespace {

namespace fs = std::filesystem;

constexpr double kMaxNs = 1e17;  // 1e8 s, three years: anything longer is not a time inside a step
constexpr std::int64_t kMaxIndex = 1 << 24;  // ranks, stages, replicas

constexpr const char* kFiles = "a graph folder holds nodes.csv, edges.csv and pools.csv (docs/formats.md)";

std::string in_quotes(std::string_view text) {
  return "'" + std::string(text.substr(0, 60)) + "'";
}

/// One file of the folder: its bytes, and the current row by column name.
class Sheet {
 public:
  Sheet(const std::string& bytes, std::string file, std::span<const std::string_view> required,
        std::span<const std::string_view> optional, ImportReport& report)
      : csv_(bytes, std::move(file)) {
    std::string missing;
    for (const std::string_view name : required) {
      if (!csv_.column(name)) missing += (missing.empty() ? "" : ", ") + std::string(name);
    }
    if (!missing.empty()) {
      throw InputError(csv_.place(), "the header lacks the column(s) " + missing, "check docs/formats.md");
    }
    for (const std::string& name : csv_.header()) {
      const bool known = std::ranges::find(required, name) != required.end() ||
                         std::ranges::find(optional, name) != optional.end();
      if (!known)
        report.add(Severity::Info, "column not used: unknown name",
                   csv_.place().text() + " " + in_quotes(name));
    }
  }

  bool next() { return csv_.next(); }
  [[nodiscard]] Place place() const { return csv_.place(); }
  [[nodiscard]] bool sound() const {
    return !csv_.malformed() && csv_.fields().size() == csv_.header().size();
  }

  [[noreturn]] void fail(const std::string& problem, const std::string& fix) const {
    throw InputError(csv_.place(), problem, fix);
  }

  void expect_sound() const {
    if (!sound()) {
      fail("the row has " + std::to_string(csv_.fields().size()) +
               " fields (or a broken quote), the header has " + std::to_string(csv_.header().size()),
           "names with a comma must be quoted");
    }
  }

  /// Empty where the column is absent. Precondition: sound().
  [[nodiscard]] std::string_view field(std::optional<std::size_t> column) const {
    return column ? csv_.fields()[*column] : std::string_view();
  }

  [[nodiscard]] std::optional<std::size_t> column(std::string_view name) const { return csv_.column(name); }

  /// A whole number, `otherwise` where the field is empty.
  template <class Int>
  Int index(std::optional<std::size_t> column, Int low, Int otherwise) const {
    const std::string_view text = field(column);
    if (text.empty()) return otherwise;
    const auto value = parse_int(text);
    if (!value || *value < static_cast<std::int64_t>(low) || *value > kMaxIndex) {
      fail(csv_.header()[*column] + " is " + in_quotes(text),
           "give a whole number of at least " + std::to_string(low) + ", or leave it empty");
    }
    return static_cast<Int>(*value);
  }

 private:
  CsvReader csv_;
};

struct Pool {
  std::vector<double> values_ns;
  std::optional<ClassId> used_as;
  std::uint64_t used_on_line = 0;  ///< of nodes.csv, first
  Place first;                     ///< in pools.csv
};

/// Pools by name, and the names in the file's order.
struct Pools {
  std::unordered_map<std::string, Pool> by_name;
  std::vector<std::string> names;
};

class FolderReader {
 public:
  FolderReader(const fs::path& folder, std::optional<std::uint32_t> replicas) : folder_(folder) {
    assert(!replicas || *replicas >= 1);
    model_.source = folder.string();
    const std::string nodes = bytes_of("nodes.csv");
    const std::string edges = bytes_of("edges.csv");
    const std::string pools = bytes_of("pools.csv");
    std::string mesh;
    if (fs::exists(folder / "mesh.csv")) {
      mesh = bytes_of("mesh.csv");
      read_mesh(mesh);
    }
    if (replicas) model_.mesh.size(Axis::Dp) = static_cast<int>(*replicas);
    model_.replicas = static_cast<std::uint32_t>(model_.mesh.size(Axis::Dp));
    read_pools(pools);
    read_nodes(nodes);
    read_edges(edges);
    add_classes();
    number_ranks();
    build();
    model_.digest = digest_text(content_digest(nodes + edges + pools + mesh));
  }

  StepModel take() { return std::move(model_); }

 private:
  [[nodiscard]] std::string path_of(const char* name) const { return (folder_ / name).string(); }

  [[nodiscard]] std::string bytes_of(const char* name) const {
    if (!fs::exists(folder_ / name)) throw InputError({path_of(name), {}, {}}, "does not exist", kFiles);
    return read_bytes(folder_ / name);
  }

  void read_mesh(const std::string& bytes) {
    constexpr std::array<std::string_view, 2> kColumns = {"axis", "size"};
    Sheet sheet(bytes, path_of("mesh.csv"), kColumns, {}, model_.report);
    const auto axis_column = sheet.column("axis");
    const auto size_column = sheet.column("size");
    std::set<Axis> seen;
    while (sheet.next()) {
      sheet.expect_sound();
      const std::string_view name = sheet.field(axis_column);
      const auto axis = std::ranges::find(model_.mesh.order, name, axis_name);
      if (axis == model_.mesh.order.end())
        sheet.fail("unknown axis " + in_quotes(name), "use tp, cp, ep, dp or pp");
      if (!seen.insert(*axis).second)
        sheet.fail("axis " + in_quotes(name) + " is there twice", "keep one of the rows");
      model_.mesh.size(*axis) = sheet.index(size_column, 1, 1);
      check_ranks(sheet);
    }
  }

  void check_ranks(const Sheet& sheet) const {
    std::int64_t ranks = 1;
    for (const int size : model_.mesh.sizes) {
      ranks *= size;
      if (ranks > kMaxRanks)
        sheet.fail("the mesh has more than " + std::to_string(kMaxRanks) + " ranks", "check the sizes");
    }
  }

  void read_pools(const std::string& bytes) {
    constexpr std::array<std::string_view, 2> kColumns = {"pool", "duration_s"};
    Sheet sheet(bytes, path_of("pools.csv"), kColumns, {}, model_.report);
    const auto pool_column = sheet.column("pool");
    const auto duration_column = sheet.column("duration_s");
    while (sheet.next()) {
      const auto skip = [&](std::string_view reason) {
        model_.report.add(Severity::DataLoss, reason, sheet.place().text());
      };
      if (!sheet.sound()) {
        skip("pool value left out: the row's number of fields is not the header's");
        continue;
      }
      const auto value = ns_of_seconds(sheet.field(duration_column));
      if (!value || !(*value >= 0 && *value <= kMaxNs)) {
        skip("pool value left out: duration_s is no number from 0 to 1e8");
        continue;
      }
      const std::string name(sheet.field(pool_column));
      if (name.empty()) {
        skip("pool value left out: the pool has no name");
        continue;
      }
      const auto [pool, is_new] = pools_.by_name.try_emplace(name);
      if (is_new) {
        pools_.names.push_back(name);
        pool->second.first = sheet.place();
      }
      pool->second.values_ns.push_back(std::abs(*value));  // no -0
    }
  }

  void read_nodes(const std::string& bytes) {
    constexpr std::array<std::string_view, 2> kRequired = {"node", "pool"};
    constexpr std::array<std::string_view, 6> kOptional = {"rank",     "stage",      "microbatch",
                                                           "category", "group_size", "group_stride"};
    Sheet sheet(bytes, path_of("nodes.csv"), kRequired, kOptional, model_.report);
    const NodeColumns columns{.node = sheet.column("node"),
                              .pool = sheet.column("pool"),
                              .rank = sheet.column("rank"),
                              .stage = sheet.column("stage"),
                              .microbatch = sheet.column("microbatch"),
                              .category = sheet.column("category"),
                              .group_size = sheet.column("group_size"),
                              .group_stride = sheet.column("group_stride")};
    while (sheet.next()) {
      sheet.expect_sound();
      read_node(sheet, columns);
    }
    if (nodes_.empty())
      throw InputError({path_of("nodes.csv"), {}, {}}, "has no node", "it needs one row per node");
  }

  struct NodeColumns {
    std::optional<std::size_t> node, pool, rank, stage, microbatch, category, group_size, group_stride;
  };

  void read_node(const Sheet& sheet, const NodeColumns& columns) {
    Node node;
    node.name = sheet.field(columns.node);
    if (node.name.empty()) sheet.fail("the node has no name", "fill the column node");
    const auto [known, is_new] = node_of_name_.try_emplace(
        node.name, NamedNode{static_cast<std::uint32_t>(nodes_.size()), *sheet.place().line});
    if (!is_new) {
      sheet.fail(
          "node " + in_quotes(node.name) + " is there already, on line " + std::to_string(known->second.line),
          "give each node a name of its own");
    }
    node.rank = sheet.index(columns.rank, 0, 0);
    node.stage = sheet.index(columns.stage, -1, -1);
    node.microbatch = sheet.index(columns.microbatch, -1, -1);
    node.draw_group = read_group(sheet, columns);
    node.over_replicas = sheet.field(columns.group_size) == "all";
    node.id = node.draw_id = mix_id(0x707269736d, content_digest(node.name));
    const Category category = read_category(sheet, columns);
    const std::string pool(sheet.field(columns.pool));
    if (pool.empty()) {
      node.kind = NodeKind::Join;
    } else {
      node.kind = category == Category::LaunchDelay ? NodeKind::Delay : NodeKind::Op;
      use_pool(sheet, pool, category, node);
    }
    nodes_.push_back(std::move(node));
  }

  [[nodiscard]] ReplicaGroup read_group(const Sheet& sheet, const NodeColumns& columns) const {
    const bool all = sheet.field(columns.group_size) == "all";
    const ReplicaGroup group{all ? model_.replicas : sheet.index<std::uint32_t>(columns.group_size, 1, 1),
                             sheet.index<std::uint32_t>(columns.group_stride, 1, 1)};
    if (model_.replicas % (std::uint64_t{group.size} * group.stride) != 0) {
      sheet.fail("a group of " + std::to_string(group.size) + " replicas, " + std::to_string(group.stride) +
                     " apart, does not divide the " + std::to_string(model_.replicas) + " replicas",
                 "group_size times group_stride must divide dp in mesh.csv; 'all' is every replica");
    }
    return group;
  }

  static Category read_category(const Sheet& sheet, const NodeColumns& columns) {
    const std::string_view name = sheet.field(columns.category);
    if (name.empty()) return Category::Compute;
    const auto found = std::ranges::find(kFolderCategories, name);
    if (found == kFolderCategories.end()) {
      std::string known;
      for (const std::string_view category : kFolderCategories) known += std::string(category) + ", ";
      sheet.fail("unknown category " + in_quotes(name), "use one of " + known + "or leave it empty");
    }
    return static_cast<Category>(found - kFolderCategories.begin());
  }

  /// Classes are numbered by first use here, and put into the order of pools.csv by add_classes().
  void use_pool(const Sheet& sheet, const std::string& name, Category category, Node& node) {
    const auto found = pools_.by_name.find(name);
    if (found == pools_.by_name.end()) {
      sheet.fail("pool " + in_quotes(name) + " has no value in pools.csv",
                 "add rows for it there, or leave the pool empty for a join");
    }
    Pool& pool = found->second;
    if (!pool.used_as) {
      pool.used_as = ClassId(classes_.size());
      pool.used_on_line = *sheet.place().line;
      classes_.push_back({.key = name, .category = category, .per_replica = false});
    }
    node.duration_class = *pool.used_as;
    if (classes_[node.duration_class].category != category) {
      sheet.fail(
          "pool " + in_quotes(name) + " is of category " +
              std::string(
                  kFolderCategories[static_cast<std::size_t>(classes_[node.duration_class].category)]) +
              " on line " + std::to_string(pool.used_on_line) + ", but " +
              std::string(kFolderCategories[static_cast<std::size_t>(category)]) + " here",
          "give both nodes one category, or pools of their own");
    }
  }

  void read_edges(const std::string& bytes) {
    constexpr std::array<std::string_view, 2> kColumns = {"before", "after"};
    Sheet sheet(bytes, path_of("edges.csv"), kColumns, {}, model_.report);
    const auto before_column = sheet.column("before");
    const auto after_column = sheet.column("after");
    for (const Node& node : nodes_) builder_.add_node(node.draw_group);
    const auto node_at = [&](std::optional<std::size_t> column) {
      const std::string name(sheet.field(column));
      const auto found = node_of_name_.find(name);
      if (found == node_of_name_.end()) {
        sheet.fail("node " + in_quotes(name) + " is not in nodes.csv", "add it there, or remove the edge");
      }
      return found->second.index;
    };
    while (sheet.next()) {
      sheet.expect_sound();
      const std::uint32_t before = node_at(before_column);
      builder_.add_edge(before, node_at(after_column));
    }
  }

  void add_classes() {
    std::vector<ClassId> final_id(classes_.size());
    for (const std::string& name : pools_.names) {
      const Pool& pool = pools_.by_name.at(name);
      if (pool.used_as) {
        final_id[pool.used_as->value] =
            model_.pools.add(classes_[*pool.used_as], pool.values_ns, model_.replicas);
      } else {
        model_.report.add(Severity::Info, "pool not used by any node",
                          pool.first.text() + " " + in_quotes(name));
      }
    }
    for (Node& node : nodes_) {
      if (node.kind != NodeKind::Join) node.duration_class = final_id[node.duration_class.value];
    }
  }

  void number_ranks() {
    std::map<std::int32_t, std::int32_t> number;
    for (const Node& node : nodes_) number[node.rank] = 0;
    std::int32_t next = 0;
    for (auto& [rank, index] : number) index = next++;
    model_.template_ranks = static_cast<std::uint32_t>(number.size());
    if (number.rbegin()->first != next - 1) {
      model_.report.add(Severity::Info, "ranks renumbered 0, 1, ... in their order", path_of("nodes.csv"));
    }
    // A pool of several ranks counts as the first one's.
    for (DurationClass& c : model_.pools.classes) c.rank = next;
    for (Node& node : nodes_) {
      node.rank = number[node.rank];
      if (node.kind == NodeKind::Join) continue;
      std::int32_t& first = model_.pools.classes[node.duration_class].rank;
      first = std::min(first, node.rank);
    }
  }

  void build() {
    StepGraphBuilder::Result built =
        builder_.build(path_of("edges.csv"), [&](std::uint32_t node) { return nodes_[node].name; });
    model_.graph = std::move(built.graph);
    model_.nodes = IdVector<NodeId, Node>(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) model_.nodes[built.node_of[i]] = std::move(nodes_[i]);
  }

  struct NamedNode {
    std::uint32_t index = 0;
    std::uint64_t line = 0;
  };

  static constexpr std::int64_t kMaxRanks = std::int64_t{1} << 31;

  const fs::path& folder_;
  StepModel model_;
  Pools pools_;
  IdVector<ClassId, DurationClass> classes_;  // by first use in nodes.csv
  std::vector<Node> nodes_;                   // by row
  std::unordered_map<std::string, NamedNode> node_of_name_;
  StepGraphBuilder builder_;
};

}  // namespace

StepModel read_graph_folder(const fs::path& folder, std::optional<std::uint32_t> replicas) {
  return FolderReader(folder, replicas).take();
}

}  // namespace prism
