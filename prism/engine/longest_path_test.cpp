// SPDX-License-Identifier: Apache-2.0
// With one duration per op, the step takes the longest path. The oracle is Boost.Graph: the job is written
// out replica by replica, with a vertex for each meeting, and its shortest path with negated weights is
// found.
#include <cstdlib>
#include <string>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dag_shortest_paths.hpp>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "prism/engine/simulate.hpp"
#include "tests/text_graph.hpp"

namespace prism {
namespace {

// RapidCheck takes its seed from the environment; a fixed one unless the caller set another.
[[maybe_unused]] const int kSeedIsFixed = ::setenv("RC_PARAMS", "seed=20251001", 0);

class LongestPath {
 public:
  explicit LongestPath(const Sketch& sketch) : sketch_(sketch) {
    const std::size_t replicas = sketch.replicas;
    const std::size_t source = add_vertex();
    const std::size_t sink = add_vertex();
    std::vector<std::size_t> run(sketch.ops.size() * replicas);   // where an op of a replica starts
    std::vector<std::size_t> wait(sketch.ops.size() * replicas);  // where it waits: itself or its meeting
    for (std::size_t op = 0; op < sketch.ops.size(); ++op) {
      std::map<std::uint32_t, std::size_t> meeting;
      for (std::uint32_t d = 0; d < replicas; ++d) {
        const std::size_t at = op * replicas + d;
        run[at] = wait[at] = add_vertex();
        if (sketch.groups[op].spans()) {
          const auto [known, is_new] = meeting.try_emplace(group_number(sketch.groups[op], d));
          if (is_new) known->second = add_vertex();
          wait[at] = known->second;
          add_path(wait[at], run[at], 0);
        }
        add_path(source, run[at], 0);
        add_path(run[at], sink, duration(op, d));
      }
    }
    for (const auto& [before, after] : sketch.edges) {
      for (std::uint32_t d = 0; d < replicas; ++d) {
        add_path(run[before * replicas + d], wait[after * replicas + d], duration(before, d));
      }
    }
    std::vector<double> distance(boost::num_vertices(graph_));
    boost::dag_shortest_paths(graph_, source, boost::distance_map(distance.data()));
    length_ns_ = -distance[sink];
  }

  [[nodiscard]] double length_ns() const { return length_ns_; }

 private:
  using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property,
                                      boost::property<boost::edge_weight_t, double>>;

  /// By the words of step_graph.hpp: replicas that differ by multiples of `stride` inside a run of `size *
  /// stride`.
  static std::uint32_t group_number(ReplicaGroup group, std::uint32_t replica) {
    const std::uint32_t run = replica / (group.size * group.stride);
    return run * 1000 + replica % group.stride;
  }
  double duration(std::size_t op, std::uint32_t replica) const {
    if (sketch_.ops[op].kind == NodeKind::Join) return 0;
    return sketch_.pools.pool(sketch_.ops[op].duration_class, replica)[0];
  }
  std::size_t add_vertex() { return boost::add_vertex(graph_); }
  void add_path(std::size_t from, std::size_t to, double length) {
    boost::add_edge(from, to, -length, graph_);
  }

  const Sketch& sketch_;
  Graph graph_;
  double length_ns_ = 0;
};

//   load -> work -> meet -> save        replica 0: 10 + 20, replica 1: 10 + 25; then 5
TEST(LongestPathOracle, AgreesWithAHandCalculation) {
  Sketch job = sketch("load=10 -> work -> meet*2 -> save=5", 2);
  Node& work = job.ops[job.find("work")];
  work.kind = NodeKind::Op;
  work.duration_class = job.pools.add({.key = "work"}, std::array{20.0, 25.0}, 2);
  EXPECT_EQ(LongestPath(job).length_ns(), 40);
  const StepModel model = job.model();
  EXPECT_EQ(Simulation(model, Sampling::Iid, {}).step_times_ns(1, 0, 1, {}).front(), 40);
}

RC_GTEST_PROP(LongestPath, IsTheStepTimeOfFixedDurations, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint32_t>();
  const auto ops = *rc::gen::inRange<std::uint32_t>(1, 60);
  const auto replicas = *rc::gen::element<std::uint32_t>(1, 2, 3, 4, 6, 8);
  const Sketch job =
      random_sketch(seed, {.ops = ops, .replicas = replicas, .whole = true, .one_value = true});
  const StepModel model = job.model();
  // Whole nanoseconds add exactly, so the two must be equal and not merely close.
  const double expected = LongestPath(job).length_ns();
  for (const double time : Simulation(model, Sampling::Iid, {}).step_times_ns(seed, 0, 33, {.threads = 1})) {
    RC_ASSERT(time == expected);
  }
}

}  // namespace
}  // namespace prism
