// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <concepts>

#include "prism/io/atomic_file.hpp"
#include "prism/io/csv.hpp"
#include "prism/io/sqlite.hpp"
#include "prism/model/anonymise.hpp"
#include "prism/model/saved_model.hpp"
#include "prism/model/saved_model_schema.hpp"

namespace prism {

namespace {

using namespace saved_model;

template <std::integral Int>
void bind_value(Statement& statement, int index, Int value) {
  statement.bind_int(index, static_cast<std::int64_t>(value));
}
void bind_value(Statement& statement, int index, double value) {
  statement.bind_double(index, value);
}
void bind_value(Statement& statement, int index, std::string_view value) {
  statement.bind_text(index, value);
}

/// Appends rows to one table.
class Inserter {
 public:
  Inserter(Database& database, const std::string& table, int columns)
      : statement_(database.prepare("INSERT INTO " + table + " VALUES(" + marks(columns) + ")")) {}

  template <class... Values>
  void add(const Values&... values) {
    int index = 0;
    (bind_value(statement_, ++index, values), ...);
    run();
  }

  void add_part(std::string_view name, std::size_t part, std::string_view bytes) {
    bind_value(statement_, 1, name);
    bind_value(statement_, 2, part);
    statement_.bind_blob(3, bytes);
    run();
  }

 private:
  static std::string marks(int columns) {
    std::string text = "?1";
    for (int i = 2; i <= columns; ++i) text += ",?" + std::to_string(i);
    return text;
  }

  void run() {
    statement_.step();
    statement_.reset();
  }

  Statement statement_;
};

std::string little_endian(std::span<const double> values) {
  std::string bytes;
  bytes.reserve(values.size() * kValueBytes);
  for (const double value : values) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    for (std::size_t i = 0; i < kValueBytes; ++i) bytes += static_cast<char>(bits >> (8 * i) & 0xff);
  }
  return bytes;
}

/// Places as one text, one a line.
std::string join_places(const std::vector<std::string>& places) {
  std::string text;
  for (const std::string& place : places) {
    if (!text.empty()) text += '\n';
    for (const char letter : place) {
      if (letter == '\n') {
        text += "\\n";
      } else {
        text += letter == '\\' ? "\\\\" : std::string(1, letter);
      }
    }
  }
  return text;
}

class Writer {
 public:
  explicit Writer(Database& database) : database_(database) {}

  void write(const StepModel& model) {
    database_.exec("PRAGMA application_id=" + std::to_string(kApplicationId) +
                   "; PRAGMA user_version=" + std::to_string(kVersion));
    for (const Table& table : kTables) {
      database_.exec("CREATE TABLE " + std::string(table.name) + "(" + table.columns + ")");
    }
    write_meta(model);
    write_nodes(model);
    write_pools(model);
    write_steps(model);
    write_report(model.report);
    if (model.recording != nullptr) write_recording(*model.recording);
  }

 private:
  void write_meta(const StepModel& model) {
    Inserter rows(database_, "meta", 2);
    const auto number = [&](const std::string& key, auto value) { rows.add(key, std::to_string(value)); };
    const auto mesh = [&](const std::string& prefix, const Mesh& sizes) {
      for (const Axis axis : Mesh{}.order) {
        number(prefix + "mesh_" + std::string(axis_name(axis)), sizes.size(axis));
      }
      rows.add(prefix + "mesh_order", sizes.order_text());
    };
    rows.add("source", model.source);
    rows.add("digest", model.digest);
    rows.add("launch_delays", launch_delays_name(model.delays));
    number("replicas", model.replicas);
    number("traced_replicas", model.traced_replicas);
    number("template_ranks", model.template_ranks);
    number("cells", model.cells);
    number("world_ranks", model.world_ranks);
    rows.add("lead_ns", csv_number(model.lead_ns));
    mesh("", model.mesh);
    number("nodes", model.nodes.size());
    number("edges", model.graph.edge_count());
    number("duration_classes", model.pools.classes.size());
    number("pool_values", model.pools.values_ns.size());
    number("steps", model.steps.size());
    number("step_kinds", model.step_kinds.size());
    number("activities", model.activity.size());
    number("rank_factors", model.rank_factors.size());
    number("node_starts", model.recorded_start_ns.size());
    number("inferences", model.inferences.size());
    number("report_entries", model.report.entries().size());
    number("clock_offsets", model.clock_offsets_ns.size());
    rows.add("recording", model.recording != nullptr ? "yes" : "no");
    if (model.recording == nullptr) return;
    rows.add("recording_source", model.recording->source);
    rows.add("recording_trial_name", model.recording->trial_name);
    mesh("recording_", model.recording->mesh);
    number("recorded_ops", model.recording->ops.size());
    number("recorded_steps", model.recording->steps.size());
  }

  void write_nodes(const StepModel& model) {
    Inserter nodes(database_, "node", 18);
    for (std::size_t i = 0; i < model.nodes.size(); ++i) {
      const Node& node = model.nodes[NodeId(i)];
      const ReplicaGroup group = model.graph.replica_group(NodeId(i));
      nodes.add(i, node_kind_name(node.kind), node.name, node.rank, node.stage, node.microbatch, node.id,
                node.draw_id, node.draw_group.size, node.draw_group.stride, node.duration_class.value,
                node.member, phase_name(node.phase), node.cell, node.over_replicas, node.lane, group.size,
                group.stride);
    }
    Inserter edges(database_, "edge", 2);
    for (std::size_t i = 0; i < model.nodes.size(); ++i) {
      for (const NodeId before : model.graph.predecessors(NodeId(i))) edges.add(before.value, i);
    }
  }

  void write_pools(const StepModel& model) {
    Inserter classes(database_, "duration_class", 9);
    for (std::size_t i = 0; i < model.pools.classes.size(); ++i) {
      const DurationClass& c = model.pools.classes[ClassId(i)];
      classes.add(i, c.key, category_name(c.category), c.rank, c.members, c.size, c.per_replica,
                  c.exchangeable, c.offset);
    }
    write_array("pool_values_ns", model.pools.values_ns);
  }

  void write_steps(const StepModel& model) {
    Inserter steps(database_, "step", 3);
    for (std::size_t k = 0; k < model.steps.size(); ++k) {
      steps.add(model.steps[k], model.observed_ns[k], model.step_kinds.empty() ? 0 : model.step_kinds[k]);
    }
    Inserter activity(database_, "activity", 5);
    for (const RankActivity& a : model.activity) {
      activity.add(a.rank, a.busy, a.communicating, a.waiting_host, a.waiting_ranks);
    }
    Inserter inferences(database_, "inference", 2);
    for (const Inference& inference : model.inferences) inferences.add(inference.kind, inference.what);
    write_array("clock_offsets_ns", model.clock_offsets_ns);
    write_array("rank_factors", model.rank_factors);
    write_array(kNodeStarts, model.recorded_start_ns);
  }

  void write_report(const ImportReport& report) {
    Inserter rows(database_, "report", 4);
    for (const ImportEntry& entry : report.entries()) {
      rows.add(severity_name(entry.severity), entry.reason, entry.count, join_places(entry.places));
    }
  }

  void write_recording(const RecordedJob& job) {
    Inserter ops(database_, "recorded_op", 6);
    for (std::size_t i = 0; i < job.ops.size(); ++i) {
      const TemplateOp& op = job.ops[OpId(i)];
      ops.add(i, op_type_name(op.type), op.stage, op.seq, op.chunk, op.microbatch);
    }
    Inserter steps(database_, "recorded_step", 1);
    for (const int step : job.steps) steps.add(step);
    Inserter ranks(database_, "recorded_rank", 3);
    const auto stages = static_cast<std::size_t>(job.stages());
    for (std::size_t i = 0; i < job.ranks.size(); ++i) ranks.add(i / stages, i % stages, job.ranks[i]);
    write_array("recorded_start_ns", job.start_ns);
    write_array("recorded_end_ns", job.end_ns);
  }

  void write_array(std::string_view name, std::span<const double> values) {
    Inserter parts(database_, "array", 3);
    for (std::size_t part = 0; !values.empty(); ++part) {
      const std::size_t count = std::min(values.size(), kValuesPerPart);
      parts.add_part(name, part, little_endian(values.first(count)));
      values = values.subspan(count);
    }
  }

  Database& database_;
};

void write_file(const StepModel& model, const std::filesystem::path& path) {
  AtomicFile file(path);
  {
    Database database = Database::create(file.temporary());
    Transaction transaction(database);
    Writer(database).write(model);
    transaction.commit();
  }
  file.commit();
}

}  // namespace

void save_model(const StepModel& model, const std::filesystem::path& path, const SaveOptions& options) {
  refuse_composed(model, "keep the plan: it is all that is needed to build the model again");
  write_file(options.anonymise ? anonymous_copy(model) : model, path);
}

}  // namespace prism
