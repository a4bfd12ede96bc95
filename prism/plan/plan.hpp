// SPDX-License-Identifier: Apache-2.0
// A plan: what a plan file (TOML) says, checked, with defaults filled in. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "prism/plan/cluster.hpp"
#include "prism/plan/collective_cost.hpp"
#include "prism/plan/parallel.hpp"
#include "prism/plan/pass_program.hpp"
#include "prism/plan/precisions.hpp"
#include "prism/plan/stage_programs.hpp"
#include "prism/plan/transformer.hpp"
#include "prism/plan/variability.hpp"
#include "prism/trace/import_report.hpp"

namespace prism {

/// One value that a plan uses, and where it comes from.
struct Setting {
  std::string key;    ///< "cluster.nic_gb_per_s"
  std::string value;  ///< "50"
  std::string
      source;  ///< "line 12", "config.json", or the default's source: "default: NVIDIA H100 data sheet"
  bool given = false;  ///< in the plan file
};

/// An op of a free-form plan, for what is no transformer.
struct FreeOp {
  enum class Phase : std::uint8_t { Forward, Backward, BackwardWeight, StepEnd } phase = Phase::Forward;
  std::int64_t stage = 0;  ///< virtual stage; ops of StepEnd: pipeline rank
  PassOp op;
};

struct Plan {
  std::string source;  ///< file
  std::string digest;
  std::string name;
  std::optional<Transformer> model;  ///< or
  std::vector<FreeOp> free_ops;
  Microbatch microbatch;
  std::int64_t microbatches = 1;  ///< per replica and step (gradient accumulation)
  double boundary_bytes = 0;      ///< free-form plans: sent from stage to stage per microbatch and rank
  double memory_reserve_gb = 4;   ///< of a GPU's memory, not for the model
  bool check_memory = true;
  Parallel parallel;
  ScheduleChoice schedule;
  std::string schedule_table;  ///< content of the schedule's file, of ScheduleKind::Table
  Precisions precisions;
  Cluster cluster;
  MeasuredCollectives collectives;
  Variability variability;
  std::vector<Setting> settings;  ///< all that are used, in the order of the documentation
  ImportReport report;            ///< of measured files

  [[nodiscard]] std::int64_t global_batch() const {
    return microbatch.sequences * microbatches * parallel.dp;
  }
};

}  // namespace prism
