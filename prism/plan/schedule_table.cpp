// SPDX-License-Identifier: Apache-2.0
// Schedules as PyTorch (torch.distributed.pipelining) and torchtitan (pipeline_parallel_schedule_csv) write
// them.
#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "prism/plan/schedule.hpp"
#include "prism/trace/error.hpp"

namespace prism {

namespace {

constexpr std::int32_t kMostStages = 1 << 16;
constexpr std::int32_t kMostMicrobatches = 1 << 20;
constexpr std::size_t kMostPasses = std::size_t{1} << 22;

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

/// The number that `text` begins with, taken off it.
std::optional<std::int32_t> take_number(std::string_view& text) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data() || value < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

class Table {
 public:
  Table(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  PipelineSchedule read() {
    while (!text_.empty()) {
      ++line_;
      const std::size_t end = std::min(text_.find('\n'), text_.size());
      read_row(text_.substr(0, end));
      text_.remove_prefix(std::min(end + 1, text_.size()));
    }
    while (!schedule_.order.empty() && schedule_.order.back().empty()) schedule_.order.pop_back();
    if (schedule_.order.empty()) {
      throw InputError({source_, {}, {}}, "the schedule table holds no pass",
                       "one row per pipeline rank with cells such as 0F0, 0B0");
    }
    finish();
    return std::move(schedule_);
  }

 private:
  [[noreturn]] void refuse(const std::string& problem, const std::string& fix) const {
    throw InputError({source_, line_, {}}, "cell " + std::to_string(cell_) + ": " + problem, fix);
  }

  void read_row(std::string_view row) {
    std::vector<Pass>& order = schedule_.order.emplace_back();
    cell_ = 0;
    while (true) {
      ++cell_;
      const std::size_t end = std::min(row.find(','), row.size());
      read_cell(trimmed(row.substr(0, end)), order);
      if (end == row.size()) break;
      row.remove_prefix(end + 1);
    }
    if (!order.empty()) order.back().with_next = false;
  }

  void read_cell(std::string_view cell, std::vector<Pass>& order) {
    if (cell.empty()) return;
    constexpr std::string_view kOverlap = ")OVERLAP_F_B";
    if (cell.front() != '(') {
      read_action(cell, order);
      return;
    }
    const std::size_t between = cell.find(';');
    if (!cell.ends_with(kOverlap) || between == std::string_view::npos) bad_cell(cell);
    const std::size_t before = order.size();
    read_action(trimmed(cell.substr(1, between - 1)), order);
    read_action(trimmed(cell.substr(between + 1, cell.size() - between - 1 - kOverlap.size())), order);
    if (order.size() != before + 2) bad_cell(cell);
    order[before].with_next = true;
  }

  [[noreturn]] void bad_cell(std::string_view cell) const {
    refuse("'" + std::string(cell.substr(0, 60)) + "' is no action",
           "<stage><F|B|I|W><microbatch>, such as 0F3, or (0F3;1B0)OVERLAP_F_B");
  }

  void read_action(std::string_view cell, std::vector<Pass>& order) {
    std::string_view rest = cell;
    const std::optional<std::int32_t> stage = take_number(rest);
    if (!stage) bad_cell(cell);
    const std::size_t letters = std::min(rest.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_"), rest.size());
    const std::string_view op = rest.substr(0, letters);
    rest.remove_prefix(letters);
    constexpr std::array<std::string_view, 7> kLowered = {"SEND_F",  "RECV_F",  "SEND_B",     "RECV_B",
                                                          "UNSHARD", "RESHARD", "REDUCE_GRAD"};
    const bool is_lowered = std::ranges::find(kLowered, op) != kLowered.end();
    const std::optional<std::int32_t> microbatch = take_number(rest);
    if (!rest.empty() || (!microbatch && !is_lowered)) bad_cell(cell);
    if (is_lowered) return;
    constexpr std::string_view kOps = "FBIW";
    const std::size_t kind = op.size() == 1 ? kOps.find(op) : std::string_view::npos;
    if (kind == std::string_view::npos) bad_cell(cell);
    if (*stage >= kMostStages || *microbatch >= kMostMicrobatches) {
      refuse("'" + std::string(cell.substr(0, 60)) + "' counts too far",
             "stages below " + std::to_string(kMostStages) + ", microbatches below " +
                 std::to_string(kMostMicrobatches));
    }
    const Pass pass{.kind = static_cast<PassKind>(kind), .stage = *stage, .microbatch = *microbatch};
    if (!seen_.insert({pass.kind, pass.stage, pass.microbatch}).second) {
      refuse("'" + std::string(cell) + "' comes twice", "each pass once");
    }
    if (seen_.size() > kMostPasses) refuse("too many passes", "at most 4 million");
    const auto rank = static_cast<std::int32_t>(schedule_.order.size()) - 1;
    const auto [place, is_new] = rank_of_.try_emplace(pass.stage, rank);
    if (!is_new && place->second != rank) {
      refuse("stage " + std::to_string(pass.stage) + " is on rank " + std::to_string(place->second) +
                 " and on rank " + std::to_string(rank),
             "each stage on one rank");
    }
    order.push_back(pass);
    schedule_.stages = std::max(schedule_.stages, pass.stage + 1);
    schedule_.microbatches = std::max(schedule_.microbatches, pass.microbatch + 1);
  }

  [[nodiscard]] bool has(PassKind kind, std::int32_t stage, std::int32_t microbatch) const {
    return seen_.contains({kind, stage, microbatch});
  }

  /// Refuses what is wrong with the row of a rank, rather than with one of its cells.
  [[noreturn]] void refuse_row(std::int32_t rank, const std::string& problem, const std::string& fix) const {
    throw InputError({source_, static_cast<std::uint64_t>(rank) + 1, {}}, problem, fix);
  }

  void finish() {
    schedule_.ranks = static_cast<std::int32_t>(schedule_.order.size());
    for (std::int32_t rank = 0; rank < schedule_.ranks; ++rank) {
      if (schedule_.order[static_cast<std::size_t>(rank)].empty()) {
        refuse_row(rank, "rank " + std::to_string(rank) + " runs no pass",
                   "one row per pipeline rank, and no blank rows between them");
      }
    }
    std::vector<std::int32_t>& rank_of = schedule_.rank_of.emplace_back();
    for (std::int32_t stage = 0; stage < schedule_.stages; ++stage) {
      const auto place = rank_of_.find(stage);
      if (place == rank_of_.end()) {
        throw InputError(
            {source_, {}, {}},
            "stage " + std::to_string(stage) + " of " + std::to_string(schedule_.stages) + " has no pass",
            "stages count from 0 without gaps");
      }
      rank_of.push_back(place->second);
      for (std::int32_t k = 0; k < schedule_.microbatches; ++k) check_passes(place->second, stage, k);
    }
    time_schedule(schedule_, {}, source_);
  }

  void check_passes(std::int32_t rank, std::int32_t stage, std::int32_t k) const {
    const bool whole = has(PassKind::Backward, stage, k);
    const bool input = has(PassKind::BackwardInput, stage, k);
    const bool weight = has(PassKind::BackwardWeight, stage, k);
    const auto cell = [&](char op) { return std::to_string(stage) + op + std::to_string(k); };
    const auto missing = [&](char op) {
      refuse_row(rank, "rank " + std::to_string(rank) + " never runs " + cell(op),
                 "F and either B, or I and W, of each microbatch and stage");
    };
    if (!has(PassKind::Forward, stage, k)) missing('F');
    if (whole && (input || weight)) {
      refuse_row(
          rank,
          "rank " + std::to_string(rank) + " runs " + cell('B') + " and also " + cell(input ? 'I' : 'W'),
          "B alone, which is both gradients, or I and W");
    }
    if (whole) return;
    if (!input && !weight) missing('B');
    if (!input) missing('I');
    if (!weight) missing('W');
  }

  std::string_view text_;
  const std::string& source_;
  std::uint64_t line_ = 0;
  std::uint64_t cell_ = 0;
  PipelineSchedule schedule_;
  std::set<std::tuple<PassKind, std::int32_t, std::int32_t>> seen_;
  std::map<std::int32_t, std::int32_t> rank_of_;
};

}  // namespace

PipelineSchedule parse_schedule_table(std::string_view csv, const std::string& source) {
  return Table(csv, source).read();
}

}  // namespace prism
