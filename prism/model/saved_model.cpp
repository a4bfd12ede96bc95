// SPDX-License-Identifier: Apache-2.0
#include "prism/model/saved_model.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "prism/io/atomic_file.hpp"
#include "prism/io/csv.hpp"
#include "prism/io/sqlite.hpp"
#include "prism/trace/error.hpp"

namespace prism {

namespace {

constexpr std::int64_t kApplicationId = 0x5052534D;  // "PRSM"
constexpr std::int64_t kVersion = 1;

struct Table {
  const char* name;
  const char* columns;
};

constexpr std::array<Table, 11> kTables = {
    {{"meta", "key TEXT PRIMARY KEY, value TEXT"},
     {"node",
      "id INTEGER PRIMARY KEY, kind TEXT, name TEXT, rank INTEGER, stage INTEGER, microbatch INTEGER, "
      "stable_id INTEGER, draw_id INTEGER, draw_group_size INTEGER, draw_group_stride INTEGER, "
      "class INTEGER, member INTEGER, replica_group_size INTEGER, replica_group_stride INTEGER"},
     {"edge", "before INTEGER, after INTEGER"},
     {"duration_class",
      "id INTEGER PRIMARY KEY, key TEXT, category TEXT, rank INTEGER, members INTEGER, size INTEGER, "
      "per_replica INTEGER, exchangeable INTEGER, offset INTEGER"},
     {"step", "number INTEGER, observed_ns REAL"},
     {"inference", "kind TEXT, what TEXT"},
     {"report", "severity TEXT, reason TEXT, count INTEGER, places TEXT"},
     {"array", "name TEXT, part INTEGER, data BLOB, PRIMARY KEY(name, part)"},
     {"recorded_op",
      "id INTEGER PRIMARY KEY, type TEXT, stage INTEGER, seq INTEGER, chunk INTEGER, microbatch INTEGER"},
     {"recorded_step", "number INTEGER"},
     {"recorded_rank", "replica INTEGER, stage INTEGER, rank INTEGER"}}};

constexpr std::size_t kValuesPerPart = std::size_t{1} << 20;
constexpr std::size_t kValueBytes = 8;

// Largest of what a file may claim; far above any job, far below what would overflow.
constexpr std::int64_t kMaxIndex = 1 << 24;  // ranks, replicas, stages, sizes: as the readers of traces
constexpr std::int64_t kMaxCount = std::numeric_limits<std::int32_t>::max();
constexpr double kMaxNs = 1e18;         // 30 years
constexpr double kMaxReportWork = 1e9;  // a report is rebuilt record by record

constexpr std::size_t kNodeKindCount = 3;

std::string_view node_kind_name(NodeKind kind) {
  constexpr std::array<std::string_view, kNodeKindCount> kNames = {"op", "delay", "join"};
  return kNames[static_cast<std::size_t>(kind)];
}

// ---- Anonymous copies

/// Whether a text is one that prism itself makes of an op: an op type name, then numbers and words such as
/// "of stage".
bool is_about_op_types(std::string_view text) {
  constexpr std::array<std::string_view, 5> kWords = {"of", "stage", "chunk", "replica", "->"};
  bool first = true;
  while (true) {
    const std::string_view word = text.substr(0, text.find(' '));
    const bool number = !word.empty() && word.find_first_not_of("0123456789") == std::string_view::npos;
    const bool known = op_type_from_name(word).has_value();
    if (!known && (first || (!number && std::ranges::find(kWords, word) == kWords.end()))) return false;
    if (word.size() == text.size()) return true;
    text.remove_prefix(word.size() + 1);
    first = false;
  }
}

/// Gives equal texts equal new names.
class Renamer {
 public:
  explicit Renamer(std::string noun) : noun_(std::move(noun)) {}

  std::string operator()(std::string_view text) {
    std::string prefix;
    for (const std::string_view known : {"launch of ", "join of "}) {
      if (!text.starts_with(known)) continue;
      prefix += known;
      text.remove_prefix(known.size());
    }
    if (is_about_op_types(text)) return prefix.append(text);
    const auto place = names_.try_emplace(std::string(text), names_.size() + 1).first;
    return prefix + noun_ + " " + std::to_string(place->second);
  }

 private:
  std::string noun_;
  std::unordered_map<std::string, std::size_t> names_;
};

/// "A -> B" is about two ops.
std::string renamed_inference(std::string_view what, Renamer& op_name) {
  constexpr std::string_view kArrow = " -> ";
  const std::size_t arrow = what.find(kArrow);
  if (arrow == std::string_view::npos) return op_name(what);
  return op_name(what.substr(0, arrow)) + std::string(kArrow) + op_name(what.substr(arrow + kArrow.size()));
}

void anonymise_inferences(std::vector<Inference>& inferences, Renamer& op_name) {
  constexpr std::array<std::string_view, 3> kKinds = {"posting edge", "barrier over replicas",
                                                      "wait for all stages"};
  for (Inference& inference : inferences) {
    if (std::ranges::find(kKinds, inference.kind) == kKinds.end()) inference.kind = "inference";
    inference.what = renamed_inference(inference.what, op_name);
  }
}

void renumber_ranks(std::vector<int>& ranks) {
  const std::set<int> used(ranks.begin(), ranks.end());
  std::map<int, int> number;
  int next = 0;
  for (const int rank : used) number[rank] = rank < 0 ? rank : next++;
  for (int& rank : ranks) rank = number[rank];
}

/// All but the report, whose places are left out when it is written.
StepModel anonymous_copy(StepModel model) {
  constexpr const char* kSource = "anonymised";
  model.source = kSource;
  model.digest.clear();
  Renamer op_name("op");
  for (Node& node : model.nodes) node.name = op_name(node.name);
  Renamer pool_name("pool");
  for (DurationClass& c : model.pools.classes) c.key = pool_name(c.key);
  anonymise_inferences(model.inferences, op_name);
  if (model.recording != nullptr) {
    auto recording = std::make_shared<RecordedJob>(*model.recording);
    recording->source = kSource;
    recording->trial_name.clear();
    renumber_ranks(recording->ranks);
    model.recording = std::move(recording);
  }
  return model;
}

// ---- Writing

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
  Writer(Database& database, const SaveOptions& options) : database_(database), options_(options) {}

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
    number("replicas", model.replicas);
    number("template_ranks", model.template_ranks);
    mesh("", model.mesh);
    number("nodes", model.nodes.size());
    number("edges", model.graph.edge_count());
    number("duration_classes", model.pools.classes.size());
    number("pool_values", model.pools.values_ns.size());
    number("steps", model.steps.size());
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
    Inserter nodes(database_, "node", 14);
    for (std::size_t i = 0; i < model.nodes.size(); ++i) {
      const Node& node = model.nodes[NodeId(i)];
      const ReplicaGroup group = model.graph.replica_group(NodeId(i));
      nodes.add(i, node_kind_name(node.kind), node.name, node.rank, node.stage, node.microbatch, node.id,
                node.draw_id, node.draw_group.size, node.draw_group.stride, node.duration_class.value,
                node.member, group.size, group.stride);
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
    Inserter steps(database_, "step", 2);
    for (std::size_t k = 0; k < model.steps.size(); ++k) steps.add(model.steps[k], model.observed_ns[k]);
    Inserter inferences(database_, "inference", 2);
    for (const Inference& inference : model.inferences) inferences.add(inference.kind, inference.what);
    write_array("clock_offsets_ns", model.clock_offsets_ns);
  }

  void write_report(const ImportReport& report) {
    Inserter rows(database_, "report", 4);
    for (const ImportEntry& entry : report.entries()) {
      rows.add(severity_name(entry.severity), entry.reason, entry.count,
               options_.anonymise ? std::string() : join_places(entry.places));
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
  const SaveOptions& options_;
};

void write_file(const StepModel& model, const std::filesystem::path& path, const SaveOptions& options) {
  AtomicFile file(path);
  {
    Database database = Database::create(file.temporary());
    Transaction transaction(database);
    Writer(database, options).write(model);
    transaction.commit();
  }
  file.commit();
}

// ---- Reading

/// The file and how much of it may still be read. In a damaged file one page can stand in many places, so
/// that a few kilobytes would read as endless rows; an intact file never yields more bytes than it has.
class SavedFile {
 public:
  explicit SavedFile(const std::filesystem::path& path)
      : database_(Database::open(path)), bytes_left_(std::filesystem::file_size(path)) {}

  Database& database() { return database_; }

  [[noreturn]] void fail(const std::string& problem,
                         const std::string& fix =
                             "copy the file again, or make it again with 'prism model "
                             "save'; it is damaged or was changed") const {
    throw InputError({database_.file(), {}, {}}, problem, fix);
  }

  void spend(std::size_t bytes) {
    if (bytes > bytes_left_) fail("its tables hold more than the file has room for");
    bytes_left_ -= bytes;
  }

 private:
  Database database_;
  std::uintmax_t bytes_left_;
};

/// The rows of a table as stored. Columns are read from left to right, each once, with their type and range
/// checked.
class Rows {
 public:
  Rows(SavedFile& file, const std::string& table, std::vector<std::string> columns)
      : file_(file),
        table_(table),
        columns_(std::move(columns)),
        statement_(file.database().prepare(query(table, columns_))) {}

  bool next() {
    if (!statement_.step()) return false;
    file_.spend(1);
    ++count_;
    column_ = -1;
    return true;
  }

  /// Rows so far.
  [[nodiscard]] std::size_t count() const { return count_; }

  template <std::integral Int>
  Int integer(Int low = std::numeric_limits<Int>::min(), Int high = std::numeric_limits<Int>::max()) {
    expect(SqlType::Integer, "whole number");
    const std::int64_t value = statement_.column_int(column_);
    if (std::cmp_less(value, low) || std::cmp_greater(value, high)) {
      fail("is " + std::to_string(value) + ", expected " + std::to_string(low) + " to " +
           std::to_string(high));
    }
    return static_cast<Int>(value);
  }

  /// All 64 bits, without sign.
  std::uint64_t bits() { return static_cast<std::uint64_t>(integer<std::int64_t>()); }

  bool flag() { return integer<int>(0, 1) == 1; }

  /// The column that counts the rows from 0.
  void row_number() {
    const auto expected = static_cast<std::int64_t>(count_ - 1);
    integer(expected, expected);
  }

  double time_ns(double low) {
    expect(SqlType::Real, "number");
    const double value = statement_.column_double(column_);
    if (!(value >= low && value <= kMaxNs)) fail("is not a time");
    return value;
  }

  std::string text() {
    expect(SqlType::Text, "text");
    std::string value = statement_.column_text(column_);
    file_.spend(value.size());
    return value;
  }

  std::string blob() {
    expect(SqlType::Blob, "blob");
    std::string value = statement_.column_blob(column_);
    file_.spend(value.size());
    return value;
  }

  /// One of the first `count` values of an enumeration, by its name.
  template <class Enum>
  Enum named(std::size_t count, std::string_view (*name_of)(Enum)) {
    const std::string name = text();
    for (std::size_t i = 0; i < count; ++i) {
      if (name_of(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
    }
    fail("is unknown: '" + name.substr(0, 40) + "'");
  }

  ReplicaGroup group(std::uint32_t replicas) {
    const ReplicaGroup group{integer<std::uint32_t>(1), integer<std::uint32_t>(1)};
    if (replicas % (std::uint64_t{group.size} * group.stride) != 0) {
      fail("makes a group of " + std::to_string(group.size) + " replicas, " + std::to_string(group.stride) +
           " apart, which does not divide the " + std::to_string(replicas) + " replicas");
    }
    return group;
  }

  /// `problem` goes on from the name of the column read last.
  [[noreturn]] void fail(const std::string& problem) const {
    file_.fail("table " + table_ + ", row " + std::to_string(count_) + ": " +
               columns_[static_cast<std::size_t>(column_)] + " " + problem);
  }

 private:
  static std::string query(const std::string& table, const std::vector<std::string>& columns) {
    std::string text;
    for (const std::string& column : columns) text += (text.empty() ? "SELECT " : ", ") + column;
    return text + " FROM " + table;
  }

  void expect(SqlType type, const char* name) {
    ++column_;
    const SqlType found = statement_.column_type(column_);
    const bool fits = found == type || (type == SqlType::Real && found == SqlType::Integer);
    if (!fits) fail(std::string("is not a ") + name);
  }

  SavedFile& file_;
  std::string table_;
  std::vector<std::string> columns_;
  Statement statement_;
  std::size_t count_ = 0;
  int column_ = -1;
};

void check_format(SavedFile& file) {
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
  if (version != kVersion) file.fail("format " + std::to_string(version) + " does not exist");
}

/// Real tables with stored columns only: others may compute without end.
void check_tables(SavedFile& file) {
  Statement found = file.database().prepare(
      "SELECT count(*) FROM sqlite_schema WHERE type='table' AND name=?1 AND rootpage>0");
  Statement computed = file.database().prepare("SELECT count(*) FROM pragma_table_xinfo(?1) WHERE hidden<>0");
  for (const Table& table : kTables) {
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
  explicit Meta(SavedFile& file) : file_(file) {
    Rows rows(file, "meta", {"key", "value"});
    while (rows.next()) {
      std::string key = rows.text();
      std::string value = rows.text();
      if (!values_.try_emplace(std::move(key), std::move(value)).second)
        rows.fail("has a key that is there already");
    }
  }

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
      if (!(std::abs(values.back()) <= kMaxNs))
        rows.fail("of '" + name.substr(0, 40) + "' holds a value that is no time");
    }
  }
  return arrays;
}

void read_steps(SavedFile& file, const Meta& meta, StepModel& model) {
  Rows rows(file, "step", {"number", "observed_ns"});
  while (rows.next()) {
    model.steps.push_back(rows.integer<int>());
    model.observed_ns.push_back(rows.time_ns(0));
  }
  meta.expect_count("steps", rows.count());
}

/// A class that does not fit the steps or the values would be read outside its pool.
void check_class(const Rows& rows, const DurationClass& c, const StepModel& model) {
  const std::uint64_t copies = c.per_replica ? model.replicas : 1;
  const std::uint64_t values = model.pools.values_ns.size();
  if (c.size % c.members != 0) rows.fail("is wrong: size is not a multiple of members");
  if (!model.steps.empty() && c.size / c.members != model.steps.size()) {
    rows.fail("is wrong: size is not members times the " + std::to_string(model.steps.size()) + " steps");
  }
  if (!model.steps.empty() && copies != model.replicas && c.category == Category::Compute) {
    rows.fail("is wrong: the pools of profiled compute ops are per replica");
  }
  if (c.offset > values || copies * c.size > values - c.offset || copies * c.size > kMaxCount) {
    rows.fail("is wrong: the pool ends outside of pool_values_ns");
  }
}

void read_classes(SavedFile& file, const Meta& meta, StepModel& model) {
  meta.expect_count("pool_values", model.pools.values_ns.size());
  Rows rows(file, "duration_class",
            {"id", "key", "category", "rank", "members", "size", "per_replica", "exchangeable", "offset"});
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
    check_class(rows, c, model);
    model.pools.classes.push_back(std::move(c));
  }
  meta.expect_count("duration_classes", rows.count());
}

Node read_node(Rows& rows, const StepModel& model) {
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
  Rows rows(file, "node",
            {"id", "kind", "name", "rank", "stage", "microbatch", "stable_id", "draw_id", "draw_group_size",
             "draw_group_stride", "class", "member", "replica_group_size", "replica_group_stride"});
  while (rows.next()) {
    rows.row_number();
    model.nodes.push_back(read_node(rows, model));
    builder.add_node(rows.group(model.replicas));
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
  double work = 0;  // each record is looked up by its reason among the entries before it
  while (rows.next()) {
    const Severity severity = rows.named(3, severity_name);
    const std::string reason = rows.text();
    const auto count = rows.integer<std::size_t>(1);
    work += static_cast<double>(count) *
            (static_cast<double>(rows.count()) + static_cast<double>(reason.size()) / 64);
    if (work > kMaxReportWork) rows.fail("is too large");
    const std::vector<std::string> places = split_places(rows.text());
    if (places.size() > std::min(count, ImportReport::kMaxPlaces))
      rows.fail("are more than the records they stand for");
    if (std::ranges::find(places, "") != places.end()) rows.fail("hold an empty line");
    for (std::size_t i = 0; i < count; ++i) report.add(severity, reason, i < places.size() ? places[i] : "");
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
  const bool fits = count == std::uint64_t{model.replicas} * model.template_ranks &&
                    (model.recording == nullptr || count == model.recording->ranks.size());
  if (!fits) file.fail("array clock_offsets_ns does not hold one value per rank");
}

}  // namespace

void save_model(const StepModel& model, const std::filesystem::path& path, const SaveOptions& options) {
  if (options.anonymise) {
    write_file(anonymous_copy(model), path, options);
  } else {
    write_file(model, path, options);
  }
}

StepModel load_model(const std::filesystem::path& path) {
  SavedFile file(path);
  check_format(file);
  check_tables(file);
  const Meta meta(file);
  Arrays arrays = read_arrays(file);
  StepModel model;
  model.source = meta.text("source");
  model.digest = meta.text("digest");
  model.mesh = meta.mesh("");
  model.replicas = static_cast<std::uint32_t>(meta.integer("replicas", 1, kMaxIndex));
  model.template_ranks = static_cast<std::uint32_t>(meta.integer("template_ranks", 1, kMaxIndex));
  model.pools.values_ns = std::move(arrays["pool_values_ns"]);
  model.clock_offsets_ns = std::move(arrays["clock_offsets_ns"]);
  read_steps(file, meta, model);
  read_classes(file, meta, model);
  read_graph(file, meta, model);
  read_inferences(file, meta, model);
  read_report(file, meta, model.report);
  model.recording = read_recording(file, meta, arrays);
  check_clock_offsets(file, meta, model);
  return model;
}

}  // namespace prism
