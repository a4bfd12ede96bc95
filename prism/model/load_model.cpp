// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "prism/io/csv.hpp"
#include "prism/model/saved_model.hpp"
#include "prism/model/saved_model_schema.hpp"
#include "prism/model/saved_rows.hpp"

namespace prism {

namespace {

using namespace saved_model;

/// The version of the format.
std::int64_t check_format(SavedFile& file) {
  const auto pragma = [&](const char* name) {
    Statement row = file.database().prepare(std::string("PRAGMA ") + name);
    return row.step() ? row.column_int(0) : 0;
  };
  if (pragma("application_id") != kApplicationId) {
    file.fail("is a SQLite database, but not a saved model", "'prism model save INPUT -o FILE' makes one");
  }
  const std::int64_t version = pragma("user_version");
  if (version > kVersion) {
    file.fail("was made by a newer prism (format " + std::to_string(version) + ", this one reads " +
                  std::to_string(kVersion) + ")",
              "use the newer prism, or save the model again with this one");
  }
  if (version < kFirstVersion) file.fail("format " + std::to_string(version) + " does not exist");
  return version;
}

/// Real tables with stored columns only: others may compute without end.
void check_tables(SavedFile& file, std::int64_t version) {
  Statement found = file.database().prepare(
      "SELECT count(*) FROM sqlite_schema WHERE type='table' AND name=?1 AND rootpage>0");
  Statement computed = file.database().prepare("SELECT count(*) FROM pragma_table_xinfo(?1) WHERE hidden<>0");
  for (const Table& table : kTables) {
    if (table.since > version) continue;
    const auto count = [&](Statement& statement) {
      statement.bind_text(1, table.name);
      const std::int64_t value = statement.step() ? statement.column_int(0) : 0;
      statement.reset();
      return value;
    };
    if (count(found) != 1) file.fail("has no table " + std::string(table.name));
    if (count(computed) != 0) file.fail("table " + std::string(table.name) + " has computed columns");
  }
}

class Meta {
 public:
  Meta(SavedFile& file, std::int64_t version) : file_(file), version_(version) {
    Rows rows(file, "meta", {"key", "value"});
    while (rows.next()) {
      std::string key = rows.text();
      std::string value = rows.text();
      if (!values_.try_emplace(std::move(key), std::move(value)).second)
        rows.fail("has a key that is there already");
    }
  }

  /// Whether the file has what version 2 added.
  [[nodiscard]] bool has_cells() const { return version_ >= 2; }

  [[nodiscard]] const std::string& text(const std::string& key) const {
    const auto found = values_.find(key);
    if (found == values_.end()) file_.fail("table meta has no key '" + key + "'");
    return found->second;
  }

  [[nodiscard]] std::int64_t integer(const std::string& key, std::int64_t low, std::int64_t high) const {
    const auto value = parse_int(text(key));
    if (!value || *value < low || *value > high) {
      file_.fail("table meta: " + key + " is '" + text(key).substr(0, 40) + "', expected " +
                 std::to_string(low) + " to " + std::to_string(high));
    }
    return *value;
  }

  /// Fails unless `count` is what the file says.
  void expect_count(const std::string& key, std::size_t count) const {
    const std::int64_t said = integer(key, 0, std::numeric_limits<std::int64_t>::max());
    if (std::cmp_not_equal(said, count)) {
      file_.fail("has " + std::to_string(count) + " " + key + ", expected " + std::to_string(said));
    }
  }

  [[nodiscard]] Mesh mesh(const std::string& prefix) const {
    Mesh mesh;
    std::int64_t ranks = 1;
    for (const Axis axis : Mesh{}.order) {
      mesh.size(axis) =
          static_cast<int>(integer(prefix + "mesh_" + std::string(axis_name(axis)), 1, kMaxIndex));
      ranks *= mesh.size(axis);
      if (ranks > kMaxCount)
        file_.fail("table meta: the mesh has more than " + std::to_string(kMaxCount) + " ranks");
    }
    const auto order = Mesh::parse_order(text(prefix + "mesh_order"));
    if (!order) file_.fail("table meta: " + prefix + "mesh_order does not name each axis once");
    mesh.order = *order;
    return mesh;
  }

 private:
  SavedFile& file_;
  std::int64_t version_;
  std::map<std::string, std::string> values_;
};

using Arrays = std::map<std::string, std::vector<double>>;

double value_at(std::string_view bytes) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < kValueBytes; ++i) {
    bits |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return std::bit_cast<double>(bits);
}

Arrays read_arrays(SavedFile& file) {
  Arrays arrays;
  std::map<std::string, std::int64_t> parts;
  Rows rows(file, "array", {"name", "part", "data"});
  while (rows.next()) {
    const std::string name = rows.text();
    std::int64_t& part = parts[name];
    rows.integer(part, part);
    ++part;
    const std::string bytes = rows.blob();
    if (bytes.size() % kValueBytes != 0) rows.fail("is not a whole number of 8-byte values");
    std::vector<double>& values = arrays[name];
    for (std::string_view left = bytes; !left.empty(); left.remove_prefix(kValueBytes)) {
      values.push_back(value_at(left));
      const bool did_not_run = name == kNodeStarts && std::isnan(values.back());
      if (!did_not_run && !(std::abs(values.back()) <= kMaxNs))
        rows.fail("of '" + name.substr(0, 40) + "' holds a value that is no time");
    }
  }
  return arrays;
}

LaunchDelays read_delays(const SavedFile& file, std::string_view name) {
  for (const LaunchDelays delays :
       {LaunchDelays::Clean, LaunchDelays::None, LaunchDelays::Raw, LaunchDelays::Off}) {
    if (launch_delays_name(delays) == name) return delays;
  }
  file.fail("meta launch_delays is unknown: '" + std::string(name.substr(0, 40)) + "'");
}

/// What says how large the model is, and what version 2 added to it.
void read_sizes(const SavedFile& file, const Meta& meta, StepModel& model) {
  model.replicas = static_cast<std::uint32_t>(meta.integer("replicas", 1, kMaxIndex));
  model.template_ranks = static_cast<std::uint32_t>(meta.integer("template_ranks", 1, kMaxIndex));
  if (!meta.has_cells()) return;
  model.traced_replicas = static_cast<std::uint32_t>(meta.integer("traced_replicas", 0, kMaxIndex));
  model.cells = static_cast<std::uint32_t>(meta.integer("cells", 1, model.template_ranks));
  model.world_ranks = static_cast<std::uint32_t>(meta.integer("world_ranks", 0, kMaxCount));
  const auto lead = parse_double(meta.text("lead_ns"));
  if (!lead || !(std::abs(*lead) <= kMaxNs)) file.fail("table meta: lead_ns is not a time");
  model.lead_ns = *lead;
}

void read_steps(SavedFile& file, const Meta& meta, StepModel& model) {
  std::vector<std::string> columns = {"number", "observed_ns"};
  if (meta.has_cells()) columns.emplace_back("kind");
  Rows rows(file, "step", columns);
  std::vector<int> kinds;
  while (rows.next()) {
    model.steps.push_back(rows.integer<int>());
    model.observed_ns.push_back(rows.time_ns(0));
    if (meta.has_cells()) kinds.push_back(rows.integer<int>());
  }
  meta.expect_count("steps", rows.count());
  if (!meta.has_cells()) return;
  if (meta.integer("step_kinds", 0, kMaxCount) != 0) {
    meta.expect_count("step_kinds", kinds.size());
    model.step_kinds = std::move(kinds);
  } else if (std::ranges::any_of(kinds, [](int kind) { return kind != 0; })) {
    file.fail("table step: a kind is given, but table meta says that there are none");
  }
}

void read_activity(SavedFile& file, const Meta& meta, StepModel& model) {
  if (!meta.has_cells()) return;
  Rows rows(file, "activity", {"rank", "busy", "communicating", "waiting_host", "waiting_ranks"});
  while (rows.next()) {
    model.activity.push_back({.rank = rows.integer<std::int32_t>(0),
                              .busy = rows.share(),
                              .communicating = rows.share(),
                              .waiting_host = rows.share(),
                              .waiting_ranks = rows.share()});
  }
  meta.expect_count("activities", rows.count());
}

/// Precondition: replicas, steps and nodes are read.
void read_rank_factors_and_starts(SavedFile& file, const Meta& meta, Arrays& arrays, StepModel& model) {
  if (!meta.has_cells()) return;
  model.rank_factors = std::move(arrays["rank_factors"]);
  meta.expect_count("rank_factors", model.rank_factors.size());
  const std::uint64_t ranks = std::uint64_t{model.replicas} * model.template_ranks;
  if (!model.rank_factors.empty() && model.rank_factors.size() != ranks) {
    file.fail("array rank_factors does not hold one value per rank");
  }
  if (std::ranges::any_of(model.rank_factors, [](double factor) { return !(factor > 0); })) {
    file.fail("array rank_factors holds a value that is not above 0");
  }
  model.recorded_start_ns = std::move(arrays[std::string(kNodeStarts)]);
  const std::size_t count = model.recorded_start_ns.size();
  meta.expect_count("node_starts", count);
  const std::size_t cells = model.step_count() * model.pool_replicas();
  const bool fits = cells > 0 && count % cells == 0 && count / cells == model.nodes.size();
  if (count > 0 && !fits) {
    file.fail("array " + std::string(kNodeStarts) + " does not hold one value per node, step and replica");
  }
}

/// A class that does not fit the steps or the values would be read outside its pool.
void check_class(const Rows& rows, const DurationClass& c, const StepModel& model, std::size_t next_offset) {
  const std::uint64_t copies = c.per_replica ? model.pool_replicas() : 1;
  const std::uint64_t values = model.pools.values_ns.size();
  if (c.size % c.members != 0) rows.fail("is wrong: size is not a multiple of members");
  if (!model.steps.empty() && c.size / c.members != model.steps.size()) {
    rows.fail("is wrong: size is not members times the " + std::to_string(model.steps.size()) + " steps");
  }
  if (!model.steps.empty() && copies != model.pool_replicas() && c.category == Category::Compute) {
    rows.fail("is wrong: the pools of profiled compute ops are per replica");
  }
  if (copies * c.size > kMaxCount || c.offset > values || copies * c.size > values - c.offset) {
    rows.fail("is wrong: the pool ends outside of pool_values_ns");
  }
  if (c.offset != next_offset) rows.fail("is wrong: pools lie one after the other");
}

void read_classes(SavedFile& file, const Meta& meta, StepModel& model) {
  meta.expect_count("pool_values", model.pools.values_ns.size());
  Rows rows(file, "duration_class",
            {"id", "key", "category", "rank", "members", "size", "per_replica", "exchangeable", "offset"});
  std::size_t next_offset = 0;
  while (rows.next()) {
    rows.row_number();
    // Braces, unlike parentheses, read the columns in order.
    DurationClass c{
        .key = rows.text(),
        .category = rows.named(kCategoryCount, category_name),
        .rank = rows.integer<std::int32_t>(0, static_cast<std::int32_t>(model.template_ranks) - 1),
        .members = rows.integer<std::uint32_t>(1),
        .size = rows.integer<std::uint32_t>(1),
        .per_replica = rows.flag(),
        .exchangeable = rows.flag(),
        .offset = rows.integer<std::size_t>()};
    check_class(rows, c, model, next_offset);
    next_offset += std::size_t{c.size} * (c.per_replica ? model.pool_replicas() : 1);
    model.pools.classes.push_back(std::move(c));
  }
  meta.expect_count("duration_classes", rows.count());
  if (next_offset != model.pools.values_ns.size()) file.fail("pool_values_ns holds more than its pools");
}

Node read_node(Rows& rows, const Meta& meta, const StepModel& model) {
  Node node{.kind = rows.named(kNodeKindCount, node_kind_name),
            .name = rows.text(),
            .rank = rows.integer<std::int32_t>(0, static_cast<std::int32_t>(model.template_ranks) - 1),
            .stage = rows.integer<std::int32_t>(-1),
            .microbatch = rows.integer<std::int32_t>(-1),
            .id = rows.bits(),
            .draw_id = rows.bits(),
            .draw_group = rows.group(model.replicas),
            .duration_class = ClassId(rows.integer<std::uint32_t>())};
  const std::size_t classes = model.pools.classes.size();
  const bool draws = node.kind != NodeKind::Join;
  if (draws && node.duration_class.value >= classes) {
    rows.fail("is " + std::to_string(node.duration_class.value) + ", but there are " +
              std::to_string(classes));
  }
  node.member = rows.integer<std::uint32_t>();
  if (draws && node.member >= model.pools.classes[node.duration_class].members) {
    rows.fail("is " + std::to_string(node.member) + ", but the class has " +
              std::to_string(model.pools.classes[node.duration_class].members));
  }
  if (meta.has_cells()) {
    node.phase = rows.named(kPhaseCount, phase_name);
    node.cell = rows.integer<std::int32_t>(0, static_cast<std::int32_t>(model.cells) - 1);
    node.over_replicas = rows.flag();
    node.lane = rows.integer<std::int64_t>(-1);
  }
  return node;
}

void read_edges(SavedFile& file, const Meta& meta, std::size_t nodes, StepGraphBuilder& builder) {
  Rows rows(file, "edge", {"before", "after"});
  std::pair<std::uint32_t, std::uint32_t> last;  // (after, before)
  while (rows.next()) {
    const auto before = rows.integer<std::uint32_t>();
    const auto after = rows.integer<std::uint32_t>(0, static_cast<std::uint32_t>(nodes - 1));
    if (before >= after) rows.fail("is not larger than before: nodes are numbered in the order they can run");
    const std::pair edge(after, before);
    if (rows.count() > 1 && edge <= last) rows.fail("breaks the order by after, then before, each edge once");
    last = edge;
    builder.add_edge(before, after);
  }
  meta.expect_count("edges", rows.count());
}

void read_graph(SavedFile& file, const Meta& meta, StepModel& model) {
  StepGraphBuilder builder;
  std::vector<std::string> columns = {"id",
                                      "kind",
                                      "name",
                                      "rank",
                                      "stage",
                                      "microbatch",
                                      "stable_id",
                                      "draw_id",
                                      "draw_group_size",
                                      "draw_group_stride",
                                      "class",
                                      "member"};
  if (meta.has_cells()) columns.insert(columns.end(), {"phase", "cell", "over_replicas", "lane"});
  columns.insert(columns.end(), {"replica_group_size", "replica_group_stride"});
  Rows rows(file, "node", columns);
  while (rows.next()) {
    rows.row_number();
    Node node = read_node(rows, meta, model);
    const ReplicaGroup group = rows.group(model.replicas);
    if (!meta.has_cells()) node.over_replicas = group.spans() && group.size == model.replicas;
    model.nodes.push_back(std::move(node));
    builder.add_node(group);
  }
  meta.expect_count("nodes", rows.count());
  if (rows.count() == 0 || std::cmp_greater(rows.count(), kMaxCount))
    file.fail("table node: it is empty or too large");
  read_edges(file, meta, rows.count(), builder);
  StepGraphBuilder::Result built = builder.build(
      file.database().file(), [&](std::uint32_t node) { return model.nodes[NodeId(node)].name; });
  for (std::size_t i = 0; i < built.node_of.size(); ++i) {
    if (built.node_of[i] != NodeId(i)) file.fail("table node: the nodes are not in the order they can run");
  }
  model.graph = std::move(built.graph);
}

void read_inferences(SavedFile& file, const Meta& meta, StepModel& model) {
  Rows rows(file, "inference", {"kind", "what"});
  while (rows.next()) model.inferences.push_back({.kind = rows.text(), .what = rows.text()});
  meta.expect_count("inferences", rows.count());
}

std::vector<std::string> split_places(std::string_view text) {
  std::vector<std::string> places;
  if (text.empty()) return places;
  places.emplace_back();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') {
      places.emplace_back();
    } else if (text[i] == '\\' && i + 1 < text.size()) {
      ++i;
      places.back() += text[i] == 'n' ? '\n' : text[i];
    } else {
      places.back() += text[i];
    }
  }
  return places;
}

void read_report(SavedFile& file, const Meta& meta, ImportReport& report) {
  Rows rows(file, "report", {"severity", "reason", "count", "places"});
  while (rows.next()) {
    if (rows.count() > kMaxReportEntries) file.fail("table report has more reasons than prism knows");
    ImportEntry entry{.severity = rows.named(3, severity_name), .reason = rows.text()};
    entry.count = rows.integer<std::size_t>(1, kMaxRecords);
    entry.places = split_places(rows.text());
    if (entry.places.size() > std::min(entry.count, ImportReport::kMaxPlaces)) {
      rows.fail("are more than the records they stand for");
    }
    report.add(std::move(entry));
    if (report.entries().size() != rows.count()) rows.fail("belong to a reason that is there already");
  }
  meta.expect_count("report_entries", rows.count());
}

void read_recorded_ops(SavedFile& file, const Meta& meta, RecordedJob& job) {
  Rows rows(file, "recorded_op", {"id", "type", "stage", "seq", "chunk", "microbatch"});
  const auto place = [](const TemplateOp& op) { return std::tuple(op.stage, op.type, op.seq); };
  while (rows.next()) {
    rows.row_number();
    const TemplateOp op{.type = rows.named(kOpTypeCount, op_type_name),
                        .stage = rows.integer(0, job.stages() - 1),
                        .seq = rows.integer(0),
                        .chunk = rows.integer(-1),
                        .microbatch = rows.integer(-1)};
    if (!job.ops.empty() && place(op) <= place(job.ops[OpId(job.ops.size() - 1)])) {
      rows.fail("belongs to an op that breaks the order by stage, type, seq");
    }
    job.ops.push_back(op);
  }
  meta.expect_count("recorded_ops", rows.count());
  if (job.ops.empty() || job.ops[OpId(job.ops.size() - 1)].stage + 1 != job.stages()) {
    file.fail("table recorded_op: no op of the last of the " + std::to_string(job.stages()) + " stages");
  }
}

void read_recorded_steps(SavedFile& file, const Meta& meta, RecordedJob& job) {
  Rows rows(file, "recorded_step", {"number"});
  while (rows.next()) {
    const int step = rows.integer<int>();
    if (!job.steps.empty() && step <= job.steps.back()) rows.fail("is not larger than the one before");
    job.steps.push_back(step);
  }
  meta.expect_count("recorded_steps", rows.count());
  if (job.steps.empty()) file.fail("table recorded_step: it is empty");
}

void read_recorded_ranks(SavedFile& file, RecordedJob& job) {
  Rows rows(file, "recorded_rank", {"replica", "stage", "rank"});
  const auto stages = static_cast<std::size_t>(job.stages());
  while (rows.next()) {
    const std::size_t at = rows.count() - 1;
    rows.integer(at / stages, at / stages);
    rows.integer(at % stages, at % stages);
    job.ranks.push_back(rows.integer(-1, static_cast<int>(kMaxIndex)));
  }
  if (job.ranks.size() != job.replicas() * stages) {
    file.fail("table recorded_rank: " + std::to_string(job.ranks.size()) + " rows for " +
              std::to_string(job.replicas()) + " replicas of " + std::to_string(stages) + " stages");
  }
}

std::shared_ptr<const RecordedJob> read_recording(SavedFile& file, const Meta& meta, Arrays& arrays) {
  const std::string& present = meta.text("recording");
  if (present == "no") return nullptr;
  if (present != "yes")
    file.fail("table meta: recording is '" + present.substr(0, 40) + "', expected yes or no");
  auto job = std::make_shared<RecordedJob>();
  job->source = meta.text("recording_source");
  job->trial_name = meta.text("recording_trial_name");
  job->mesh = meta.mesh("recording_");
  read_recorded_ranks(file, *job);
  read_recorded_ops(file, meta, *job);
  read_recorded_steps(file, meta, *job);
  job->start_ns = std::move(arrays["recorded_start_ns"]);
  job->end_ns = std::move(arrays["recorded_end_ns"]);
  const std::size_t cells = job->step_count() * job->replicas();
  const bool fits = job->start_ns.size() / cells == job->ops.size() && job->start_ns.size() % cells == 0;
  if (!fits || job->end_ns.size() != job->start_ns.size()) {
    file.fail("arrays recorded_start_ns and recorded_end_ns do not hold one value per op, step and replica");
  }
  return job;
}

void check_clock_offsets(const SavedFile& file, const Meta& meta, const StepModel& model) {
  const std::size_t count = model.clock_offsets_ns.size();
  meta.expect_count("clock_offsets", count);
  if (count == 0) return;
  const bool fits =
      count == model.traced_ranks() && (model.recording == nullptr || count == model.recording->ranks.size());
  if (!fits) file.fail("array clock_offsets_ns does not hold one value per rank");
}

}  // namespace

StepModel load_model(const std::filesystem::path& path) {
  SavedFile file(path);
  const std::int64_t version = check_format(file);
  check_tables(file, version);
  const Meta meta(file, version);
  Arrays arrays = read_arrays(file);
  StepModel model;
  model.source = meta.text("source");
  model.digest = meta.text("digest");
  model.delays = read_delays(file, meta.text("launch_delays"));
  model.mesh = meta.mesh("");
  read_sizes(file, meta, model);
  model.pools.values_ns = std::move(arrays["pool_values_ns"]);
  model.clock_offsets_ns = std::move(arrays["clock_offsets_ns"]);
  read_steps(file, meta, model);
  read_classes(file, meta, model);
  read_graph(file, meta, model);
  read_activity(file, meta, model);
  read_rank_factors_and_starts(file, meta, arrays, model);
  read_inferences(file, meta, model);
  read_report(file, meta, model.report);
  model.recording = read_recording(file, meta, arrays);
  check_clock_offsets(file, meta, model);
  return model;
}

}  // namespace prism
