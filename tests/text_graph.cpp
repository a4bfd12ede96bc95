// SPDX-License-Identifier: Apache-2.0
#include "tests/text_graph.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>
#include <random>
#include <stdexcept>

#include "prism/stats/random.hpp"

namespace prism {

namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw std::invalid_argument("text graph: " + what);
}

std::uint64_t hash_of(std::string_view name) {
  std::uint64_t id = 0;
  for (const char c : name) id = mix_id(id, static_cast<unsigned char>(c));
  return id;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  for (std::size_t end = 0; end != std::string_view::npos;) {
    end = text.find(separator);
    parts.push_back(trimmed(text.substr(0, end)));
    if (end != std::string_view::npos) text.remove_prefix(end + separator.size());
  }
  return parts;
}

std::uint32_t count_of(std::string_view text) {
  return static_cast<std::uint32_t>(std::stoul(std::string(text)));
}

/// "name", "name=12.5", "name*4/2" or "name=12.5*4".
std::uint32_t op_of(Sketch& sketch, std::string_view text,
                    const std::map<std::string, std::vector<double>>& pools) {
  ReplicaGroup group;
  std::vector<double> values;
  std::string_view name = text;
  if (const auto star = name.find('*'); star != std::string_view::npos) {
    const std::string_view spans = name.substr(star + 1);
    group.size = count_of(spans);
    const auto slash = spans.find('/');
    if (slash != std::string_view::npos) group.stride = count_of(spans.substr(slash + 1));
    name = name.substr(0, star);
  }
  if (const auto equals = name.find('='); equals != std::string_view::npos) {
    values = {std::stod(std::string(name.substr(equals + 1)))};
    name = name.substr(0, equals);
  }
  name = trimmed(name);
  if (name.empty()) refuse("an op without a name in '" + std::string(text) + "'");
  const auto known = std::ranges::find(sketch.ops, name, &Node::name);
  if (known != sketch.ops.end()) {
    if (name != text) refuse("'" + std::string(text) + "' after its first mention");
    return static_cast<std::uint32_t>(known - sketch.ops.begin());
  }
  if (const auto pool = pools.find(std::string(name)); pool != pools.end()) values = pool->second;
  if (values.empty()) return sketch.add_join(std::string(name), group);
  return sketch.add(std::string(name), values, group);
}

/// Replica groups that fit D replicas, the lone replica first.
std::vector<ReplicaGroup> fitting_groups(std::uint32_t replicas) {
  std::vector<ReplicaGroup> fitting = {{1, 1}};
  for (const ReplicaGroup group :
       {ReplicaGroup{replicas, 1}, {2, 1}, {2, 2}, {4, 1}, {4, 2}, {2, 4}, {3, 1}, {2, 3}}) {
    if (group.spans() && replicas % (group.size * group.stride) == 0) fitting.push_back(group);
  }
  return fitting;
}

class RandomSketch {
 public:
  RandomSketch(std::uint32_t seed, const RandomShape& shape) : random_(seed), shape_(shape) {
    sketch_.replicas = shape.replicas;
    sketch_.steps = shape.steps;
  }

  Sketch run() {
    add_compute_classes();
    const std::vector<ReplicaGroup> groups = fitting_groups(shape_.replicas);
    const auto some_group = [&] { return groups[below(static_cast<std::uint32_t>(groups.size()))]; };
    for (std::uint32_t i = 0; i < shape_.ops; ++i) {
      // Most ops run alone; of the others, each kind of group is as likely.
      const ReplicaGroup group = below(10) < 7 ? ReplicaGroup{} : some_group();
      Node op{.name = "op " + std::to_string(i)};
      if (below(10) < 2) {
        op.kind = NodeKind::Join;
      } else if (below(2) == 0) {
        op.duration_class = ClassId(below(static_cast<std::uint32_t>(compute_classes_)));
        op.member = below(sketch_.pools.classes[op.duration_class].members);
      } else {
        op.kind = below(3) == 0 ? NodeKind::Delay : NodeKind::Op;
        op.duration_class =
            add_class(static_cast<Category>(1 + below(kCategoryCount - 1)), 1, false, below(3) > 0);
        if (below(2) == 0) op.draw_group = some_group();
      }
      const std::uint32_t added = sketch_.add(op, group);
      // Some ops of one communication share their random number.
      if (i > 0 && below(4) == 0) sketch_.ops[added].draw_id = sketch_.ops[below(i)].draw_id;
    }
    for (std::uint32_t after = 1; after < shape_.ops; ++after) {
      for (std::uint32_t n = below(4); n > 0; --n) {
        // Mostly near neighbours, so that long paths arise, and now and then a far one.
        const std::uint32_t back = below(3) == 0 ? 1 + below(after) : 1 + below(std::min(after, 4U));
        sketch_.edges.emplace_back(after - back, after);
      }
    }
    return std::move(sketch_);
  }

 private:
  /// Not std::uniform_int_distribution, whose numbers differ between libraries.
  std::uint32_t below(std::uint32_t n) { return index_from_word(static_cast<std::uint32_t>(random_()), n); }

  double duration(Category category) {
    const double unit = unit_from_word(static_cast<std::uint32_t>(random_()));
    double ns = std::exp(7 + 7 * unit);  // 1.1 us to 1.2 ms
    if (!shape_.non_negative && category != Category::Compute && below(8) == 0) ns = -ns;
    if (below(16) == 0 && category != Category::Compute) ns = 0;
    return shape_.whole ? std::round(ns) : ns;
  }

  ClassId add_class(Category category, std::uint32_t members, bool exchangeable, bool per_replica) {
    const bool plain = shape_.steps == 0;
    std::uint32_t size = shape_.steps * members;
    if (plain) size = shape_.one_value ? 1 : 1 + below(20);
    const std::uint32_t copies = per_replica ? shape_.replicas : 1;
    std::vector<double> values;
    for (std::uint32_t i = 0; i < size * copies; ++i) values.push_back(duration(category));
    return sketch_.pools.add({.key = "class " + std::to_string(sketch_.pools.classes.size()),
                              .category = category,
                              .members = plain ? 1 : members,
                              .per_replica = per_replica,
                              .exchangeable = !plain && exchangeable},
                             values, shape_.replicas);
  }

  /// Two classes of three microbatches, one of two ops that cannot be exchanged, one of a lone op.
  void add_compute_classes() {
    add_class(Category::Compute, 3, true, true);
    add_class(Category::Compute, 3, true, true);
    add_class(Category::Compute, 2, false, true);
    add_class(Category::Compute, 1, true, true);
    compute_classes_ = sketch_.pools.classes.size();
  }

  std::mt19937 random_;
  RandomShape shape_;
  Sketch sketch_;
  std::size_t compute_classes_ = 0;
};

}  // namespace

std::uint32_t Sketch::add(Node op, ReplicaGroup group) {
  op.id = op.draw_id = hash_of(op.name);
  ops.push_back(std::move(op));
  groups.push_back(group);
  return static_cast<std::uint32_t>(ops.size() - 1);
}

std::uint32_t Sketch::add(const std::string& name, std::span<const double> values, ReplicaGroup group) {
  Node op{.name = name};
  op.duration_class = pools.add({.key = name, .per_replica = false}, values, replicas);
  return add(std::move(op), group);
}

std::uint32_t Sketch::add_join(const std::string& name, ReplicaGroup group) {
  return add({.kind = NodeKind::Join, .name = name}, group);
}

std::uint32_t Sketch::find(std::string_view name) const {
  const auto found = std::ranges::find(ops, name, &Node::name);
  if (found == ops.end()) refuse("no op '" + std::string(name) + "'");
  return static_cast<std::uint32_t>(found - ops.begin());
}

void Sketch::remove(std::uint32_t op) {
  std::vector<std::uint32_t> before;
  std::vector<std::uint32_t> after;
  for (const auto& [from, to] : edges) {
    if (to == op) before.push_back(from);
    if (from == op) after.push_back(to);
  }
  std::erase_if(edges, [&](const auto& edge) { return edge.first == op || edge.second == op; });
  for (const std::uint32_t from : before) {
    for (const std::uint32_t to : after) edges.emplace_back(from, to);
  }
  for (auto& [from, to] : edges) {
    from -= from > op;
    to -= to > op;
  }
  ops.erase(ops.begin() + op);
  groups.erase(groups.begin() + op);
}

StepModel Sketch::model(std::span<const std::uint32_t> order) const {
  std::vector<std::uint32_t> as_added(ops.size());
  std::iota(as_added.begin(), as_added.end(), 0U);
  if (order.empty()) order = as_added;
  StepGraphBuilder builder;
  std::vector<std::uint32_t> place(ops.size());
  for (const std::uint32_t op : order) place[op] = builder.add_node(groups[op]);
  for (const auto& [from, to] : edges) builder.add_edge(place[from], place[to]);
  const auto built = builder.build("sketch", [&](std::uint32_t node) { return ops[order[node]].name; });

  StepModel model;
  model.source = "sketch";
  model.replicas = replicas;
  model.graph = built.graph;
  model.nodes = IdVector<NodeId, Node>(ops.size());
  for (std::size_t op = 0; op < ops.size(); ++op) model.nodes[built.node_of[place[op]]] = ops[op];
  model.pools = pools;
  for (std::uint32_t k = 0; k < steps; ++k) model.steps.push_back(static_cast<int>(100 + k));
  model.observed_ns.assign(steps, 1.0);
  return model;
}

Sketch sketch(std::string_view text, std::uint32_t replicas,
              const std::map<std::string, std::vector<double>>& pools) {
  Sketch sketch;
  sketch.replicas = replicas;
  for (const std::string_view line : split(text, "\n")) {
    for (const std::string_view chain : split(line, ";")) {
      if (chain.empty()) continue;
      const auto names = split(chain, "->");
      std::uint32_t before = op_of(sketch, names[0], pools);
      for (std::size_t i = 1; i < names.size(); ++i) {
        const std::uint32_t after = op_of(sketch, names[i], pools);
        sketch.edges.emplace_back(before, after);
        before = after;
      }
    }
  }
  return sketch;
}

NodeId node_of(const StepModel& model, std::string_view name) {
  for (std::size_t i = 0; i < model.nodes.size(); ++i) {
    if (model.nodes[NodeId(i)].name == name) return NodeId(i);
  }
  refuse("no node '" + std::string(name) + "'");
}

Sketch random_sketch(std::uint32_t seed, const RandomShape& shape) {
  return RandomSketch(seed, shape).run();
}

}  // namespace prism
