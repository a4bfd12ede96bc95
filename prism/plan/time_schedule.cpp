// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cassert>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "prism/plan/schedule.hpp"
#include "prism/trace/error.hpp"

namespace prism {

namespace {

/// What a pass makes ready. A backward of either kind makes the gradients of the stage before ready.
enum class Way : std::uint8_t { Forward, Back, Weights };
constexpr std::size_t kWays = 3;

Way way_of(PassKind kind) {
  if (kind == PassKind::Forward) return Way::Forward;
  return kind == PassKind::BackwardWeight ? Way::Weights : Way::Back;
}

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

/// Numbers what the passes of a schedule make ready, without gaps.
class Results {
 public:
  explicit Results(const PipelineSchedule& schedule)
      : stages_(static_cast<std::size_t>(schedule.stages)),
        microbatches_(static_cast<std::size_t>(schedule.microbatches)),
        count_(static_cast<std::size_t>(schedule.copies) * stages_ * microbatches_ * kWays) {}

  [[nodiscard]] std::size_t count() const { return count_; }
  /// What `pass` makes ready.
  [[nodiscard]] std::size_t made_by(const Pass& pass) const {
    return at(pass, pass.stage, way_of(pass.kind));
  }
  /// What `pass` waits for, the order of its own rank aside; kNone for the forwards of the first stage.
  [[nodiscard]] std::size_t awaited_by(const Pass& pass) const {
    switch (pass.kind) {
      case PassKind::Forward:
        return pass.stage == 0 ? kNone : at(pass, pass.stage - 1, Way::Forward);
      case PassKind::BackwardWeight:
        return at(pass, pass.stage, Way::Back);
      case PassKind::Backward:
      case PassKind::BackwardInput:
        break;
    }
    const bool is_last = static_cast<std::size_t>(pass.stage) + 1 == stages_;
    return is_last ? at(pass, pass.stage, Way::Forward) : at(pass, pass.stage + 1, Way::Back);
  }

 private:
  [[nodiscard]] std::size_t at(const Pass& pass, std::int32_t stage, Way way) const {
    const std::size_t flow = static_cast<std::size_t>(pass.copy) * stages_ + static_cast<std::size_t>(stage);
    const std::size_t result = (flow * microbatches_ + static_cast<std::size_t>(pass.microbatch)) * kWays;
    assert(result < count_);
    return result + static_cast<std::size_t>(way);
  }

  std::size_t stages_;
  std::size_t microbatches_;
  std::size_t count_;
};

std::string text_of(const Pass& pass) {
  constexpr const char* kLetters[] = {"F", "B", "I", "W"};
  return std::to_string(pass.stage) + kLetters[static_cast<std::size_t>(pass.kind)] +
         std::to_string(pass.microbatch);
}

/// Runs every rank as far as it gets, and again once what it waits for is ready: linear in the passes.
class Timing {
 public:
  Timing(const PipelineSchedule& schedule, const PassCosts& costs, const std::string& source)
      : schedule_(schedule),
        costs_(costs),
        source_(source),
        results_(schedule),
        next_(schedule.order.size(), 0),
        free_(schedule.order.size(), 0.0),
        ready_(results_.count(), kNotReady),
        first_waiter_(results_.count(), kNone),
        next_waiter_(schedule.order.size(), kNone) {}

  ScheduleTimes run() {
    times_.start.resize(schedule_.order.size());
    for (std::size_t rank = 0; rank < next_.size(); ++rank) runnable_.push_back(rank);
    while (!runnable_.empty()) {
      const std::size_t rank = runnable_.back();
      runnable_.pop_back();
      while (advance(rank)) {
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
  static constexpr double kNotReady = -1;

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

  /// One past the passes that run together from `begin` on.
  [[nodiscard]] static std::size_t end_of_overlap(const std::vector<Pass>& order, std::size_t begin) {
    std::size_t end = begin + 1;
    while (order[end - 1].with_next && end < order.size()) ++end;
    return end;
  }

  /// The first of the passes [begin, end) that has to wait; null if none has.
  [[nodiscard]] const Pass* blocked(const std::vector<Pass>& order, std::size_t begin,
                                    std::size_t end) const {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t awaited = results_.awaited_by(order[i]);
      if (awaited != kNone && ready_[awaited] < 0) return &order[i];
    }
    return nullptr;
  }

  /// Runs the next pass of a rank, or the next two that overlap. False at its end and where it has to wait.
  bool advance(std::size_t rank) {
    const std::vector<Pass>& order = schedule_.order[rank];
    const std::size_t begin = next_[rank];
    if (begin == order.size()) return false;
    const std::size_t end = end_of_overlap(order, begin);
    if (const Pass* pass = blocked(order, begin, end)) {
      std::size_t& first = first_waiter_[results_.awaited_by(*pass)];
      next_waiter_[rank] = first;
      first = rank;
      return false;
    }
    double start = free_[rank];
    double duration = 0;
    for (std::size_t i = begin; i < end; ++i) {
      duration += cost(order[i]);
      const std::size_t awaited = results_.awaited_by(order[i]);
      if (awaited != kNone) start = std::max(start, ready_[awaited]);
    }
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t made = results_.made_by(order[i]);
      ready_[made] = start + duration;
      times_.start[rank].push_back(start);
      for (std::size_t r = std::exchange(first_waiter_[made], kNone); r != kNone; r = next_waiter_[r]) {
        runnable_.push_back(r);
      }
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
    times_.idle.push_back(times_.makespan - busy);
    times_.most_alive.push_back(most);
  }

  /// Follows who waits for whom from a rank that does not get on until a rank comes up again.
  [[noreturn]] void refuse(std::size_t rank) const {
    std::vector<std::size_t> runs_on(results_.count(), kNone);
    for (std::size_t r = 0; r < schedule_.order.size(); ++r) {
      for (const Pass& pass : schedule_.order[r]) runs_on[results_.made_by(pass)] = r;
    }
    std::vector<std::size_t> place(next_.size(), kNone);  // [rank]: where it is on the way
    std::vector<std::string> way;
    while (place[rank] == kNone) {
      const std::vector<Pass>& order = schedule_.order[rank];
      const Pass& pass = *blocked(order, next_[rank], end_of_overlap(order, next_[rank]));
      place[rank] = way.size();
      way.push_back(text_of(pass) + " on rank " + std::to_string(rank));
      rank = runs_on[results_.awaited_by(pass)];
      if (rank == kNone) {
        throw InputError({source_, {}, {}}, "the schedule never runs what " + text_of(pass) + " waits for",
                         "each microbatch passes each stage once, forward and backward");
      }
    }
    const std::size_t begin = place[rank];
    std::string circle = way[begin];
    constexpr std::size_t kShown = 8;
    for (std::size_t i = begin + 1; i < std::min(way.size(), begin + kShown); ++i) circle += ", " + way[i];
    if (way.size() > begin + kShown) {
      circle += " and " + std::to_string(way.size() - begin - kShown) + " more";
    }
    throw InputError(
        {source_, {}, {}},
        "the schedule deadlocks: " + circle +
            (way.size() == begin + 1 ? " comes before what it waits for" : " wait for each other"),
        "another order of passes");
  }

  const PipelineSchedule& schedule_;
  const PassCosts& costs_;
  const std::string& source_;
  Results results_;
  std::vector<std::size_t> next_;          // [rank]: position in its order
  std::vector<double> free_;               // [rank]: end of its last pass
  std::vector<double> ready_;              // [result]
  std::vector<std::size_t> first_waiter_;  // [result]: a rank that waits for it
  std::vector<std::size_t> next_waiter_;   // [rank]: another rank that waits for the same
  std::vector<std::size_t> runnable_;      // ranks that may get on
  ScheduleTimes times_;
};

}  // namespace

ScheduleTimes time_schedule(const PipelineSchedule& schedule, const PassCosts& costs,
                            const std::string& source) {
  return Timing(schedule, costs, source).run();
}

}  // namespace prism
