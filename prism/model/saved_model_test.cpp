// SPDX-License-Identifier: Apache-2.0
#include "prism/model/saved_model.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prism/io/csv.hpp"
#include "prism/io/sqlite.hpp"
#include "prism/io/test_dir.hpp"
#include "prism/model/build_step_model.hpp"
#include "prism/trace/error.hpp"

namespace prism {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string name_of(const StepModel& model, std::size_t node) {
  return model.nodes[NodeId(node)].name;
}

/// Four nodes that use what the format has: all kinds, replica groups, big ids, a pool of each form.
//
//   load [delay] -> multiply -> meet [join] -> reduce
//            '------------------------------------^
StepModel hand_made() {
  StepModel model;
  model.source = "jobs/tiny";
  model.digest = "0123456789abcdef";
  model.mesh.sizes = {2, 1, 1, 8, 3};
  model.mesh.order = {Axis::Cp, Axis::Tp, Axis::Pp, Axis::Ep, Axis::Dp};
  model.replicas = 8;
  model.template_ranks = 3;
  model.cells = 2;
  model.world_ranks = 48;
  model.lead_ns = 1.0 / 3;
  for (int i = 0; i < 24; ++i) model.rank_factors.push_back(1 + i / 7.0);
  model.activity = {
      {.rank = 5, .busy = 0.5, .communicating = 0.1, .waiting_host = 0.15, .waiting_ranks = 0.25},
      {.rank = 2, .busy = 1}};
  const ClassId shared =
      model.pools.add({.key = "reads", .category = Category::LaunchDelay, .rank = 2, .per_replica = false},
                      std::array{0.1, 1e-300, 5e9}, model.replicas);
  const ClassId own = model.pools.add({.key = "multiply \"x\"", .members = 2, .exchangeable = true},
                                      std::vector<double>(8 * 4, -1.5), model.replicas);
  const ClassId sum = model.pools.add({.key = "sum", .category = Category::Collective, .per_replica = false},
                                      std::array{7.0}, model.replicas);
  StepGraphBuilder builder;
  model.nodes.push_back({.kind = NodeKind::Delay,
                         .name = "load",
                         .rank = 2,
                         .id = ~0ULL,
                         .draw_id = 1ULL << 63,
                         .duration_class = shared});
  model.nodes.push_back({.name = "multiply\n\xc3\xa9",
                         .stage = 0,
                         .microbatch = 7,
                         .phase = Phase::Backward,
                         .cell = 1,
                         .duration_class = own,
                         .member = 1});
  model.nodes.push_back({.kind = NodeKind::Join, .name = "", .duration_class = ClassId(99)});
  model.nodes.push_back({.name = "reduce",
                         .rank = 1,
                         .stage = 2,
                         .phase = Phase::Communication,
                         .over_replicas = true,
                         .id = 4,
                         .draw_group = {2, 4},
                         .duration_class = sum});
  for (const ReplicaGroup group : {ReplicaGroup{}, ReplicaGroup{}, ReplicaGroup{8, 1}, ReplicaGroup{2, 4}}) {
    builder.add_node(group);
  }
  builder.add_edge(0, 1);
  builder.add_edge(1, 2);
  builder.add_edge(2, 3);
  builder.add_edge(0, 3);
  model.graph = builder.build("", [&](std::uint32_t node) { return name_of(model, node); }).graph;
  model.inferences = {{"posting edge", "load -> reduce"}, {"wait for all stages", ""}};
  model.clock_offsets_ns.assign(24, 0.25);
  model.report.add(Severity::DataLoss, "row left out", "a.csv:12");
  model.report.add(Severity::DataLoss, "row left out", "C:\\new\nline");
  for (int i = 0; i < 1000; ++i) model.report.add(Severity::Info, "no place given");
  return model;
}

/// 2 stages x 2 replicas x 3 steps x 2 microbatches, times in ns from a small made-up schedule with some
/// noise.
std::shared_ptr<const RecordedJob> small_job() {
  struct Planned {
    TemplateOp op;
    double start_ms;
    double end_ms;
  };
  using enum OpType;
  const std::vector<Planned> plan = {
      {{ForwardCompute, 0, 0, 0, 0}, 0, 10},         {{ForwardCompute, 0, 1, 0, 1}, 10, 20},
      {{BackwardCompute, 0, 0, 0, 0}, 46, 64},       {{BackwardCompute, 0, 1, 0, 1}, 76, 96},
      {{ForwardSend, 0, 0, -1, -1}, 10, 12},         {{ForwardSend, 0, 1, -1, -1}, 20, 22},
      {{BackwardRecv, 0, 0, -1, -1}, 21, 45},        {{BackwardRecv, 0, 1, -1, -1}, 64, 75},
      {{GradsReduceScatter, 0, 0, -1, -1}, 97, 110}, {{Optimizer, 0, 0, -1, -1}, 111, 120},
      {{ForwardCompute, 1, 0, 0, 0}, 13, 23},        {{ForwardCompute, 1, 1, 0, 1}, 43, 54},
      {{BackwardCompute, 1, 0, 0, 0}, 23, 43},       {{BackwardCompute, 1, 1, 0, 1}, 54, 73},
      {{ForwardRecv, 1, 0, -1, -1}, 5, 12},          {{ForwardRecv, 1, 1, -1, -1}, 14, 22},
      {{BackwardSend, 1, 0, -1, -1}, 43, 45},        {{BackwardSend, 1, 1, -1, -1}, 73, 75},
      {{GradsReduceScatter, 1, 0, -1, -1}, 74, 110}, {{Optimizer, 1, 0, -1, -1}, 110, 121}};
  auto job = std::make_shared<RecordedJob>();
  job->source = "/home/someone/trace.csv";
  job->trial_name = "secret-trial";
  job->mesh.size(Axis::Dp) = 2;
  job->mesh.size(Axis::Pp) = 2;
  job->mesh.size(Axis::Tp) = 4;
  job->steps = {100, 101, 103};
  job->ranks = {0, 8, 4, 12};
  for (const Planned& planned : plan) {
    job->ops.push_back(planned.op);
    for (int cell = 0; cell < 6; ++cell) {
      const double slower = 1 + 0.01 * (cell * 7 % 5);
      job->start_ns.push_back(std::round(planned.start_ms * slower * 1e6));
      job->end_ns.push_back(std::round(planned.end_ms * slower * 1e6));
    }
  }
  return job;
}

StepModel recorded() {
  ImportReport report;
  report.add(Severity::Repaired, "row removed: an exact double of another", "trace.csv:7");
  StepModel model = build_step_model(small_job(), LaunchDelays::Clean, std::move(report));
  model.digest = "00000000deadbeef";
  model.clock_offsets_ns = {1.5, -2, 0, 0.5};
  model.step_kinds = {1, -4, 1};
  model.recorded_start_ns.assign(model.nodes.size() * 3 * 2, -0.25);
  model.recorded_start_ns[7] = std::numeric_limits<double>::quiet_NaN();
  return model;
}

/// Numbers as text, so that NaN equals NaN.
std::vector<std::string> texts(const std::vector<double>& values) {
  std::vector<std::string> result;
  for (const double value : values) result.push_back(csv_number(value));
  return result;
}

void expect_equal(const RecordedJob* a, const RecordedJob* b) {
  ASSERT_EQ(a == nullptr, b == nullptr);
  if (a == nullptr) return;
  EXPECT_EQ(a->source, b->source);
  EXPECT_EQ(a->trial_name, b->trial_name);
  EXPECT_EQ(a->mesh, b->mesh);
  EXPECT_EQ(a->steps, b->steps);
  EXPECT_EQ(a->ops, b->ops);
  EXPECT_EQ(a->ranks, b->ranks);
  EXPECT_EQ(a->start_ns, b->start_ns);
  EXPECT_EQ(a->end_ns, b->end_ns);
}

void expect_equal(const ImportReport& a, const ImportReport& b) {
  ASSERT_EQ(a.entries().size(), b.entries().size());
  for (std::size_t i = 0; i < a.entries().size(); ++i) {
    EXPECT_EQ(a.entries()[i].severity, b.entries()[i].severity);
    EXPECT_EQ(a.entries()[i].reason, b.entries()[i].reason);
    EXPECT_EQ(a.entries()[i].count, b.entries()[i].count);
    EXPECT_EQ(a.entries()[i].places, b.entries()[i].places);
  }
}

void expect_equal(const StepModel& a, const StepModel& b) {
  EXPECT_EQ(a.source, b.source);
  EXPECT_EQ(a.digest, b.digest);
  EXPECT_EQ(a.mesh, b.mesh);
  EXPECT_EQ(a.replicas, b.replicas);
  EXPECT_EQ(a.traced_replicas, b.traced_replicas);
  EXPECT_EQ(a.template_ranks, b.template_ranks);
  EXPECT_EQ(a.cells, b.cells);
  EXPECT_EQ(a.world_ranks, b.world_ranks);
  EXPECT_EQ(a.lead_ns, b.lead_ns);
  EXPECT_EQ(a.step_kinds, b.step_kinds);
  EXPECT_EQ(a.rank_factors, b.rank_factors);
  EXPECT_EQ(a.activity, b.activity);
  EXPECT_EQ(texts(a.recorded_start_ns), texts(b.recorded_start_ns));
  EXPECT_EQ(a.graph, b.graph);
  EXPECT_EQ(a.nodes, b.nodes);
  EXPECT_EQ(a.pools, b.pools);
  EXPECT_EQ(a.steps, b.steps);
  EXPECT_EQ(a.observed_ns, b.observed_ns);
  EXPECT_EQ(a.inferences, b.inferences);
  EXPECT_EQ(a.clock_offsets_ns, b.clock_offsets_ns);
  expect_equal(a.report, b.report);
  expect_equal(a.recording.get(), b.recording.get());
}

/// What may not change when the content is damaged but the file is still accepted.
std::vector<std::size_t> shape(const StepModel& model) {
  std::vector<std::size_t> sizes = {model.nodes.size(),
                                    model.graph.size(),
                                    model.graph.edge_count(),
                                    model.pools.classes.size(),
                                    model.pools.values_ns.size(),
                                    model.steps.size(),
                                    model.observed_ns.size(),
                                    model.inferences.size(),
                                    model.clock_offsets_ns.size(),
                                    model.report.entries().size(),
                                    model.rank_factors.size(),
                                    model.activity.size(),
                                    model.step_kinds.size(),
                                    model.recorded_start_ns.size()};
  if (model.recording != nullptr) {
    sizes.insert(sizes.end(),
                 {model.recording->ops.size(), model.recording->steps.size(), model.recording->ranks.size(),
                  model.recording->start_ns.size(), model.recording->end_ns.size()});
  }
  return sizes;
}

std::string load_error(const fs::path& path) {
  return thrown<InputError>([&] { (void)load_model(path); });
}

/// Runs SQL on a database file, which must be named `saved` there.
void change(const TestDir& dir, const fs::path& path, const std::string& sql) {
  fs::remove(dir.path("scratch.db"));
  Database scratch = Database::create(dir.path("scratch.db"));
  scratch.exec("ATTACH '" + path.string() + "' AS saved; PRAGMA saved.synchronous=OFF");
  scratch.exec(sql);
}

TEST(SavedModel, HandMadeModelComesBack) {
  const TestDir dir;
  const StepModel model = hand_made();
  save_model(model, dir.path("job.prism"));
  expect_equal(model, load_model(dir.path("job.prism")));
  EXPECT_THAT(dir.names(), ::testing::ElementsAre("job.prism"));
}

TEST(SavedModel, ModelOfARecordedJobComesBack) {
  const TestDir dir;
  const StepModel model = recorded();
  ASSERT_GT(model.nodes.size(), 20U);
  ASSERT_NE(model.recording, nullptr);
  save_model(model, dir.path("job.prism"));
  const StepModel loaded = load_model(dir.path("job.prism"));
  expect_equal(model, loaded);
  for (const LaunchDelays delays : {LaunchDelays::Clean, LaunchDelays::Raw, LaunchDelays::Off}) {
    expect_equal(build_step_model(model.recording, delays), build_step_model(loaded.recording, delays));
  }
}

TEST(SavedModel, SelectedStepsComeBack) {
  const TestDir dir;
  const StepModel model = with_steps(recorded(), std::array<std::size_t, 3>{2, 0, 2});
  save_model(model, dir.path("job.prism"));
  expect_equal(model, load_model(dir.path("job.prism")));
}

TEST(SavedModel, ExtendedModelComesBack) {
  const TestDir dir;
  StepModel model = recorded();
  model.traced_replicas = model.replicas;
  model.replicas = 6;
  save_model(model, dir.path("job.prism"));
  expect_equal(model, load_model(dir.path("job.prism")));
}

// Version 1 had no cells, phases, kinds of steps and activity.
TEST(SavedModel, FileOfVersion1IsRead) {
  const TestDir dir;
  StepModel model = recorded();
  save_model(model, dir.path("job.prism"));
  change(dir, dir.path("job.prism"),
         "DROP TABLE saved.activity; ALTER TABLE saved.step DROP COLUMN kind;"
         "ALTER TABLE saved.node DROP COLUMN phase; ALTER TABLE saved.node DROP COLUMN cell;"
         "ALTER TABLE saved.node DROP COLUMN over_replicas;"
         "DELETE FROM saved.array WHERE name IN ('node_start_ns', 'rank_factors');"
         "DELETE FROM saved.meta WHERE key IN ('traced_replicas', 'cells', 'world_ranks', 'lead_ns', "
         "'step_kinds', "
         "'activities', 'rank_factors', 'node_starts'); PRAGMA saved.user_version=1");
  model.step_kinds.clear();
  model.recorded_start_ns.clear();
  const StepModel loaded = load_model(dir.path("job.prism"));
  std::size_t over_replicas = 0;
  for (std::size_t i = 0; i < model.nodes.size(); ++i) {
    const bool meets = model.graph.replica_group(NodeId(i)).spans();
    EXPECT_EQ(loaded.nodes[NodeId(i)].over_replicas, meets) << name_of(model, i);
    over_replicas += meets;
    model.nodes[NodeId(i)].over_replicas = meets;
  }
  EXPECT_GT(over_replicas, 0U);
  expect_equal(loaded, model);
}

TEST(SavedModel, PoolsOfSeveralPartsComeBack) {
  const TestDir dir;
  StepModel model = hand_made();
  std::vector<double> values(2'500'000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i) / 3;
  model.pools.add({.key = "many", .per_replica = false}, values, model.replicas);
  save_model(model, dir.path("job.prism"));
  EXPECT_EQ(load_model(dir.path("job.prism")).pools, model.pools);
}

TEST(SavedModel, EqualModelsGiveEqualBytes) {
  const TestDir dir;
  save_model(recorded(), dir.path("a.prism"));
  save_model(recorded(), dir.path("b.prism"));
  EXPECT_EQ(dir.content("a.prism"), dir.content("b.prism"));
  save_model(load_model(dir.path("a.prism")), dir.path("a.prism"));
  EXPECT_EQ(dir.content("a.prism"), dir.content("b.prism"));
}

TEST(SavedModel, CanBeReadWithSql) {
  const TestDir dir;
  save_model(hand_made(), dir.path("job.prism"));
  Database database = Database::open(dir.path("job.prism"));
  Statement row = database.prepare(
      "SELECT n.name, m.name, m.kind, c.category FROM edge JOIN node n ON n.id = before JOIN node m ON m.id "
      "= after"
      " JOIN duration_class c ON c.id = m.class WHERE before = 0 ORDER BY after DESC");
  ASSERT_TRUE(row.step());
  EXPECT_EQ(row.column_text(0), "load");
  EXPECT_EQ(row.column_text(1), "reduce");
  EXPECT_EQ(row.column_text(2), "op");
  EXPECT_EQ(row.column_text(3), "collective");
}

TEST(SavedModel, FileThatCannotBeWrittenIsNoInputError) {
  const TestDir dir;
  EXPECT_THAT(thrown<std::runtime_error>([&] { save_model(hand_made(), dir.path("none") / "job.prism"); }),
              HasSubstr("none/job.prism"));
}

TEST(SavedModel, OtherFilesAreRefused) {
  const TestDir dir;
  EXPECT_THAT(load_error(dir.path("none.prism")), HasSubstr("does not exist"));
  EXPECT_THAT(load_error(dir.file("text.prism", "hello")), HasSubstr("text.prism: is not a SQLite database"));
  Database::create(dir.path("other.db")).exec("CREATE TABLE node(id)");
  EXPECT_THAT(load_error(dir.path("other.db")),
              AllOf(HasSubstr("other.db: is a SQLite database, but not a saved model"), HasSubstr("fix: ")));
}

struct Damage {
  const char* sql;
  const char* message;
};

void expect_refused(const StepModel& model, std::span<const Damage> damages) {
  const TestDir dir;
  save_model(model, dir.path("intact.prism"));
  for (const Damage& damage : damages) {
    SCOPED_TRACE(damage.sql);
    fs::copy_file(dir.path("intact.prism"), dir.path("job.prism"), fs::copy_options::overwrite_existing);
    change(dir, dir.path("job.prism"), damage.sql);
    EXPECT_THAT(load_error(dir.path("job.prism")),
                AllOf(HasSubstr("job.prism: "), HasSubstr(damage.message), HasSubstr("\n  fix: ")));
  }
}

TEST(SavedModel, DamageIsFound) {
  expect_refused(
      hand_made(),
      std::array<Damage, 84>{{
          {"PRAGMA saved.user_version=3", "was made by a newer prism (format 3, this one reads 2)"},
          {"PRAGMA saved.user_version=0", "format 0 does not exist"},
          {"PRAGMA saved.application_id=7", "not a saved model"},
          {"DROP TABLE saved.inference", "has no table inference"},
          {"DROP TABLE saved.step; CREATE VIEW saved.step AS SELECT 1 AS number, 2.0 AS observed_ns",
           "has no table step"},
          {"DROP TABLE saved.step; CREATE TABLE saved.step(number, observed_ns REAL AS (number + 1))",
           "computed columns"},
          {"DROP TABLE saved.edge; CREATE TABLE saved.edge(x)", "no such column"},
          {"DELETE FROM saved.meta WHERE key='replicas'", "no key 'replicas'"},
          {"UPDATE saved.meta SET value='0' WHERE key='replicas'", "replicas is '0', expected 1 to"},
          {"UPDATE saved.meta SET value='4000000000' WHERE key='replicas'", "replicas is '4000000000'"},
          {"UPDATE saved.meta SET value='8x' WHERE key='replicas'", "replicas is '8x'"},
          {"UPDATE saved.duration_class SET offset=0 WHERE id=(SELECT max(id) FROM saved.duration_class)",
           "pools lie one after the other"},
          {"UPDATE saved.meta SET value='soft' WHERE key='launch_delays'", "launch_delays is unknown"},
          {"UPDATE saved.meta SET value='4' WHERE key='replicas'", "pools lie one after the other"},
          {"UPDATE saved.meta SET value='2' WHERE key='template_ranks'", "rank is 2, expected 0 to 1"},
          {"UPDATE saved.meta SET value='4' WHERE key='template_ranks'",
           "rank_factors does not hold one value per rank"},
          {"UPDATE saved.meta SET value='4' WHERE key='template_ranks'; UPDATE saved.meta SET value='0' "
           "WHERE "
           "key='rank_factors'; DELETE FROM saved.array WHERE name='rank_factors'",
           "clock_offsets_ns does not hold one value"},
          {"UPDATE saved.meta SET value='0' WHERE key='mesh_tp'", "mesh_tp is '0'"},
          {"UPDATE saved.meta SET value='9999999' WHERE key LIKE 'mesh_%p'", "the mesh has more than"},
          {"UPDATE saved.meta SET value='tp-tp-ep-dp-pp' WHERE key='mesh_order'", "mesh_order"},
          {"UPDATE saved.meta SET value='maybe' WHERE key='recording'", "expected yes or no"},
          {"UPDATE saved.meta SET value='yes' WHERE key='recording'", "no key 'recording_source'"},
          {"UPDATE saved.meta SET value=x'00' WHERE key='source'", "value is not a text"},
          {"UPDATE saved.meta SET value='5' WHERE key='nodes'", "has 4 nodes, expected 5"},
          {"UPDATE saved.meta SET value='99999999999999999999' WHERE key='nodes'", "nodes is '9999"},
          {"DELETE FROM saved.node WHERE id=3", "has 3 nodes, expected 4"},
          {"DELETE FROM saved.node; UPDATE saved.meta SET value='0' WHERE key IN ('nodes', 'edges')",
           "is empty"},
          {"DELETE FROM saved.node WHERE id=1", "id is 2, expected 1 to 1"},
          {"UPDATE saved.node SET kind='Op' WHERE id=0", "table node, row 1: kind is unknown: 'Op'"},
          {"UPDATE saved.node SET name=NULL WHERE id=0", "name is not a text"},
          {"UPDATE saved.node SET rank='x' WHERE id=0", "rank is not a whole number"},
          {"UPDATE saved.node SET rank=-1 WHERE id=0", "rank is -1, expected 0 to 2"},
          {"UPDATE saved.node SET stage=-2 WHERE id=0", "stage is -2"},
          {"UPDATE saved.node SET microbatch=5000000000 WHERE id=0", "microbatch is 5000000000"},
          {"UPDATE saved.node SET class=3 WHERE id=1", "class is 3, but there are 3"},
          {"UPDATE saved.node SET class=-1 WHERE id=1", "class is -1"},
          {"UPDATE saved.node SET member=2 WHERE id=1", "member is 2, but the class has 2"},
          {"UPDATE saved.node SET draw_group_size=3 WHERE id=1", "does not divide the 8 replicas"},
          {"UPDATE saved.node SET replica_group_size=0 WHERE id=1", "replica_group_size is 0"},
          {"UPDATE saved.node SET replica_group_size=4294967295, replica_group_stride=4294967295 WHERE id=1",
           "does not divide"},
          {"UPDATE saved.edge SET before=3 WHERE after=3", "after is not larger than before"},
          {"UPDATE saved.edge SET before=2, after=1 WHERE after=2", "after is not larger than before"},
          {"UPDATE saved.edge SET after=4 WHERE after=3", "after is 4, expected 0 to 3"},
          {"UPDATE saved.edge SET before=-1 WHERE after=1", "before is -1"},
          {"INSERT INTO saved.edge VALUES(0, 1)", "breaks the order"},
          {"DELETE FROM saved.edge WHERE after=1", "has 3 edges, expected 4"},
          {"UPDATE saved.duration_class SET category='magic' WHERE id=0", "category is unknown: 'magic'"},
          {"UPDATE saved.duration_class SET rank=3 WHERE id=0", "rank is 3"},
          {"UPDATE saved.duration_class SET members=0 WHERE id=1", "members is 0"},
          {"UPDATE saved.duration_class SET members=3 WHERE id=1", "size is not a multiple of members"},
          {"UPDATE saved.duration_class SET size=0 WHERE id=1", "size is 0"},
          {"UPDATE saved.duration_class SET size=4000000000 WHERE id=1", "outside of pool_values_ns"},
          {"UPDATE saved.duration_class SET per_replica=2 WHERE id=1", "per_replica is 2"},
          {"UPDATE saved.duration_class SET per_replica=1 WHERE id=2", "outside of pool_values_ns"},
          {"UPDATE saved.duration_class SET offset=9223372036854775807 WHERE id=1",
           "outside of pool_values_ns"},
          {"UPDATE saved.duration_class SET offset=-1 WHERE id=1", "offset is -1"},
          {"UPDATE saved.array SET data=x'00' WHERE name='pool_values_ns'",
           "not a whole number of 8-byte values"},
          {"UPDATE saved.array SET data='text' WHERE name='pool_values_ns'", "data is not a blob"},
          {"UPDATE saved.array SET data=x'000000000000f07f' WHERE name='pool_values_ns'",
           "a value that is no time"},
          {"UPDATE saved.array SET data=x'000000000000f87f' WHERE name='pool_values_ns'",
           "a value that is no time"},
          {"UPDATE saved.array SET data=zeroblob(8) WHERE name='pool_values_ns'",
           "has 1 pool_values, expected 36"},
          {"UPDATE saved.array SET part=1 WHERE name='pool_values_ns'", "part is 1, expected 0 to 0"},
          {"DELETE FROM saved.array WHERE name='clock_offsets_ns'", "has 0 clock_offsets, expected 24"},
          {"INSERT INTO saved.step VALUES(1, 5.0, 0); UPDATE saved.meta SET value='1' WHERE key='steps'",
           "size is not members times the 1 steps"},
          {"DROP TABLE saved.activity", "has no table activity"},
          {"DELETE FROM saved.meta WHERE key='cells'", "no key 'cells'"},
          {"UPDATE saved.meta SET value='4' WHERE key='cells'", "cells is '4', expected 1 to 3"},
          {"UPDATE saved.meta SET value='0' WHERE key='cells'", "cells is '0', expected 1 to 3"},
          {"UPDATE saved.meta SET value='-1' WHERE key='world_ranks'", "world_ranks is '-1'"},
          {"UPDATE saved.meta SET value='inf' WHERE key='lead_ns'", "lead_ns is not a time"},
          {"UPDATE saved.meta SET value='soon' WHERE key='lead_ns'", "lead_ns is not a time"},
          {"UPDATE saved.meta SET value='4' WHERE key='traced_replicas'", "pools lie one after the other"},
          {"UPDATE saved.node SET cell=2 WHERE id=1", "cell is 2, expected 0 to 1"},
          {"UPDATE saved.node SET phase='sleep' WHERE id=1", "phase is unknown: 'sleep'"},
          {"UPDATE saved.node SET over_replicas=2 WHERE id=1", "over_replicas is 2"},
          {"UPDATE saved.activity SET busy=1.5", "busy is not a share of 0 to 1"},
          {"UPDATE saved.activity SET rank=-1", "rank is -1"},
          {"DELETE FROM saved.activity WHERE rank=2", "has 1 activities, expected 2"},
          {"DELETE FROM saved.array WHERE name='rank_factors'; UPDATE saved.meta SET value='0' WHERE "
           "key='clock_offsets'",
           "has 0 rank_factors, expected 24"},
          {"UPDATE saved.array SET data=zeroblob(192) WHERE name='rank_factors'", "is not above 0"},
          {"UPDATE saved.report SET severity='mild'", "severity is unknown"},
          {"UPDATE saved.report SET count=9223372036854775807", "expected 1 to"},
          {"UPDATE saved.report SET count=1", "places are more than the records"},
          {"UPDATE saved.report SET reason='x', severity='info'", "belong to a reason that is there already"},
      }});
}

TEST(SavedModel, DamageOfARecordingIsFound) {
  expect_refused(
      recorded(),
      std::array<Damage, 21>{{
          {"UPDATE saved.meta SET value='2' WHERE key='step_kinds'", "has 3 step_kinds, expected 2"},
          {"UPDATE saved.meta SET value='0' WHERE key='step_kinds'", "a kind is given"},
          {"UPDATE saved.array SET data=zeroblob(8) WHERE name='node_start_ns'", "has 1 node_starts"},
          {"UPDATE saved.array SET data=zeroblob(8) WHERE name='node_start_ns'; UPDATE saved.meta SET "
           "value='1' "
           "WHERE key='node_starts'",
           "one value per node, step and replica"},
          {"UPDATE saved.step SET observed_ns='x' WHERE number=100", "observed_ns is not a number"},
          {"UPDATE saved.step SET observed_ns=9e999 WHERE number=100", "observed_ns is not a time"},
          {"UPDATE saved.step SET observed_ns=-1.0 WHERE number=100", "observed_ns is not a time"},
          {"DELETE FROM saved.step WHERE number=100", "has 2 steps, expected 3"},
          {"DELETE FROM saved.step WHERE number=100; UPDATE saved.meta SET value='2' WHERE key IN ('steps', "
           "'step_kinds')",
           "size is not members times the 2 steps"},
          {"UPDATE saved.duration_class SET per_replica=0 WHERE category='compute'", "are per replica"},
          {"UPDATE saved.recorded_op SET type='sleep' WHERE id=0", "type is unknown: 'sleep'"},
          {"UPDATE saved.recorded_op SET stage=2 WHERE id=19", "stage is 2, expected 0 to 1"},
          {"UPDATE saved.recorded_op SET seq=0 WHERE id=1", "breaks the order by stage, type, seq"},
          {"DELETE FROM saved.recorded_op WHERE id=19", "has 19 recorded_ops, expected 20"},
          {"UPDATE saved.meta SET value='3' WHERE key='recording_mesh_pp'", "recorded_rank"},
          {"UPDATE saved.meta SET value='16777216' WHERE key='recording_mesh_dp'",
           "4 rows for 16777216 replicas"},
          {"UPDATE saved.recorded_step SET number=100 WHERE number=101", "not larger than the one before"},
          {"DELETE FROM saved.recorded_step; UPDATE saved.meta SET value='0' WHERE key='recorded_steps'",
           "is empty"},
          {"UPDATE saved.recorded_rank SET replica=9", "replica is 9, expected 0 to 0"},
          {"DELETE FROM saved.recorded_rank WHERE rank=12", "3 rows for 2 replicas of 2 stages"},
          {"UPDATE saved.array SET data=zeroblob(8) WHERE name='recorded_end_ns'",
           "one value per op, step and replica"},
      }});
}

TEST(SavedModel, StageWithoutOpsIsFound) {
  expect_refused(recorded(),
                 std::array<Damage, 1>{{{"UPDATE saved.meta SET value='4' WHERE key='recording_mesh_pp';"
                                         "UPDATE saved.meta SET value='1' WHERE key='recording_mesh_dp';"
                                         "UPDATE saved.recorded_rank SET replica=0, stage=rowid-1",
                                         "no op of the last of the 4 stages"}}});
}

/// Loads damaged bytes: refused with the file's name, or accepted with the same shape.
void expect_safe(const TestDir& dir, const std::string& bytes, const std::vector<std::size_t>& intact) {
  try {
    EXPECT_EQ(shape(load_model(dir.file("damaged.prism", bytes))), intact);
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("damaged.prism: "));
  }
}

TEST(SavedModel, CutFileIsRefused) {
  const TestDir dir;
  save_model(recorded(), dir.path("job.prism"));
  const std::string whole = dir.content("job.prism");
  for (std::size_t i = 0; i < 64; ++i) {
    const std::string cut = whole.substr(0, whole.size() * i / 64);
    EXPECT_THAT(load_error(dir.file("cut.prism", cut)), HasSubstr("cut.prism: ")) << cut.size() << " bytes";
  }
}

TEST(SavedModel, FlippedBytesAreRefusedOrKeepTheShape) {
  const TestDir dir;
  const StepModel model = recorded();
  save_model(model, dir.path("job.prism"));
  const std::string whole = dir.content("job.prism");
  std::mt19937 random(20240607);
  for (int i = 0; i < 300; ++i) {
    const std::size_t at = random() % whole.size();
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ static_cast<char>(1 + random() % 255));
    SCOPED_TRACE("byte " + std::to_string(at) + " of " + std::to_string(whole.size()) + ", round " +
                 std::to_string(i));
    expect_safe(dir, damaged, shape(model));
  }
}

constexpr std::size_t kPageBytes = 4096;

void put_number(std::string& bytes, std::size_t at, std::size_t size, std::size_t value) {
  for (std::size_t i = size; i-- > 0; value >>= 8) bytes[at + i] = static_cast<char>(value & 0xff);
}

std::size_t number_at(const std::string& bytes, std::size_t at, std::size_t size) {
  std::size_t value = 0;
  for (std::size_t i = 0; i < size; ++i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

/// An inner page of a SQLite table with 500 children, all of them page `child`.
std::string inner_page(std::size_t child) {
  constexpr std::size_t kCells = 500;
  constexpr std::size_t kCellBytes = 5;  // child, row number
  std::string page(kPageBytes, '\0');
  page[0] = 5;
  put_number(page, 3, 2, kCells);
  put_number(page, 5, 2, kPageBytes - kCells * kCellBytes);
  put_number(page, 8, 4, child);
  for (std::size_t i = 0; i < kCells; ++i) {
    const std::size_t cell = kPageBytes - (i + 1) * kCellBytes;
    put_number(page, 12 + 2 * i, 2, cell);
    put_number(page, cell, 4, child);
    page[cell + 4] = 1;
  }
  return page;
}

// A few kilobytes that SQLite reads as millions of rows.
TEST(SavedModel, PageThatStandsInManyPlacesIsRefused) {
  const TestDir dir;
  StepModel model = hand_made();
  model.inferences.assign(2000, {"posting edge", std::string(50, 'x')});
  save_model(model, dir.path("job.prism"));
  std::string bytes = dir.content("job.prism");
  std::size_t root = 0;
  {
    Database database = Database::open(dir.path("job.prism"));
    Statement row = database.prepare("SELECT rootpage FROM sqlite_schema WHERE name='inference'");
    ASSERT_TRUE(row.step());
    root = (static_cast<std::size_t>(row.column_int(0)) - 1) * kPageBytes;
  }
  ASSERT_EQ(bytes[root], 5) << "not an inner page";
  const auto child = [&](std::size_t i) {
    return number_at(bytes, root + number_at(bytes, root + 12 + 2 * i, 2), 4);
  };
  const std::size_t middle = child(0);
  const std::size_t leaf = child(1);
  bytes.replace(root, kPageBytes, inner_page(middle));
  bytes.replace((middle - 1) * kPageBytes, kPageBytes, inner_page(leaf));
  EXPECT_THAT(load_error(dir.file("folded.prism", bytes)), HasSubstr("more than the file has room for"));
}

StepModel with_names(StepModel model) {
  model.source = "/nfs/acme/job7";
  model.digest = "acme-digest";
  model.nodes[NodeId(0)].name = "acme_attention";
  model.nodes[NodeId(1)].name = "launch of acme_attention";
  model.nodes[NodeId(2)].name = "gc acme";
  model.nodes[NodeId(3)].name = "forward-compute 1 of acme";
  model.pools.classes[ClassId(0)].key = "acme pool";
  model.pools.classes[ClassId(1)].key = "launch of acme pool";
  model.inferences.push_back({"acme kind", "acme_attention -> gc acme"});
  model.report.add(Severity::Info, "a doubt", "/nfs/acme/trace.csv:4");
  auto recording = std::make_shared<RecordedJob>(*model.recording);
  recording->source = "/nfs/acme/recording";
  recording->trial_name = "acme trial";
  recording->ranks = {7, 81, 40, 7};
  model.recording = std::move(recording);
  return model;
}

TEST(SavedModel, AnonymousFileHoldsNoName) {
  const TestDir dir;
  const StepModel model = with_names(recorded());
  save_model(model, dir.path("open.prism"));
  save_model(model, dir.path("job.prism"), {.anonymise = true});
  EXPECT_THAT(dir.content("open.prism"), HasSubstr("acme"));
  EXPECT_THAT(dir.content("job.prism"), Not(HasSubstr("acme")));
  EXPECT_THAT(dir.content("job.prism"), Not(HasSubstr("trace.csv")));

  const StepModel loaded = load_model(dir.path("job.prism"));
  EXPECT_EQ(loaded.source, "anonymised");
  EXPECT_EQ(loaded.digest, "");
  EXPECT_EQ(name_of(loaded, 0), "op 1");
  EXPECT_EQ(name_of(loaded, 1), "launch of op 1");
  EXPECT_EQ(name_of(loaded, 2), "op 2");
  EXPECT_EQ(name_of(loaded, 3), "op 3");
  EXPECT_EQ(loaded.pools.classes[ClassId(0)].key, "pool 1");
  EXPECT_EQ(loaded.pools.classes[ClassId(1)].key, "launch of pool 1");
  EXPECT_EQ(loaded.inferences.back(), (Inference{"inference", "op 1 -> op 2"}));
  EXPECT_EQ(loaded.recording->source, "anonymised");
  EXPECT_EQ(loaded.recording->trial_name, "");
  EXPECT_EQ(loaded.recording->ranks, (std::vector<int>{0, 2, 1, 0}));
  ASSERT_EQ(loaded.report.entries().size(), model.report.entries().size());
  EXPECT_TRUE(loaded.report.entries().back().places.empty());
  EXPECT_EQ(loaded.report.entries().back().reason, "a doubt");
}

TEST(SavedModel, AnonymousFileKeepsOpTypesTimesAndIds) {
  const TestDir dir;
  StepModel model = recorded();
  save_model(model, dir.path("job.prism"), {.anonymise = true});
  const StepModel loaded = load_model(dir.path("job.prism"));
  EXPECT_EQ(loaded.nodes, model.nodes);
  EXPECT_EQ(loaded.pools, model.pools);
  EXPECT_EQ(loaded.graph, model.graph);
  EXPECT_EQ(loaded.inferences, model.inferences);
  EXPECT_EQ(loaded.steps, model.steps);
  EXPECT_EQ(loaded.observed_ns, model.observed_ns);
  EXPECT_EQ(loaded.recording->start_ns, model.recording->start_ns);
}

}  // namespace
}  // namespace prism
