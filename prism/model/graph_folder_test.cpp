// SPDX-License-Identifier: Apache-2.0
#include "prism/model/graph_folder.hpp"

#include <array>
#include <cmath>
#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "prism/io/csv.hpp"
#include "prism/io/test_dir.hpp"
#include "prism/model/build_step_model.hpp"
#include "prism/trace/error.hpp"

namespace prism {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

//  load -> multiply -> store      load draws from "io", store too
constexpr const char* kNodes = "node,pool,category\nload,io,local\nmultiply,matmul,\nstore,io,local\n";
constexpr const char* kEdges = "before,after\nload,multiply\nmultiply,store\n";
constexpr const char* kPools = "pool,duration_s\nmatmul,0.25\nio,0.001\nmatmul,3e-1\nio,2\n";

struct Folder {
  TestDir dir;

  Folder(std::string_view nodes, std::string_view edges, std::string_view pools) {
    (void)dir.file("nodes.csv", nodes);
    (void)dir.file("edges.csv", edges);
    (void)dir.file("pools.csv", pools);
  }

  [[nodiscard]] StepModel read(std::optional<std::uint32_t> replicas = {}) const {
    return read_graph_folder(dir.path(), replicas);
  }
  [[nodiscard]] std::string error(std::optional<std::uint32_t> replicas = {}) const {
    return thrown<InputError>([&] { (void)read(replicas); });
  }
};

NodeId node_named(const StepModel& model, std::string_view name) {
  for (std::size_t i = 0; i < model.nodes.size(); ++i) {
    if (model.nodes[NodeId(i)].name == name) return NodeId(i);
  }
  ADD_FAILURE() << "no node " << name;
  return NodeId(0);
}

std::vector<double> pool_of(const StepModel& model, NodeId node) {
  const auto values = model.pools.all(model.nodes[node].duration_class, model.replicas);
  return {values.begin(), values.end()};
}

std::vector<std::string> names_before(const StepModel& model, NodeId node) {
  std::vector<std::string> names;
  for (const NodeId before : model.graph.predecessors(node)) names.push_back(model.nodes[before].name);
  return names;
}

TEST(GraphFolder, ChainIsRead) {
  const Folder folder(kNodes, kEdges, kPools);
  const StepModel model = folder.read();
  EXPECT_EQ(model.source, folder.dir.path().string());
  EXPECT_EQ(model.digest.size(), 16U);
  EXPECT_EQ(model.replicas, 1U);
  EXPECT_EQ(model.template_ranks, 1U);
  EXPECT_EQ(model.mesh, Mesh{});
  EXPECT_THAT(model.steps, IsEmpty());
  EXPECT_THAT(model.report.entries(), IsEmpty());
  EXPECT_EQ(model.recording, nullptr);

  ASSERT_EQ(model.nodes.size(), 3U);
  ASSERT_EQ(model.graph.size(), 3U);
  EXPECT_THAT(names_before(model, node_named(model, "load")), IsEmpty());
  EXPECT_THAT(names_before(model, node_named(model, "multiply")), ElementsAre("load"));
  EXPECT_THAT(names_before(model, node_named(model, "store")), ElementsAre("multiply"));
  EXPECT_THAT(pool_of(model, node_named(model, "load")), ElementsAre(1e6, 2e9));
  EXPECT_THAT(pool_of(model, node_named(model, "store")), ElementsAre(1e6, 2e9));
  EXPECT_THAT(pool_of(model, node_named(model, "multiply")), ElementsAre(2.5e8, 3e8));

  ASSERT_EQ(model.pools.classes.size(), 2U);
  const DurationClass& matmul = model.pools.classes[ClassId(0)];
  EXPECT_EQ(matmul.key, "matmul");
  EXPECT_EQ(matmul.category, Category::Compute);
  EXPECT_EQ(matmul.members, 1U);
  EXPECT_FALSE(matmul.per_replica);
  EXPECT_FALSE(matmul.exchangeable);
  EXPECT_EQ(model.pools.classes[ClassId(1)].category, Category::Local);

  const Node& load = model.nodes[node_named(model, "load")];
  EXPECT_EQ(load.kind, NodeKind::Op);
  EXPECT_EQ(load.stage, -1);
  EXPECT_EQ(load.microbatch, -1);
  EXPECT_EQ(load.id, load.draw_id);
  EXPECT_NE(load.id, model.nodes[node_named(model, "store")].id);
  EXPECT_EQ(folder.read().nodes, model.nodes);
}

TEST(GraphFolder, AllColumnsAreRead) {
  const Folder folder(
      "group_stride,microbatch,stage,rank,category,group_size,pool,node\n"
      "1,3,2,40,launch-delay,4,p,wait\n"
      ",,,7,point-to-point,all,q,\"send, \"\"x\"\"\"\n"
      "4,,,,,2,,meet\n",
      "after,before\nmeet,wait\n", "duration_s,pool\n1,p\n1,q\n");
  (void)folder.dir.file("mesh.csv", "size,axis\n8,dp\n3,pp\n");
  const StepModel model = folder.read();
  EXPECT_EQ(model.replicas, 8U);
  EXPECT_EQ(model.mesh.text(), "dp 8 x pp 3");
  EXPECT_EQ(model.template_ranks, 3U);

  const NodeId wait = node_named(model, "wait");
  EXPECT_EQ(model.nodes[wait].kind, NodeKind::Delay);
  EXPECT_EQ(model.nodes[wait].rank, 2);
  EXPECT_EQ(model.nodes[wait].stage, 2);
  EXPECT_EQ(model.nodes[wait].microbatch, 3);
  EXPECT_EQ(model.graph.replica_group(wait), (ReplicaGroup{4, 1}));
  EXPECT_EQ(model.nodes[wait].draw_group, (ReplicaGroup{4, 1}));
  EXPECT_EQ(model.pools.classes[model.nodes[wait].duration_class].rank, 2);

  const NodeId send = node_named(model, "send, \"x\"");
  EXPECT_EQ(model.nodes[send].kind, NodeKind::Op);
  EXPECT_EQ(model.nodes[send].rank, 1);
  EXPECT_EQ(model.graph.replica_group(send), (ReplicaGroup{8, 1}));
  EXPECT_EQ(model.pools.classes[model.nodes[send].duration_class].category, Category::PointToPoint);

  const NodeId meet = node_named(model, "meet");
  EXPECT_EQ(model.nodes[meet].kind, NodeKind::Join);
  EXPECT_EQ(model.nodes[meet].rank, 0);
  EXPECT_EQ(model.graph.replica_group(meet), (ReplicaGroup{2, 4}));
  ASSERT_EQ(model.report.entries().size(), 1U);
  EXPECT_EQ(model.report.entries()[0].severity, Severity::Info);
  EXPECT_THAT(model.report.entries()[0].reason, HasSubstr("ranks renumbered"));

  EXPECT_EQ(folder.read(16).replicas, 16U);
  EXPECT_EQ(folder.read(16).mesh.size(Axis::Dp), 16);
}

TEST(GraphFolder, LineEndsOfOtherSystemsAreRead) {
  const auto with_crlf = [](std::string_view text) {
    std::string result;
    for (const char letter : text) result += letter == '\n' ? "\r\n" : std::string(1, letter);
    return result;
  };
  const StepModel unix_model = Folder(kNodes, kEdges, kPools).read();
  const StepModel model =
      Folder("\xef\xbb\xbf" + with_crlf(kNodes), with_crlf(kEdges), with_crlf(kPools)).read();
  EXPECT_EQ(model.nodes, unix_model.nodes);
  EXPECT_EQ(model.graph, unix_model.graph);
  EXPECT_EQ(model.pools, unix_model.pools);
}

TEST(GraphFolder, SecondsAreReadWithoutRounding) {
  const Folder folder(
      "node,pool\na,p\n", "before,after\n",
      "pool,duration_s\np,0.123456789\np,0.000000001\np, 1.5E-3 \np,+2e+0\np,1e8\np,-0\np,.5\np,100\n");
  const StepModel model = folder.read();
  EXPECT_THAT(pool_of(model, NodeId(0)), ElementsAre(123456789.0, 1.0, 1.5e6, 2e9, 1e17, 0.0, 5e8, 1e11));
  EXPECT_FALSE(std::signbit(pool_of(model, NodeId(0))[5]));
}

TEST(GraphFolder, BadPoolRowsAreLeftOutAndReported) {
  const Folder folder(
      "node,pool\na,p\n", "before,after\n",
      "pool,duration_s\np,1\np,-1\np,nan\np,inf\np,1.1e8\np,1e\np,one\np,\np\np,1,2\n,1\np,\"2\n");
  const StepModel model = folder.read();
  EXPECT_THAT(pool_of(model, NodeId(0)), ElementsAre(1e9));
  std::map<std::string, std::size_t> counts;
  for (const ImportEntry& entry : model.report.entries()) {
    EXPECT_EQ(entry.severity, Severity::DataLoss);
    EXPECT_THAT(entry.places.front(), HasSubstr("pools.csv:"));
    counts[entry.reason] = entry.count;
  }
  EXPECT_EQ(counts.size(), 3U);
  EXPECT_EQ(counts["pool value left out: duration_s is no number from 0 to 1e8"], 7U);
  EXPECT_EQ(counts["pool value left out: the row's number of fields is not the header's"], 3U);
  EXPECT_EQ(counts["pool value left out: the pool has no name"], 1U);
}

TEST(GraphFolder, WhatIsNotUsedIsReported) {
  const Folder folder("node,pool,group_sise\na,p,2\n", "before,after\n",
                      "pool,duration_s\np,1\nspare,1\nspare,2\n");
  const StepModel model = folder.read();
  EXPECT_EQ(model.pools.classes.size(), 1U);
  ASSERT_EQ(model.report.entries().size(), 2U);
  EXPECT_THAT(model.report.entries()[0].places, ElementsAre(HasSubstr("nodes.csv:1 'group_sise'")));
  EXPECT_EQ(model.report.entries()[1].reason, "pool not used by any node");
  EXPECT_THAT(model.report.entries()[1].places, ElementsAre(HasSubstr("pools.csv:3 'spare'")));
}

TEST(GraphFolder, MissingFilesAreNamed) {
  EXPECT_THAT(thrown<InputError>([] { (void)read_graph_folder("/no/such/folder"); }),
              HasSubstr("/no/such/folder/nodes.csv: does not exist\n  fix: a graph folder holds"));
  for (const char* name : {"nodes.csv", "edges.csv", "pools.csv"}) {
    const Folder folder(kNodes, kEdges, kPools);
    fs::remove(folder.dir.path(name));
    EXPECT_THAT(folder.error(), AllOf(HasSubstr(name + std::string(": does not exist")), HasSubstr("fix: ")));
    (void)folder.dir.file(name, "");
    EXPECT_THAT(folder.error(), AllOf(HasSubstr(name + std::string(": is empty")), HasSubstr("fix: ")));
    (void)folder.dir.file(name, "x,y\n1,2\n");
    EXPECT_THAT(folder.error(),
                AllOf(HasSubstr(name + std::string(":1: the header lacks")), HasSubstr("fix: ")));
  }
}

struct Wrong {
  const char* nodes;
  const char* edges;
  const char* message;
};

TEST(GraphFolder, WrongRowsAreNamedByLine) {
  constexpr const char* kNone = "before,after\n";
  const std::array<Wrong, 19> cases = {{
      {"node,pool\n", kNone, "nodes.csv: has no node"},
      {"node,pool\na,io\n,io\n", kNone, "nodes.csv:3: the node has no name"},
      {"node,pool\na,io\nb,io\na,io\n", kNone, "nodes.csv:4: node 'a' is there already, on line 2"},
      {"node,pool\na,oi\n", kNone, "nodes.csv:2: pool 'oi' has no value in pools.csv"},
      {"node,pool\na\n", kNone, "nodes.csv:2: the row has 1 fields"},
      {"node,pool\na,\"io\n", kNone, "nodes.csv:2: the row has 2 fields (or a broken quote)"},
      {"node,pool,rank\na,io,x\n", kNone, "nodes.csv:2: rank is 'x'"},
      {"node,pool,rank\na,io,-1\n", kNone, "nodes.csv:2: rank is '-1'"},
      {"node,pool,stage\na,io,-2\n", kNone, "nodes.csv:2: stage is '-2'"},
      {"node,pool,microbatch\na,io,99999999999\n", kNone, "nodes.csv:2: microbatch is"},
      {"node,pool,category\na,io,launch delay\n", kNone, "nodes.csv:2: unknown category 'launch delay'"},
      {"node,pool,category\na,io,\nb,io,local\n", kNone,
       "nodes.csv:3: pool 'io' is of category compute on line 2, but local here"},
      {"node,pool,group_size\na,io,3\n", kNone,
       "nodes.csv:2: a group of 3 replicas, 1 apart, does not divide the 8 replicas"},
      {"node,pool,group_size,group_stride\na,io,all,2\n", kNone, "a group of 8 replicas, 2 apart"},
      {"node,pool,group_size\na,io,0\n", kNone, "nodes.csv:2: group_size is '0'"},
      {"node,pool\na,io\n", "before,after\na,b\n", "edges.csv:2: node 'b' is not in nodes.csv"},
      {"node,pool\na,io\n", "before,after\n,a\n", "edges.csv:2: node '' is not in nodes.csv"},
      {"node,pool\na,io\n", "before,after\na\n", "edges.csv:2: the row has 1 fields"},
      {"node,pool\na,io\n", "before,after\na,a\n", "edges.csv: the dependencies form a cycle: a -> a"},
  }};
  for (const Wrong& wrong : cases) {
    SCOPED_TRACE(wrong.message);
    EXPECT_THAT(Folder(wrong.nodes, wrong.edges, kPools).error(8),
                AllOf(HasSubstr(wrong.message), HasSubstr("\n  fix: ")));
  }
}

TEST(GraphFolder, PoolOfBadRowsOnlyHasNoValue) {
  EXPECT_THAT(Folder("node,pool\na,p\n", "before,after\n", "pool,duration_s\np,x\n").error(),
              HasSubstr("nodes.csv:2: pool 'p' has no value"));
}

TEST(GraphFolder, CycleNamesItsNodes) {
  const std::string message =
      Folder(kNodes, "before,after\nload,multiply\nmultiply,store\nstore,multiply\n", kPools).error();
  EXPECT_THAT(message, AllOf(HasSubstr("edges.csv: "), HasSubstr("cycle"), HasSubstr("multiply -> store"),
                             Not(HasSubstr("load"))));
}

TEST(GraphFolder, WrongMeshIsNamedByLine) {
  const Folder folder(kNodes, kEdges, kPools);
  const auto error = [&](std::string_view mesh) {
    (void)folder.dir.file("mesh.csv", mesh);
    return folder.error();
  };
  EXPECT_THAT(error("axis,size\nxp,2\n"), HasSubstr("mesh.csv:2: unknown axis 'xp'"));
  EXPECT_THAT(error("axis,size\ndp,2\ndp,2\n"), HasSubstr("mesh.csv:3: axis 'dp' is there twice"));
  EXPECT_THAT(error("axis,size\ndp,0\n"), HasSubstr("mesh.csv:2: size is '0'"));
  EXPECT_THAT(error("axis,size\ndp,16777216\ntp,16777216\npp,16777216\n"),
              HasSubstr("mesh.csv:3: the mesh has more"));
  EXPECT_THAT(error("axis\ndp\n"), HasSubstr("mesh.csv:1: the header lacks the column(s) size"));
}

/// What a folder holds of a model.
void expect_same_content(const StepModel& a, const StepModel& b) {
  EXPECT_EQ(a.mesh, b.mesh);
  EXPECT_EQ(a.replicas, b.replicas);
  EXPECT_EQ(a.template_ranks, b.template_ranks);
  EXPECT_EQ(a.graph, b.graph);
  EXPECT_EQ(a.nodes, b.nodes);
  EXPECT_EQ(a.pools, b.pools);
}

TEST(GraphFolder, RecordedModelIsWrittenMerged) {
  auto job = std::make_shared<RecordedJob>();
  job->source = "job";
  job->mesh.size(Axis::Dp) = 2;
  job->steps = {1, 2};
  job->ranks = {0, 1};
  using enum OpType;
  job->ops.push_back({.type = ForwardCompute, .seq = 0, .chunk = 0, .microbatch = 0});
  job->ops.push_back({.type = ForwardCompute, .seq = 1, .chunk = 0, .microbatch = 1});
  job->ops.push_back({.type = GradsReduceScatter, .seq = 0});
  job->ops.push_back({.type = GradsReduceScatter, .seq = 1});
  job->start_ns = {0, 0, 0, 0, /**/ 10, 11, 12, 13, /**/ 30, 31, 32, 33, /**/ 44, 45, 46, 48};
  job->end_ns = {10, 11, 12, 13, /**/ 25, 26, 27, 28, /**/ 40, 41, 42, 43, /**/ 50, 50, 50.5, 51};
  const StepModel model = build_step_model(job, LaunchDelays::Clean);

  const TestDir dir;
  write_graph_folder(model, dir.path("deep/graph"));
  const StepModel read = read_graph_folder(dir.path("deep/graph"));
  EXPECT_THAT(read.report.entries(), IsEmpty());
  EXPECT_EQ(read.replicas, 2U);
  EXPECT_EQ(read.mesh, model.mesh);
  EXPECT_EQ(read.graph, model.graph);
  ASSERT_EQ(read.nodes.size(), model.nodes.size());
  for (std::size_t i = 0; i < model.nodes.size(); ++i) {
    const NodeId id(i);
    EXPECT_EQ(read.nodes[id].kind, model.nodes[id].kind);
    EXPECT_EQ(read.nodes[id].name, model.nodes[id].name);
    EXPECT_EQ(read.nodes[id].rank, model.nodes[id].rank);
    EXPECT_EQ(read.nodes[id].stage, model.nodes[id].stage);
    EXPECT_EQ(read.nodes[id].microbatch, model.nodes[id].microbatch);
    if (model.nodes[id].kind == NodeKind::Join) continue;
    EXPECT_EQ(read.pools.classes[read.nodes[id].duration_class].category,
              model.pools.classes[model.nodes[id].duration_class].category);
    std::vector<double> values = pool_of(model, id);
    for (double& value : values) value = std::max(0.0, value);
    EXPECT_EQ(pool_of(read, id), values) << model.nodes[id].name;
  }
  // The two reductions have one key but pools of their own.
  EXPECT_THAT(dir.content("deep/graph/pools.csv"), HasSubstr("\ngrads-reduce-scatter stage 0 (2),"));

  write_graph_folder(read, dir.path("again"));
  expect_same_content(read_graph_folder(dir.path("again")), read);
}

std::string random_name(const char* prefix, std::size_t i) {
  const std::string odd =
      *rc::gen::container<std::string>(rc::gen::element('a', ',', '"', '\n', '\r', ' ', ';'));
  return prefix + std::to_string(i) + odd;
}

/// A folder with random nodes, edges and pools; each node belongs to one pool or is a join.
void write_random_folder(const TestDir& dir) {
  const auto row = [](const std::vector<std::string>& fields) { return csv_row(fields); };
  const auto number = [](int low, int high) { return *rc::gen::inRange(low, high + 1); };
  constexpr std::array<const char*, 5> kCategories = {"compute", "collective", "point-to-point", "local",
                                                      "launch-delay"};
  struct Pool {
    std::string name;
    std::string category;
  };
  std::vector<Pool> pools;
  std::string pools_csv = "pool,duration_s\n";
  for (int i = 0; i < number(1, 4); ++i) {
    pools.push_back({random_name("p", pools.size()), kCategories[static_cast<std::size_t>(number(0, 4))]});
    for (int n = 0; n < number(1, 5); ++n) {
      const auto seconds =
          static_cast<double>(*rc::gen::arbitrary<std::uint32_t>()) * std::pow(10.0, number(-25, -2));
      pools_csv += row({pools.back().name, csv_number(seconds)});
    }
  }
  std::vector<std::string> nodes;
  std::string nodes_csv = "node,pool,rank,stage,microbatch,category,group_size,group_stride\n";
  const int count = number(1, 12);
  for (int i = 0; i < count; ++i) {
    nodes.push_back(random_name("n", nodes.size()));
    const bool join = number(0, 3) == 0;
    const Pool& pool = pools[static_cast<std::size_t>(number(0, static_cast<int>(pools.size()) - 1))];
    nodes_csv += row({nodes.back(), join ? "" : pool.name, std::to_string(number(0, 5)),
                      std::to_string(number(-1, 3)), std::to_string(number(-1, 3)), join ? "" : pool.category,
                      number(0, 1) == 0 ? "3" : "all", number(0, 1) == 0 ? "" : "1"});
  }
  std::string edges_csv = "before,after\n";
  for (int e = 0; count > 1 && e < number(0, 30); ++e) {
    const int after = number(1, count - 1);
    // The first node to run is the last in the file, so that nodes are renumbered.
    const auto at = [&](int i) { return nodes[static_cast<std::size_t>(count - 1 - i)]; };
    edges_csv += row({at(number(0, after - 1)), at(after)});
  }
  (void)dir.file("pools.csv", pools_csv);
  (void)dir.file("nodes.csv", nodes_csv);
  (void)dir.file("edges.csv", edges_csv);
  (void)dir.file("mesh.csv", "axis,size\ndp," + std::to_string(3 * number(1, 3)) + "\ntp,4\n");
}

RC_GTEST_PROP(GraphFolderProperty, WriteThenReadIsTheIdentity, ()) {
  const TestDir dir;
  write_random_folder(dir);
  const StepModel model = read_graph_folder(dir.path());
  write_graph_folder(model, dir.path("written"));
  const StepModel read = read_graph_folder(dir.path("written"));
  RC_ASSERT(read.mesh == model.mesh);
  RC_ASSERT(read.replicas == model.replicas);
  RC_ASSERT(read.template_ranks == model.template_ranks);
  RC_ASSERT(read.graph == model.graph);
  RC_ASSERT(read.nodes == model.nodes);
  RC_ASSERT(read.pools == model.pools);
  RC_ASSERT(read.report.entries().empty());
}

TEST(GraphFolder, TimesAreWrittenWithoutRounding) {
  StepModel model = Folder("node,pool\na,p\n", "before,after\n", "pool,duration_s\np,1\n").read();
  model.pools = {};
  std::vector<double> values;
  std::mt19937_64 random(4711);
  while (values.size() < 20'000) {
    values.push_back(std::ldexp(static_cast<double>(random()), -static_cast<int>(random() % 80) - 8));
    values.push_back(
        static_cast<double>(random() % 100'000'000'000));  // whole nanoseconds, as in most traces
  }
  model.pools.add({.key = "p", .per_replica = false}, values, 1);
  const TestDir dir;
  write_graph_folder(model, dir.path());
  EXPECT_EQ(read_graph_folder(dir.path()).pools.values_ns, values);
}

TEST(GraphFolder, TimesAreWrittenAsReadableSeconds) {
  StepModel model =
      Folder("node,pool\na,p\n", "before,after\n", "pool,duration_s\np,1\np,1\np,1\np,1\np,1\np,1\np,1\n")
          .read();
  model.pools.values_ns = {0, 1, 1.5e9, 12e9, 123456789, 1e17 / 3, 1e-7};
  const TestDir dir;
  write_graph_folder(model, dir.path());
  EXPECT_EQ(
      dir.content("pools.csv"),
      "pool,duration_s\np,0\np,0.000000001\np,1.5\np,12\np,0.123456789\np,33333333.333333332\np,1e-16\n");
  EXPECT_EQ(read_graph_folder(dir.path()).pools, model.pools);
}

}  // namespace
}  // namespace prism
