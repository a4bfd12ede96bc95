// SPDX-License-Identifier: Apache-2.0
#include "prism/plan/schedule.hpp"

#include <algorithm>

#include "prism/plan/schedule_orders.hpp"
#include "prism/trace/error.hpp"

namespace prism {

namespace {

constexpr std::int64_t kMostPasses = std::int64_t{1} << 22;

[[noreturn]] void refuse(const std::string& source, ScheduleKind kind, const std::string& problem,
                         const std::string& fix) {
  throw InputError({source, {}, {}}, "schedule '" + std::string(schedule_name(kind)) + "' " + problem, fix);
}

void check_sizes(const ScheduleChoice& choice, std::int64_t p, std::int64_t m, const std::string& source) {
  if (p < 1 || m < 1 || choice.chunks < 1) {
    refuse(source, choice.kind, "needs at least one pipeline rank, one microbatch and one chunk",
           "positive numbers");
  }
  if (p > kMostPasses || m > kMostPasses || choice.chunks > kMostPasses || p * m > kMostPasses ||
      p * m * choice.chunks > kMostPasses) {
    refuse(source, choice.kind,
           "would have " + std::to_string(p) + " ranks x " + std::to_string(m) + " microbatches x " +
               std::to_string(choice.chunks) + " chunks",
           "at most 4 million passes");
  }
}

void check_dualpipe(const ScheduleChoice& choice, std::int64_t p, std::int64_t m, const std::string& source) {
  if (choice.kind == ScheduleKind::DualPipe && (p % 2 != 0 || m % 2 != 0)) {
    refuse(source, choice.kind,
           "needs an even number of pipeline ranks and of microbatches, not " + std::to_string(p) + " and " +
               std::to_string(m),
           "its two directions share both");
  }
  if (m < 2 * p) {
    refuse(source, choice.kind,
           "needs at least twice as many microbatches as pipeline ranks: " + std::to_string(2 * p) +
               ", not " + std::to_string(m),
           "more microbatches, or zb-v");
  }
}

/// The rule of ZB-V is written for at least 2p - 1 microbatches; each rank goes through all of them.
void check_zero_bubble_v(const ScheduleChoice& choice, std::int64_t p, const std::string& source) {
  if (p * (2 * p - 1) > kMostPasses) {
    refuse(source, choice.kind, "would have " + std::to_string(p) + " pipeline ranks", "at most 1,448");
  }
}

bool has_two_chunks(ScheduleKind kind) {
  return kind == ScheduleKind::ZeroBubbleV || kind == ScheduleKind::DualPipeV;
}

/// Refuses the numbers of ranks, microbatches and chunks that the schedule's rule is not made for.
void check_admitted(const ScheduleChoice& choice, std::int64_t p, std::int64_t m, const std::string& source) {
  check_sizes(choice, p, m, source);
  const std::string chunks = std::to_string(choice.chunks);
  if (has_two_chunks(choice.kind)) {
    if (choice.chunks != 2) {
      refuse(source, choice.kind, "has two virtual stages per rank, not " + chunks, "2");
    }
  } else if (choice.kind != ScheduleKind::Interleaved && choice.chunks != 1) {
    refuse(source, choice.kind, "has one virtual stage per rank, not " + chunks,
           "leave the number out, or use 'interleaved'");
  }
  if (choice.kind == ScheduleKind::DualPipe || choice.kind == ScheduleKind::DualPipeV) {
    check_dualpipe(choice, p, m, source);
  }
  if (choice.kind == ScheduleKind::ZeroBubbleV) check_zero_bubble_v(choice, p, source);
  if (choice.kind == ScheduleKind::Interleaved && (choice.group < 0 || choice.group > kMostPasses)) {
    refuse(source, choice.kind, "has a group of " + std::to_string(choice.group) + " microbatches",
           "at least pp, at most the number of microbatches");
  }
}

/// Stages in the order that placement gives: rank_of[stage].
std::vector<std::int32_t> looped(std::int32_t p, std::int32_t chunks) {
  std::vector<std::int32_t> rank_of;
  for (std::int32_t stage = 0; stage < p * chunks; ++stage) rank_of.push_back(stage % p);
  return rank_of;
}
std::vector<std::int32_t> there_and_back(std::int32_t p) {
  std::vector<std::int32_t> rank_of;
  for (std::int32_t stage = 0; stage < 2 * p; ++stage)
    rank_of.push_back(stage < p ? stage : 2 * p - 1 - stage);
  return rank_of;
}

}  // namespace

PipelineSchedule make_schedule(const ScheduleChoice& choice, std::int64_t p, std::int64_t m,
                               const std::string& source) {
  check_admitted(choice, p, m, source);
  const auto ranks = static_cast<std::int32_t>(p);
  const auto microbatches = static_cast<std::int32_t>(m);
  const auto chunks = static_cast<std::int32_t>(choice.chunks);
  const auto group = choice.group == 0 ? ranks : static_cast<std::int32_t>(choice.group);
  PipelineSchedule schedule{.ranks = ranks, .stages = ranks * chunks, .microbatches = microbatches};
  schedule.rank_of = {has_two_chunks(choice.kind) ? there_and_back(ranks) : looped(ranks, chunks)};
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    std::vector<Pass>& order = schedule.order.emplace_back();
    switch (choice.kind) {
      case ScheduleKind::GPipe:
        order = gpipe_order(rank, microbatches);
        break;
      case ScheduleKind::OneForwardOneBackward:
        order = one_f_one_b_order(rank, ranks, microbatches);
        break;
      case ScheduleKind::Interleaved:
        order = interleaved_order(rank, ranks, microbatches, chunks, group);
        break;
      case ScheduleKind::ZeroBubbleH1:
        order = zero_bubble_h1_order(rank, ranks, microbatches);
        break;
      case ScheduleKind::ZeroBubbleV:
        order = zero_bubble_v_order(rank, ranks, microbatches);
        break;
      case ScheduleKind::DualPipe:
        order = dualpipe_order(rank, ranks, microbatches);
        break;
      case ScheduleKind::DualPipeV:
        order = dualpipe_v_order(rank, ranks, microbatches);
        break;
      case ScheduleKind::Table:
        refuse(source, choice.kind, "is read from a file", "parse_schedule_table");
    }
  }
  if (choice.kind == ScheduleKind::DualPipe) {
    schedule.copies = 2;
    schedule.rank_of.push_back(schedule.rank_of.front());
    std::ranges::reverse(schedule.rank_of.back());
  }
  if (choice.kind == ScheduleKind::Interleaved) {
    try {
      time_schedule(schedule, {}, source);
    } catch (const InputError&) {
      refuse(source, choice.kind,
             "deadlocks with " + std::to_string(m) + " microbatches in groups of " + std::to_string(group) +
                 " on " + std::to_string(p) + " ranks",
             "a group of at least pp, and a multiple of it (or at least pp more) microbatches");
    }
  }
  return schedule;
}

}  // namespace prism
