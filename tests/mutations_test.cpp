// SPDX-License-Identifier: Apache-2.0
// Bad inputs: each kind of damage that op-level timelines have in practice, done to a made-up job and to a
// recorded one.
//
// Whatever the damage, the input is either used, and the import report says what was lost or changed and
// nothing else, or it is refused with an InputError that names the file, and the line where a line is to
// blame.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <ostream>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "prism/analysis/open_model.hpp"
#include "prism/analysis/replay.hpp"
#include "prism/io/bytes.hpp"
#include "prism/io/test_dir.hpp"
#include "prism/trace/error.hpp"
#include "tests/made_job/made_job.hpp"

namespace prism {
namespace {

namespace fs = std::filesystem;

// --- the sound inputs
// ------------------------------------------------------------------------------------------------

/// A sound job as text. Both jobs have 2 replicas, 4 stages, 4 microbatches.
struct SoundJob {
  std::string csv;
  std::string meta;
};

enum class Which { Made, Recorded };

std::ostream& operator<<(std::ostream& out, Which which) {
  return out << (which == Which::Made ? "made" : "recorded");
}

fs::path recorded_folder() {
  return fs::path(PRISM_SOURCE_DIR) / "../shared/data/straggler";
}

bool is_there(Which which) {
  return which == Which::Made || fs::exists(recorded_folder() / "trace-ST.csv.gz");
}

SoundJob sound_job(Which which) {
  if (which == Which::Recorded) {
    return {read_bytes(recorded_folder() / "trace-ST.csv.gz"),
            read_bytes(recorded_folder() / "meta-ST.yaml")};
  }
  const MadeJobSpec spec{.microbatches = 4,
                         .steps = 12,
                         .last_stage_factor = 1.2,
                         .step_sd = 0.02,
                         .content_sd = 0.05,
                         .residual_sd = 0.01,
                         .transfer_jitter_s = 20e-6,
                         .forward_delay_s = 0.01,
                         .reduce_delay_s = 0.01};
  return {to_csv(make_job(spec).timeline), meta_yaml(spec)};
}

// --- tables that can be damaged
// --------------------------------------------------------------------------------------

using Row = std::vector<std::string>;

constexpr std::size_t kDpRank = 0;
constexpr std::size_t kStage = 1;
constexpr std::size_t kRank = 2;
constexpr std::size_t kStep = 3;
constexpr std::size_t kType = 4;
constexpr std::size_t kStart = 5;
constexpr std::size_t kDuration = 6;
constexpr std::size_t kSeq = 7;
constexpr std::size_t kMicrobatch = 9;

Row split(const std::string& line) {
  Row fields(1);
  for (const char c : line) {
    if (c == ',') {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

struct Table {
  Row header;
  std::vector<Row> rows;

  explicit Table(const std::string& text) {
    std::size_t begin = 0;
    while (begin < text.size()) {
      const std::size_t end = text.find('\n', begin);
      rows.push_back(split(text.substr(begin, end - begin)));
      begin = end + 1;
    }
    header = rows.front();
    rows.erase(rows.begin());
  }

  [[nodiscard]] std::string text() const {
    std::string result;
    const auto append = [&](const Row& row) {
      for (std::size_t i = 0; i < row.size(); ++i) result += (i > 0 ? "," : "") + row[i];
      result += '\n';
    };
    append(header);
    for (const Row& row : rows) append(row);
    return result;
  }

  /// A step in the middle.
  [[nodiscard]] std::string some_step() const { return rows[rows.size() / 2][kStep]; }

  /// The row of replica 1 in some_step().
  [[nodiscard]] std::size_t find(std::string_view type, std::string_view stage,
                                 std::string_view seq = "0") const {
    const std::string step = some_step();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Row& r = rows[i];
      if (r[kStep] == step && r[kDpRank] == "1" && r[kType] == type && r[kStage] == stage && r[kSeq] == seq)
        return i;
    }
    ADD_FAILURE() << "no " << type << " " << seq << " of stage " << stage;
    return 0;
  }

  void remove_if(const std::function<bool(const Row&)>& unwanted) { std::erase_if(rows, unwanted); }
};

std::string plus(const std::string& number, double more) {
  char text[64];
  std::snprintf(text, sizeof text, "%.9f", std::stod(number) + more);
  return text;
}

/// What is written to disk before the model is opened.
struct Input {
  std::string csv;
  std::optional<std::string> meta;
  std::optional<std::size_t> blamed_line;  ///< line of the file that a message has to name
};

// --- kinds of damage
// -------------------------------------------------------------------------------------------------

constexpr int kAllButOne = -1;
constexpr int kHalf = -2;

struct Expected {
  int steps_lost = 0;  ///< or kAllButOne, kHalf
  std::uint32_t replicas = 2;
  std::vector<std::pair<Severity, std::string>> entries;  ///< parts of reasons; no other entry may be there
  std::string error;                                      ///< part of the message; empty: the input is used
  bool same_model = false;  ///< nothing at all may differ from the sound job's model
  bool same_times = true;   ///< step times of the kept steps are those of the sound job
};

struct Mutation {
  std::string name;
  std::function<void(Input&)> damage;
  Expected expected;
};

/// Damage to rows. The function returns the index of the row to blame, if there is one.
std::function<void(Input&)> table(std::function<std::optional<std::size_t>(Table&)> damage) {
  return [damage = std::move(damage)](Input& input) {
    Table rows(input.csv);
    const auto blamed = damage(rows);
    input.csv = rows.text();
    if (blamed) input.blamed_line = *blamed + 2;
  };
}

std::function<void(Input&)> set_field(std::size_t column, std::string value) {
  return table([=](Table& t) {
    const std::size_t row = t.find("backward-compute", "2", "1");
    t.rows[row][column] = value;
    return std::optional(row);
  });
}

std::function<void(Input&)> without(std::set<std::string> types) {
  return table([types = std::move(types)](Table& t) {
    t.remove_if([&](const Row& row) { return types.contains(row[kType]); });
    return std::optional<std::size_t>();
  });
}

std::function<void(Input&)> without_rows(std::function<bool(const Row&)> unwanted) {
  return table([unwanted = std::move(unwanted)](Table& t) {
    t.remove_if(unwanted);
    return std::optional<std::size_t>();
  });
}

/// In the k-th step, replica_of(k) lacks a forward: another one from step to step.
std::function<void(Input&)> one_forward_missing_per_step(std::function<std::string(std::size_t)> replica_of) {
  return table([replica_of = std::move(replica_of)](Table& t) {
    std::set<std::string> seen;
    t.remove_if([&](const Row& row) {
      const bool hit = row[kType] == "forward-compute" && row[kSeq] == std::to_string(seen.size() / 2 % 4) &&
                       row[kDpRank] == replica_of(seen.size());
      return hit && seen.insert(row[kStep]).second;
    });
    return std::optional<std::size_t>();
  });
}

std::function<void(Input&)> late_clock(double late_s) {
  return table([late_s](Table& t) {
    for (Row& row : t.rows) {
      if (row[kStage] == "2" && row[kDpRank] == "1") row[kStart] = plus(row[kStart], late_s);
    }
    return std::optional<std::size_t>();
  });
}

std::function<void(Input&)> reorder_columns(std::vector<std::size_t> order) {
  return table([order = std::move(order)](Table& t) {
    const auto apply = [&](Row& row) {
      Row changed;
      for (const std::size_t column : order) changed.push_back(row[column]);
      row = changed;
    };
    apply(t.header);
    for (Row& row : t.rows) apply(row);
    return std::optional<std::size_t>();
  });
}

std::function<void(Input&)> meta_text(std::string text) {
  return [text = std::move(text)](Input& input) { input.meta = text; };
}

std::function<void(Input&)> meta_size(std::string key, std::string value, std::string world_size) {
  return [=](Input& input) {
    input.meta =
        "dp_size: 2\npp_size: 4\ntp_size: 1\ndsp_size: 1\nvpp_size: 1\nworld_size: " + world_size + "\n";
    const std::size_t line = input.meta->find(key + ": ");
    const std::size_t end = input.meta->find('\n', line);
    input.meta->replace(line, end - line, key + ": " + value);
  };
}

std::function<void(Input&)> csv_text(std::function<std::string(const std::string&)> change) {
  return [change = std::move(change)](Input& input) { input.csv = change(input.csv); };
}

/// A zstd frame (RFC 8878) of blocks that are stored as they are, without a checksum.
std::string stored_zstd(const std::string& text) {
  constexpr std::size_t kBlock = 100'000;
  std::string frame("\x28\xb5\x2f\xfd\x00\x58", 6);  // magic number, no flags, window of 2 MiB
  for (std::size_t begin = 0; begin < text.size(); begin += kBlock) {
    const std::size_t size = std::min(kBlock, text.size() - begin);
    const bool last = begin + size == text.size();
    const std::size_t header = (size << 3) | (last ? 1U : 0U);
    for (const int shift : {0, 8, 16}) frame += static_cast<char>(header >> shift & 0xff);
    frame += text.substr(begin, size);
  }
  return frame;
}

std::string noise_bytes(std::size_t count) {
  std::mt19937 random(5);
  std::string bytes;
  while (bytes.size() < count) bytes += static_cast<char>(random() & 0xff);
  bytes[0] = '\x7f';  // neither gzip nor zstd
  return bytes;
}

constexpr auto kInfo = Severity::Info;
constexpr auto kRepaired = Severity::Repaired;
constexpr auto kLoss = Severity::DataLoss;

const Expected kOneRowLost{.steps_lost = 1, .entries = {{kLoss, "step left out: ops are missing"}}};

Expected row_left_out(const std::string& reason) {
  return {.steps_lost = 1,
          .entries = {{kLoss, "row left out: " + reason}, {kLoss, "step left out: ops are missing"}}};
}

Expected refused(const std::string& error) {
  return {.error = error};
}

const Expected kMetaIgnored{.entries = {{kLoss, "metadata file left out"}}};

std::vector<Mutation> row_mutations() {
  const auto none = std::optional<std::size_t>();
  return {
      {"Sound", [](Input&) {}, {.same_model = true}},
      {"RowMissing", table([=](Table& t) {
         t.rows.erase(t.rows.begin() + static_cast<std::ptrdiff_t>(t.find("forward-compute", "1", "2")));
         return none;
       }),
       kOneRowLost},
      {"CommunicationRowMissing", table([=](Table& t) {
         t.rows.erase(t.rows.begin() + static_cast<std::ptrdiff_t>(t.find("backward-recv", "1", "2")));
         return none;
       }),
       kOneRowLost},
      {"RowDoubledExactly",
       table([](Table& t) {
         const std::size_t row = t.find("optimizer", "3");
         t.rows.push_back(Row(t.rows[row]));
         return std::optional(t.rows.size() - 1);
       }),
       {.entries = {{kRepaired, "row removed: an exact double"}}}},
      {"RowDoubledWithOtherTime",
       table([=](Table& t) {
         const std::size_t row = t.find("optimizer", "3");
         t.rows.push_back(Row(t.rows[row]));
         t.rows.back()[kDuration] = "0.5";
         return none;
       }),
       {.steps_lost = 1, .entries = {{kLoss, "an op is recorded twice with different times"}}}},
      {"StepTwiceAfterRestart",
       table([=](Table& t) {
         const std::string step = t.some_step();
         const std::size_t count = t.rows.size();
         for (std::size_t i = 0; i < count; ++i) {
           if (t.rows[i][kStep] != step) continue;
           t.rows.push_back(Row(t.rows[i]));
           t.rows.back()[kStart] = plus(t.rows.back()[kStart], 0.25);
         }
         return none;
       }),
       {.steps_lost = 1, .entries = {{kLoss, "an op is recorded twice with different times"}}}},
      {"RankAbsentInOneStep", table([=](Table& t) {
         const std::string step = t.some_step();
         t.remove_if([&](const Row& r) { return r[kStep] == step && r[kDpRank] == "1" && r[kStage] == "2"; });
         return none;
       }),
       kOneRowLost},
      {"ReplicaAbsentInOneStep",
       table([=](Table& t) {
         const std::string step = t.some_step();
         t.remove_if([&](const Row& r) { return r[kStep] == step && r[kDpRank] == "1"; });
         return none;
       }),
       {.steps_lost = 1, .entries = {{kLoss, "step left out: a replica is absent"}}}},
      {"LastReplicasRankAbsentInAllSteps",
       without_rows([](const Row& r) { return r[kDpRank] == "1" && r[kStage] == "2"; }),
       {.replicas = 1,
        .entries = {{kLoss, "replica left out: incomplete in too many steps"}, {kInfo, "metadata disagrees"}},
        .same_times = false}},
      {"FirstReplicasRankAbsentInAllSteps",
       without_rows([](const Row& r) { return r[kDpRank] == "0" && r[kStage] == "2"; }),
       {.replicas = 1,
        .entries = {{kLoss, "replica left out: incomplete in too many steps"}, {kInfo, "metadata disagrees"}},
        .same_times = false}},
      {"OtherComputeOrderInOneStep",
       table([=](Table& t) {
         Row& forward = t.rows[t.find("forward-compute", "3", "1")];
         Row& backward = t.rows[t.find("backward-compute", "3", "0")];
         std::swap(forward[kStart], backward[kStart]);
         std::swap(forward[kDuration], backward[kDuration]);
         return none;
       }),
       {.steps_lost = 1, .entries = {{kLoss, "its ops run in another order"}}}},
      {"OneMoreMicrobatchInOneStep",
       table([=](Table& t) {
         const std::string step = t.some_step();
         const std::size_t count = t.rows.size();
         for (std::size_t i = 0; i < count; ++i) {
           const bool compute = t.rows[i][kType].ends_with("-compute");
           if (t.rows[i][kStep] != step || !compute || t.rows[i][kSeq] != "3") continue;
           Row more = t.rows[i];
           more[kSeq] = "4";
           more[kMicrobatch] = "4";
           more[kStart] = plus(more[kStart], std::stod(more[kDuration]));
           t.rows.push_back(std::move(more));
         }
         return none;
       }),
       {.steps_lost = 1, .entries = {{kLoss, "it has more ops than the others"}}}},
      {"OtherGlobalRankInOneStep",
       table([=](Table& t) {
         const std::string step = t.some_step();
         for (Row& r : t.rows) {
           if (r[kStep] == step && r[kDpRank] == "1" && r[kStage] == "2") r[kRank] = "77";
         }
         return none;
       }),
       {.entries = {{kInfo, "several global ranks recorded one (replica, stage)"}}}},
      {"EveryStepRaggedInOneReplicaOrTheOther",
       // Each replica is complete in half of the steps, but never both in one.
       one_forward_missing_per_step([](std::size_t k) { return k % 2 == 0 ? "0" : "1"; }),
       {.steps_lost = kHalf,
        .replicas = 1,
        .entries = {{kLoss, "replica left out: incomplete in too many steps"},
                    {kLoss, "step left out: ops are missing"},
                    {kInfo, "metadata disagrees"}},
        .same_times = false}},
      {"EveryStepRaggedInOneReplica",
       one_forward_missing_per_step([](std::size_t) { return "1"; }),
       {.replicas = 1,
        .entries = {{kLoss, "replica left out: incomplete in too many steps"}, {kInfo, "metadata disagrees"}},
        .same_times = false}},
      {"OnlyOneStep",
       table([=](Table& t) {
         const std::string step = t.some_step();
         t.remove_if([&](const Row& r) { return r[kStep] != step; });
         return none;
       }),
       {.steps_lost = kAllButOne}},
      {"RowsShuffled",
       table([=](Table& t) {
         std::shuffle(t.rows.begin(), t.rows.end(), std::mt19937(3));
         return none;
       }),
       {.same_model = true}},
  };
}

std::vector<Mutation> field_mutations() {
  return {
      {"StartIsNan", set_field(kStart, "nan"), row_left_out("start or duration is not a finite time")},
      {"DurationIsInf", set_field(kDuration, "inf"), row_left_out("start or duration is not a finite time")},
      {"DurationIsNegative", set_field(kDuration, "-0.01"), row_left_out("negative duration")},
      {"DurationIsHuge", set_field(kDuration, "1e30"),
       row_left_out("start or duration is not a finite time")},
      {"DurationOverflowsDouble", set_field(kDuration, "1e999"),
       row_left_out("start or duration is not a finite time")},
      {"StartIsEmpty", set_field(kStart, ""), row_left_out("start or duration is not a finite time")},
      {"SequenceNumberIsEmpty", set_field(kSeq, ""),
       row_left_out("a rank, stage, step or sequence number is not")},
      {"DurationIsText", set_field(kDuration, "12 ms"),
       row_left_out("start or duration is not a finite time")},
      {"RankIsText", set_field(kRank, "host-3"),
       row_left_out("a rank, stage, step or sequence number is not")},
      {"StepIsNegative", set_field(kStep, "-5"),
       row_left_out("a rank, stage, step or sequence number is not")},
      {"StageOverflowsInteger", set_field(kStage, "99999999999999999999"),
       row_left_out("a rank, stage, step or sequence number is not")},
      {"StageIsBeyondRange", set_field(kStage, "2000000000"),
       row_left_out("a rank, stage, step or sequence number is not")},
      {"StageIsHuge",
       set_field(kStage, "999999"),
       {.steps_lost = 1, .entries = {{kLoss, "step left out: its ops are not those of the other steps"}}}},
      {"ReplicaIsHuge",
       set_field(kDpRank, "999999"),
       {.steps_lost = 1,
        .entries = {{kLoss, "replica left out: incomplete in too many steps"},
                    {kLoss, "step left out: ops are missing"}}}},
      {"NulByteInNumber", set_field(kRank, std::string("5\0", 2)),
       row_left_out("a rank, stage, step or sequence number is not")},
      {"NulByteInType", set_field(kType, std::string("backward-\0compute", 17)),
       row_left_out("unknown operation type")},
      {"UnknownType", set_field(kType, "expert-all-to-all"), row_left_out("unknown operation type")},
      {"TypeIsEmpty", set_field(kType, ""), row_left_out("unknown operation type")},
      {"MergedSendReceive", set_field(kType, "forward-send-backward-recv"),
       refused("merges a send with a receive")},
      {"UnclosedQuote", set_field(kDuration, "\"0.01"),
       row_left_out("its number of fields is not the header's")},
      {"TooFewFields", table([](Table& t) {
         const std::size_t row = t.find("gc", "1");
         t.rows[row].resize(6);
         return std::optional(row);
       }),
       row_left_out("its number of fields is not the header's")},
      {"TooManyFields", table([](Table& t) {
         const std::size_t row = t.find("gc", "1");
         t.rows[row].push_back("9");
         return std::optional(row);
       }),
       row_left_out("its number of fields is not the header's")},
      {"WholeNumbersAsFloats",
       table([](Table& t) {
         for (Row& r : t.rows) r[kRank] += ".0";
         return std::optional<std::size_t>();
       }),
       {.same_model = true}},
  };
}

std::vector<Mutation> structure_mutations() {
  return {
      {"NoGcRows", without({"gc"}), {}},
      {"NoEmbeddingRows", without({"embedding-grads-all-reduce"}), {}},
      {"NoTransferRows",
       without({"forward-send", "forward-recv", "backward-send", "backward-recv"}),
       {.entries = {{kInfo, "no transfer between two neighbouring stages"},
                    {kInfo, "sends or receives do not match the computes"}}}},
      {"NoReceiveRows",
       without({"forward-recv"}),
       {.entries = {{kInfo, "sends and receives between two stages differ in number"},
                    {kInfo, "sends or receives do not match the computes"}}}},
      {"NoParameterGatherRows", without({"params-all-gather"}), {.same_times = false}},
      {"NoOptimizerRows", without({"optimizer"}), {.same_times = false}},
      {"NoClipRows",
       without({"optimizer-clip-main-grad"}),
       {.entries = {{kInfo, "no gradient clipping is recorded"}}}},
      {"NoComputeRows", without({"forward-compute", "backward-compute"}),
       refused("no compute op is recorded")},
      {"OneReplicaWithDpRows",
       without_rows([](const Row& r) { return r[kDpRank] == "1"; }),
       {.replicas = 1, .entries = {{kInfo, "metadata disagrees with the trace"}}, .same_times = false}},
      {"MiddleStageMissing", without_rows([](const Row& r) { return r[kStage] == "1"; }),
       refused("no row of pipeline stage 1")},
      {"FirstStageMissing", without_rows([](const Row& r) { return r[kStage] == "0"; }),
       refused("no row of pipeline stage 0")},
      {"LastStageMissing",
       without_rows([](const Row& r) { return r[kStage] == "3"; }),
       {.entries = {{kInfo, "metadata disagrees with the trace"}}, .same_times = false}},
      {"ClockFiveMillisecondsLate", late_clock(0.005), {.entries = {{kRepaired, "clock shifted"}}}},
      {"ClockFiftyMillisecondsLate", late_clock(0.050), {.entries = {{kRepaired, "clock shifted"}}}},
      {"ClockTenSecondsEarly", late_clock(-10), {.entries = {{kRepaired, "clock shifted"}}}},
  };
}

std::vector<Mutation> meta_mutations() {
  return {
      {"MetaSaysFourReplicas", meta_size("dp_size", "4", "16"), {.entries = {{kInfo, "metadata disagrees"}}}},
      {"MetaSaysTwoStages", meta_size("pp_size", "2", "4"), {.entries = {{kInfo, "metadata disagrees"}}}},
      {"MetaProductIsWrong",
       meta_size("tp_size", "2", "8"),
       {.entries = {{kInfo, "metadata contradicts itself"}}}},
      {"MetaSizeIsText", meta_size("tp_size", "two", "8"), {.entries = {{kLoss, "metadata value left out"}}}},
      {"MetaSizeIsZero", meta_size("dp_size", "0", "8"), {.entries = {{kLoss, "metadata value left out"}}}},
      {"MetaSizeOverflows",
       meta_size("dp_size", "99999999999999999999", "8"),
       {.entries = {{kLoss, "metadata value left out"}}}},
      {"MetaIsNotYaml", meta_text("dp_size: 2\n\tpp_size: : 4\n  - x"), kMetaIgnored},
      {"MetaIsText", meta_text("ask Bob for the sizes\n"), kMetaIgnored},
      {"MetaIsAList", meta_text("- 2\n- 4\n"), kMetaIgnored},
      {"MetaIsBinary", meta_text(noise_bytes(4000)), kMetaIgnored},
      {"MetaIsHuge", meta_text(std::string(1 << 20, 'a')), kMetaIgnored},
      {"MetaNestsDeeply", meta_text(std::string(20'000, '[')), kMetaIgnored},
      {"MetaNestsByDashes", meta_text([] {
         std::string text;
         for (int i = 0; i < 20'000; ++i) text += "- ";
         return text;
       }()),
       kMetaIgnored},
      {"MetaIsAbsent", [](Input& input) { input.meta.reset(); }, {.same_model = true}},
  };
}

std::vector<Mutation> text_mutations() {
  const auto all_columns = std::vector<std::size_t>{10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
  return {
      {"CarriageReturns",
       csv_text([](const std::string& text) {
         std::string changed;
         for (const char c : text) changed += c == '\n' ? std::string("\r\n") : std::string(1, c);
         return changed;
       }),
       {.same_model = true}},
      {"ByteOrderMark",
       csv_text([](const std::string& text) { return "\xef\xbb\xbf" + text; }),
       {.same_model = true}},
      {"EmptyLines",
       csv_text([](const std::string& text) { return "\n\n" + text + "\n\n"; }),
       {.same_model = true}},
      {"NoNewlineAtTheEnd",
       csv_text([](const std::string& text) { return text.substr(0, text.size() - 1); }),
       {.same_model = true}},
      {"QuotedFields",
       csv_text([](const std::string& text) {
         std::string changed = "\"";
         for (const char c : text) {
           if (c == ',') changed += "\",\"";
           if (c == '\n') changed += "\"\n\"";
           if (c != ',' && c != '\n') changed += c;
         }
         return changed.substr(0, changed.size() - 1);
       }),
       {.same_model = true}},
      {"ColumnsReordered", reorder_columns(all_columns), {.same_model = true}},
      {"ColumnAdded",
       table([](Table& t) {
         t.header.push_back("comment");
         for (Row& r : t.rows) r.push_back("fine");
         return std::optional<std::size_t>();
       }),
       {.same_model = true}},
      {"OptionalColumnMissing", reorder_columns({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), {.same_model = true}},
      {"MicrobatchColumnMissing",
       reorder_columns({0, 1, 2, 3, 4, 5, 6, 7, 8, 10}),
       {.entries = {{kInfo, "microbatches are not numbered alike"}}}},
      {"DurationColumnMissing", reorder_columns({0, 1, 2, 3, 4, 5, 7, 8, 9, 10}),
       refused(":1: the header lacks")},
      {"StageColumnMissing", reorder_columns({0, 2, 3, 4, 5, 6, 7, 8, 9, 10}),
       refused(":1: the header lacks")},
      {"TypeColumnMissing", reorder_columns({0, 1, 2, 3, 5, 6, 7, 8, 9, 10}),
       refused("format not recognised")},
      {"HeaderOnly", csv_text([](const std::string& text) { return text.substr(0, text.find('\n') + 1); }),
       refused("none of its 0 rows is usable")},
      {"HeaderMissing", csv_text([](const std::string& text) { return text.substr(text.find('\n') + 1); }),
       refused("format not recognised")},
      {"EmptyFile", csv_text([](const std::string&) { return std::string(); }), refused("empty")},
      {"OnlyNulBytes", csv_text([](const std::string&) { return std::string(5000, '\0'); }),
       refused("format not recognised")},
      {"JsonText",
       csv_text([](const std::string&) { return std::string(R"({"traceEvents": [{"ph": "X"}]})"); }),
       refused("no step with GPU work")},
      {"BinaryNoise", csv_text([](const std::string&) { return noise_bytes(20'000); }),
       refused("format not recognised")},
      {"CutInTheMiddleOfALine",
       csv_text([](const std::string& text) { return text.substr(0, text.rfind(',') - 12); }),
       row_left_out("its number of fields is not the header's")},
      {"Zstd", csv_text(stored_zstd), {.same_model = true}},
      {"ZstdCut", csv_text([](const std::string& text) {
         const std::string whole = stored_zstd(text);
         return whole.substr(0, whole.size() / 2);
       }),
       refused("zstd")},
  };
}

std::vector<Mutation> all_mutations() {
  std::vector<Mutation> all;
  for (auto list :
       {row_mutations(), field_mutations(), structure_mutations(), meta_mutations(), text_mutations()}) {
    std::ranges::move(list, std::back_inserter(all));
  }
  return all;
}

// --- the test
// --------------------------------------------------------------------------------------------------------

struct Opened {
  StepModel model;
  std::map<int, double> replayed_ns;  ///< by step
};

Opened open_and_replay(const fs::path& path) {
  Opened opened{.model = open_model(path)};
  for (const ReplayedStep& step : replay(opened.model, {}).steps)
    opened.replayed_ns[step.step] = step.replayed_ns;
  return opened;
}

fs::path write(const TestDir& dir, const Input& input) {
  if (input.meta) static_cast<void>(dir.file("meta.yaml", *input.meta));
  return dir.file("trace.csv", input.csv);
}

/// The sound job's model, made once.
const Opened& sound_model(Which which) {
  static std::map<Which, Opened> known;
  if (const auto found = known.find(which); found != known.end()) return found->second;
  const TestDir dir;
  const SoundJob job = sound_job(which);
  return known.emplace(which, open_and_replay(write(dir, {job.csv, job.meta, {}}))).first->second;
}

std::string all_entries(const ImportReport& report) {
  std::string text;
  for (const ImportEntry& entry : report.entries()) {
    text += "  " + std::string(severity_name(entry.severity)) + ": " + entry.reason + " (" +
            std::to_string(entry.count) + ")";
    for (const std::string& place : entry.places) text += " | " + place;
    text += '\n';
  }
  return text;
}

class Mutations : public ::testing::TestWithParam<std::tuple<Which, Mutation>> {
 protected:
  void SetUp() override {
    if (!is_there(std::get<0>(GetParam()))) {
      GTEST_SKIP() << "NOT TESTED: there is no " << (recorded_folder() / "trace-ST.csv.gz").string();
    }
  }

  const Expected& expected() const { return std::get<1>(GetParam()).expected; }

  void expect_entries(const ImportReport& report, const Input& input) const {
    const auto stands_for = [](const ImportEntry& entry, const std::pair<Severity, std::string>& wanted) {
      return entry.severity == wanted.first && entry.reason.find(wanted.second) != std::string::npos;
    };
    for (const auto& wanted : expected().entries) {
      EXPECT_TRUE(
          std::ranges::any_of(report.entries(), [&](const auto& entry) { return stands_for(entry, wanted); }))
          << "no entry '" << severity_name(wanted.first) << ": " << wanted.second << "'; there are\n"
          << all_entries(report);
    }
    for (const ImportEntry& entry : report.entries()) {
      EXPECT_TRUE(std::ranges::any_of(expected().entries,
                                      [&](const auto& wanted) { return stands_for(entry, wanted); }))
          << "unexpected entry '" << severity_name(entry.severity) << ": " << entry.reason << "'";
      EXPECT_FALSE(entry.places.empty()) << entry.reason;
    }
    if (!input.blamed_line) return;
    const std::string place = "trace.csv:" + std::to_string(*input.blamed_line);
    if (report.entries().front().reason.starts_with("row")) {
      EXPECT_NE(report.entries().front().places.front().find(place), std::string::npos)
          << all_entries(report);
    }
  }

  void expect_usable(const Opened& opened, const Opened& sound, const Input& input) const {
    const StepModel& model = opened.model;
    const std::size_t all = sound.model.step_count();
    const int lost = expected().steps_lost;
    EXPECT_EQ(model.step_count(), lost == kAllButOne ? 1
                                  : lost == kHalf    ? all / 2
                                                     : all - static_cast<std::size_t>(lost));
    EXPECT_EQ(model.replicas, expected().replicas);
    EXPECT_EQ(model.observed_ns.size(), model.step_count());
    expect_entries(model.report, input);
    std::set<int> stages;
    for (const Node& node : model.nodes) stages.insert(node.stage);
    EXPECT_EQ(stages.size(), model.template_ranks) << "a stage has no op";
    for (std::size_t k = 0; k < model.step_count(); ++k) {
      const double observed = model.observed_ns[k];
      const double replayed = opened.replayed_ns.at(model.steps[k]);
      EXPECT_GT(observed, 0);
      // 2 %: what is not recorded (a type of op) or not known (waits) costs less than that on these jobs.
      EXPECT_NEAR(replayed / observed, 1, 0.02) << "step " << model.steps[k];
      if (!expected().same_times) continue;
      const auto same = std::ranges::find(sound.model.steps, model.steps[k]) - sound.model.steps.begin();
      EXPECT_NEAR(observed / sound.model.observed_ns.at(static_cast<std::size_t>(same)), 1, 0.001)
          << "step " << model.steps[k];
    }
  }

  static void expect_same(const Opened& opened, const Opened& sound) {
    EXPECT_TRUE(opened.model.graph == sound.model.graph);
    EXPECT_TRUE(opened.model.nodes == sound.model.nodes);
    EXPECT_TRUE(opened.model.pools == sound.model.pools);
    EXPECT_EQ(opened.model.steps, sound.model.steps);
    EXPECT_EQ(opened.model.observed_ns, sound.model.observed_ns);
    EXPECT_EQ(opened.replayed_ns, sound.replayed_ns);
  }
};

TEST_P(Mutations, AreReportedOrRefused) {
  const Which which = std::get<0>(GetParam());
  const SoundJob job = sound_job(which);
  Input input{job.csv, job.meta, {}};
  std::get<1>(GetParam()).damage(input);
  const TestDir dir;
  const fs::path path = write(dir, input);

  if (!expected().error.empty()) {
    const std::string message = thrown<InputError>([&] { open_and_replay(path); });
    EXPECT_NE(message.find(expected().error), std::string::npos) << message;
    EXPECT_NE(message.find("trace.csv"), std::string::npos) << message;
    EXPECT_NE(message.find("fix: "), std::string::npos) << message;
    if (input.blamed_line) {
      EXPECT_NE(message.find("trace.csv:" + std::to_string(*input.blamed_line)), std::string::npos)
          << message;
    }
    return;
  }
  for (const LaunchDelays delays : {LaunchDelays::Raw, LaunchDelays::Off}) {
    const ReplayResult result = replay(open_model(path, {.delays = delays}), {});
    for (const ReplayedStep& step : result.steps) {
      EXPECT_TRUE(std::isfinite(step.replayed_ns) && step.replayed_ns > 0) << step.step;
    }
  }
  const Opened opened = open_and_replay(path);
  expect_usable(opened, sound_model(which), input);
  if (expected().same_model) expect_same(opened, sound_model(which));
}

std::string test_name(const ::testing::TestParamInfo<Mutations::ParamType>& tested) {
  return (std::get<0>(tested.param) == Which::Made ? "Made" : "Recorded") + std::get<1>(tested.param).name;
}

// GoogleTest would print the bytes of a std::function.
[[maybe_unused]] void PrintTo(const Mutation& mutation, std::ostream* out) {
  *out << mutation.name;
}

INSTANTIATE_TEST_SUITE_P(All, Mutations,
                         ::testing::Combine(::testing::Values(Which::Made, Which::Recorded),
                                            ::testing::ValuesIn(all_mutations())),
                         test_name);

// --- damaged files, with the shipped example
// -------------------------------------------------------------------------

class ExampleFile : public ::testing::Test {
 protected:
  static fs::path path() { return fs::path(PRISM_SOURCE_DIR) / "examples/pipeline-16gpu/trace.csv.gz"; }
  static std::string packed() {
    std::ifstream in(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// The message with which `bytes`, in a file of the example's name, is refused.
  std::string refusal(const std::string& bytes) const {
    const fs::path damaged = dir_.file("trace.csv.gz", bytes);
    return thrown<InputError>([&] { open_and_replay(damaged); });
  }

  TestDir dir_;
};

TEST_F(ExampleFile, IsSoundAndReplays) {
  const Opened opened = open_and_replay(path());
  EXPECT_TRUE(opened.model.report.entries().empty()) << all_entries(opened.model.report);
  ASSERT_EQ(opened.model.step_count(), 24U);
  EXPECT_EQ(opened.model.replicas, 4U);
  for (std::size_t k = 0; k < 24; ++k) {
    EXPECT_NEAR(opened.replayed_ns.at(opened.model.steps[k]) / opened.model.observed_ns[k], 1, 1e-4);
  }
}

TEST_F(ExampleFile, IsFoundInItsFolder) {
  EXPECT_EQ(open_model(path().parent_path()).step_count(), 24U);
}

TEST_F(ExampleFile, CutGzipIsRefused) {
  const std::string whole = packed();
  for (const std::size_t size : {whole.size() - 1, whole.size() - 8, whole.size() / 2, std::size_t{15}}) {
    const std::string message = refusal(whole.substr(0, size));
    EXPECT_NE(message.find("trace.csv.gz at byte "), std::string::npos) << size << ": " << message;
    EXPECT_NE(message.find("gzip"), std::string::npos) << size << ": " << message;
  }
}

TEST_F(ExampleFile, FlippedByteIsRefused) {
  for (const double place : {0.1, 0.5, 0.9}) {
    std::string bytes = packed();
    bytes[static_cast<std::size_t>(place * static_cast<double>(bytes.size()))] ^= 0x10;
    const std::string message = refusal(bytes);
    EXPECT_NE(message.find("trace.csv.gz at byte "), std::string::npos) << message;
    EXPECT_NE(message.find("damaged"), std::string::npos) << message;
  }
}

TEST_F(ExampleFile, BytesAfterTheEndAreRefusedOrHarmless) {
  const fs::path padded = dir_.file("trace.csv.gz", packed() + std::string(512, '\0'));
  const std::string outcome = thrown<InputError>([&] { EXPECT_EQ(open_model(padded).step_count(), 24U); });
  EXPECT_TRUE(outcome == "(nothing thrown)" || outcome.find("trace.csv.gz") != std::string::npos) << outcome;
}

TEST_F(ExampleFile, TwoTimelinesInAFolderAreRefused) {
  static_cast<void>(dir_.file("a.csv.gz", packed()));
  static_cast<void>(dir_.file("b.csv", "x\n"));
  const std::string message = thrown<InputError>([&] { open_model(dir_.path()); });
  EXPECT_NE(message.find("the folder holds 2 CSV files (a.csv.gz, b.csv"), std::string::npos) << message;
  EXPECT_NE(message.find(dir_.path().parent_path().string()), std::string::npos) << message;
}

TEST_F(ExampleFile, EmptyFolderIsRefused) {
  const std::string message = thrown<InputError>([&] { open_model(dir_.path()); });
  EXPECT_NE(message.find("the folder holds no trace"), std::string::npos) << message;
}

TEST_F(ExampleFile, AbsentFileIsRefused) {
  const std::string message = thrown<InputError>([&] { open_model(dir_.path("no-such.csv")); });
  EXPECT_NE(message.find("no-such.csv"), std::string::npos) << message;
}

// Against known truth, not against another run of the same program.
TEST(ClockOffset, IsTakenOut) {
  for (const double offset_s : {-0.05, 0.005, 0.05}) {
    MadeJobSpec spec{.dp = 4, .steps = 12, .content_sd = 0.05, .transfer_jitter_s = 50e-6};
    spec.clock_offset_s[5] = offset_s;
    const MadeJob made = make_job(spec);
    const TestDir dir;
    const Opened opened = open_and_replay(dir.file("trace.csv", to_csv(made.timeline)));
    ASSERT_EQ(opened.model.step_count(), made.step_times_s.size());
    for (std::size_t k = 0; k < made.step_times_s.size(); ++k) {
      EXPECT_NEAR(opened.model.observed_ns[k] / 1e9 / made.step_times_s[k], 1, 1e-3) << offset_s;
      EXPECT_NEAR(opened.replayed_ns.at(opened.model.steps[k]) / 1e9 / made.step_times_s[k], 1, 1e-3)
          << offset_s;
    }
    ASSERT_EQ(opened.model.report.entries().size(), 1U) << all_entries(opened.model.report);
    EXPECT_EQ(opened.model.report.entries()[0].count, 1U) << all_entries(opened.model.report);
    EXPECT_NE(opened.model.report.entries()[0].places[0].find("rank 5 "), std::string::npos);
  }
}

}  // namespace
}  // namespace prism
