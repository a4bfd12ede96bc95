// SPDX-License-Identifier: Apache-2.0
// Search over ways to run a plan: parallel degrees, schedules and microbatch sizes on the same GPUs with the same global batch,
// each simulated with the same random numbers, ranked by median and by p95.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "prism/engine/summary.hpp"
#include "prism/plan/plan.hpp"
#include "prism/run/control.hpp"

namespace prism {

/// Values to try; an empty list keeps the plan's own.
struct SweepSpace {
  std::vector<std::int64_t> tp;
  std::vector<std::int64_t> cp;
  std::vector<std::int64_t> pp;
  std::vector<std::int64_t> ep;
  std::vector<std::int64_t> micro_batch;
  std::vector<std::int64_t> chunks;  ///< of interleaved schedules
  std::vector<ScheduleKind> schedules;
  std::vector<int> zero;
  std::vector<Recompute> recompute;
};

struct SweepOptions {
  SweepSpace space;
  std::uint32_t samples = 200;
  std::uint32_t seed = 1;
  std::optional<std::int64_t> gpus;  ///< in place of the plan's
};

/// A difference of one quantile to the best way's, with its paired interval.
struct PairedDifference {
  double value_ns = 0;
  double low_ns = 0;
  double high_ns = 0;
};

struct SweepRow {
  Parallel parallel;
  ScheduleChoice schedule;
  std::int64_t micro_batch = 1;
  std::int64_t microbatches = 1;
  QuantileEstimate p50;
  QuantileEstimate p95;
  double mean_ns = 0;
  double memory_bytes = 0;      ///< of the fullest GPU
  std::size_t rank_by_p50 = 0;  ///< from 1
  std::size_t rank_by_p95 = 0;
  PairedDifference p50_to_best;
  PairedDifference p95_to_best;
};

struct SweepRefusal {
  std::string reason;  ///< without numbers that differ from way to way
  std::size_t count = 0;
  std::string example;  ///< one whole message
};

struct SweepResult {
  std::vector<SweepRow> rows;  ///< by p50
  std::vector<SweepRefusal> refused;
  std::size_t tried = 0;
  std::string source;
  std::string digest;
  std::int64_t gpus = 0;
  std::int64_t global_batch = 0;
  std::uint32_t samples = 0;
  std::vector<std::string> warnings;
};

/// Throws InputError if the plan is free-form, the space is too large (more than 10,000 ways) or no way is possible.
SweepResult sweep_plan(const Plan& plan, const SweepOptions& options, const RunControl& control);

/// "tp 8 pp 16 dp 128, interleaved x8, micro-batch 1".
std::string way_text(const SweepRow& row);

}  // namespace prism
