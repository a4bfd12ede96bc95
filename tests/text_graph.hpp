// SPDX-License-Identifier: Apache-2.0
// Small step models for tests: written as text, or drawn at random. Not part of the library.
//
//   sketch("load=10 -> multiply=20 -> meet*4; load -> copy=5", 4).model()
//
// A Sketch is a model in parts that a test can change (an edge less, a pool doubled, ops in another order)
// before it asks for the StepModel.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "prism/model/step_model.hpp"

namespace prism {

struct Sketch {
  std::uint32_t replicas = 1;
  std::uint32_t steps = 0;  ///< profiled steps; 0: plain pools
  DurationPools pools;
  std::vector<Node> ops;
  std::vector<ReplicaGroup> groups;  ///< of each op
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;

  /// Adds an op; its ids become hashes of its name.
  std::uint32_t add(Node op, ReplicaGroup group = {});
  /// Adds an op with a plain pool of its own.
  std::uint32_t add(const std::string& name, std::span<const double> values, ReplicaGroup group = {});
  /// Adds an op without duration.
  std::uint32_t add_join(const std::string& name, ReplicaGroup group = {});

  [[nodiscard]] std::uint32_t find(std::string_view name) const;
  /// Removes an op; what followed it follows what it followed.
  void remove(std::uint32_t op);

  /// The model, with the ops added in `order` (empty: as they are).
  [[nodiscard]] StepModel model(std::span<const std::uint32_t> order = {}) const;
};

/// Statements end with ';' or a newline, each is a chain of ops. `name=ns` gives an op a pool of one value,
/// `name*size` or `name*size/stride` lets it span replicas; both where it is first named. An op with neither
/// a value here nor a pool in `pools` takes no time. Throws std::invalid_argument for anything else.
Sketch sketch(std::string_view text, std::uint32_t replicas = 1,
              const std::map<std::string, std::vector<double>>& pools = {});

/// The node of that name. Throws std::invalid_argument if there is none.
NodeId node_of(const StepModel& model, std::string_view name);

struct RandomShape {
  std::uint32_t ops = 12;
  std::uint32_t replicas = 1;
  std::uint32_t steps = 0;   ///< 0: plain pools
  bool whole = false;        ///< durations are whole nanoseconds
  bool one_value = false;    ///< plain pools of one value per replica
  bool non_negative = true;  ///< false: some transfer parts are below 0, as in real traces
};

/// A random acyclic graph with joins, replica groups of all kinds that fit the replicas, and classes of all
/// categories. A pure function of seed and shape.
Sketch random_sketch(std::uint32_t seed, const RandomShape& shape);

}  // namespace prism
