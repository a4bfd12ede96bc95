// SPDX-License-Identifier: Apache-2.0
// An op-level timeline as read: one record per recorded op, plus what the metadata file says about the job.
//
// Readers of this kind of trace (prism/ingest) fill it, the model reads it, and neither knows the other.
// Records keep the file's order and are not checked against each other here; prism/model aligns them into
// rectangular steps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "prism/trace/op_type.hpp"
#include "prism/trace/time.hpp"

namespace prism {

/// One recorded op of one worker in one step.
struct OpRecord {
  std::int32_t dp_rank = 0;  ///< data-parallel replica
  std::int32_t stage = 0;    ///< pipeline rank
  std::int32_t rank = 0;     ///< global rank of the recorded worker
  std::int32_t step = 0;     ///< training step number
  OpType type = OpType::Gc;
  std::int32_t seq = 0;          ///< 0, 1, ... in start order among one type in one (step, rank)
  std::int32_t chunk = -1;       ///< virtual pipeline chunk inside the rank; -1 where it does not apply
  std::int32_t microbatch = -1;  ///< valid for compute ops only
  Nanos start{};                 ///< relative to the first start of any rank in the step
  Nanos duration{};              ///< observed; a communication op's includes waiting for its peers
  std::uint32_t line = 0;        ///< line of the file, from 1
};

/// Parallel sizes as declared beside the trace. A declared size is a claim to check, never used unchecked.
struct JobMeta {
  std::string source;  ///< file it was read from; empty: none was found
  std::optional<std::string> trial_name;
  std::optional<int> dp_size;
  std::optional<int> pp_size;
  std::optional<int> tp_size;
  std::optional<int> dsp_size;  ///< sequence-parallel split ("dsp"), the cp axis of the mesh
  std::optional<int> vpp_size;
  std::optional<int> world_size;
};

struct OpTimeline {
  std::string source;  ///< file or folder, as given
  std::vector<OpRecord> records;
  JobMeta meta;
};

}  // namespace prism
