// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "prism/plan/schedule.hpp"
#include "prism/trace/error.hpp"

namespace prism {

namespace {

enum class Way : std::uint8_t { Forward, Back, Weights };

/// What a pass is known by when another waits for it.
using Key = std::tuple<std::int32_t, std::int32_t, std::int32_t, Way>;  // copy, stage, microbatch
Key key_of(const Pass& pass) {
  const Way way = pass.kind == PassKind::Forward          ? Way::Forward
                  : pass.kind == PassKind::BackwardWeight ? Way::Weights
                                                          : Way::Back;
  return {pass.copy, pass.stage, pass.microbatch, way};
}

/// The pass it waits for, its own rank's order aside.
std::optional<Key> waits_for(const Pass& pass, std::int32_t stages) {
  const auto at = [&](std::int32_t stage, Way way) { return Key{pass.copy, stage, pass.microbatch, way}; };
  switch (pass.kind) {
    case PassKind::Forward:
      return pass.stage == 0 ? std::nullopt : std::optional(at(pass.stage - 1, Way::Forward));
    case PassKind::BackwardWeight:
      return at(pass.stage, Way::Back);
    case PassKind::Backward:
    case PassKind::BackwardInput:
      break;
  }
  return pass.stage == stages - 1 ? at(pass.stage, Way::Forward) : at(pass.stage + 1, Way::Back);
}

std::string text_of(const Pass& pass) {
  constexpr const char* kLetters[] = {"F", "B", "I", "W"};
  return std::to_string(pass.stage) + kLetters[static_cast<std::size_t>(pass.kind)] +
         std::to_string(pass.microbatch);
}

class Timing {
 public:
  Timing(const PipelineSchedule& schedule, const PassCosts& costs, const std::string& source)
      : schedule_(schedule),
        costs_(costs),
        source_(source),
        next_(schedule.order.size(), 0),
        free_(schedule.order.size(), 0.0) {}

  ScheduleTimes run() {
    times_.idle.assign(schedule_.order.size(), 0);
    times_.start.resize(schedule_.order.size());
    for (std::size_t rank = 0; rank < schedule_.order.size(); ++rank) {
      for (std::size_t i = 0; i < schedule_.order[rank].size(); ++i) {
        rank_of_[key_of(schedule_.order[rank][i])] = rank;
      }
    }
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t rank = 0; rank < next_.size(); ++rank) {
        while (advance(rank)) moved = true;
      }
    }
    for (std::size_t rank = 0; rank < next_.size(); ++rank) {
      if (next_[rank] < schedule_.order[rank].size()) refuse(rank);
      times_.makespan = std::max(times_.makespan, free_[rank]);
    }
    for (std::size_t rank = 0; rank < next_.size(); ++rank) finish(rank);
    return std::move(times_);
  }

 private:
  double cost(const Pass& pass) const {
    const auto chunks = static_cast<double>(schedule_.stages) / schedule_.ranks;
    switch (pass.kind) {
      case PassKind::Forward:
        return costs_.forward / chunks;
      case PassKind::Backward:
        return (costs_.backward_input + costs_.backward_weight) / chunks;
      case PassKind::BackwardInput:
        return costs_.backward_input / chunks;
      case PassKind::BackwardWeight:
        break;
    }
    return costs_.backward_weight / chunks;
  }

  /// Runs the next pass of a rank, or the next two that overlap, if what they wait for is there.
  bool advance(std::size_t rank) {
    const std::vector<Pass>& order = schedule_.order[rank];
    const std::size_t begin = next_[rank];
    if (begin == order.size()) return false;
    std::size_t end = begin + 1;
    while (order[end - 1].with_next && end < order.size()) ++end;
    double start = free_[rank];
    double duration = 0;
    for (std::size_t i = begin; i < end; ++i) {
      duration += cost(order[i]);
      const std::optional<Key> before = waits_for(order[i], schedule_.stages);
      if (!before) continue;
      const auto done = end_.find(*before);
      if (done == end_.end()) return false;
      start = std::max(start, done->second);
    }
    for (std::size_t i = begin; i < end; ++i) {
      end_[key_of(order[i])] = start + duration;
      times_.start[rank].push_back(start);
    }
    free_[rank] = start + duration;
    next_[rank] = end;
    return true;
  }

  void finish(std::size_t rank) {
    std::int32_t alive = 0;
    std::int32_t most = 0;
    double busy = 0;
    for (const Pass& pass : schedule_.order[rank]) {
      busy += cost(pass);
      if (pass.kind == PassKind::Forward) ++alive;
      if (pass.kind == PassKind::Backward || pass.kind == PassKind::BackwardWeight) --alive;
      most = std::max(most, alive);
    }
    times_.idle[rank] = times_.makespan - busy;
    times_.most_alive.push_back(most);
  }

  /// Follows who waits for whom until a rank comes up again.
  [[noreturn]] void refuse(std::size_t rank) const {
    std::string circle;
    std::vector<bool> seen(next_.size(), false);
    while (!seen[rank]) {
      seen[rank] = true;
      const std::vector<Pass>& order = schedule_.order[rank];
      const Pass* blocked = &order[next_[rank]];
      for (std::size_t i = next_[rank]; i < order.size(); ++i) {
        blocked = &order[i];
        const std::optional<Key> before = waits_for(order[i], schedule_.stages);
        if (before && !end_.contains(*before)) break;
        if (!order[i].with_next) break;
      }
      circle += (circle.empty() ? "" : ", ") + text_of(*blocked) + " on rank " + std::to_string(rank);
      const std::optional<Key> before = waits_for(*blocked, schedule_.stages);
      if (!before || !rank_of_.contains(*before)) {
        throw InputError({source_, {}, {}},
                         "the schedule never runs what " + text_of(*blocked) + " waits for",
                         "each microbatch passes each stage once, forward and backward");
      }
      rank = rank_of_.at(*before);
    }
    throw InputError({source_, {}, {}}, "the schedule deadlocks: " + circle + " wait for each other",
                     "another order of passes");
  }

  const PipelineSchedule& schedule_;
  const PassCosts& costs_;
  const std::string& source_;
  std::vector<std::size_t> next_;
  std::vector<double> free_;
  std::map<Key, double> end_;
  std::map<Key, std::size_t> rank_of_;
  ScheduleTimes times_;
};

}  // namespace

ScheduleTimes time_schedule(const PipelineSchedule& schedule, const PassCosts& costs,
                            const std::string& source) {
  return Timing(schedule, costs, source).run();
}

}  // namespace prism
