// SPDX-License-Identifier: Apache-2.0
// One event of a PyTorch profiler trace as text: which kind it is, and the fields that are used. Internal to
// the reader of such traces.
//
// Most events of a trace are of no use here (Python functions, flows, metadata). They are left as soon as
// their phase and category are known, and the rest of their text is only skipped.
#pragma once

#include <cstdint>
#include <string_view>

#include "prism/ingest/json_text.hpp"

namespace prism {

enum class KinetoKind : std::uint8_t {
  Other,  ///< of no use
  Kernel,
  Memcpy,
  Memset,
  HostCall,  ///< runtime and driver calls of any vendor
  Sync,
  CudaEvent,
  CpuOp,
  Annotation,
  PythonFunction,
  MtiaDevice,
};

/// By category, in any case; names of all PyTorch versions since 1.8.
[[nodiscard]] KinetoKind kineto_kind(std::string_view category);

[[nodiscard]] constexpr bool is_gpu_op(KinetoKind kind) {
  return kind == KinetoKind::Kernel || kind == KinetoKind::Memcpy || kind == KinetoKind::Memset;
}

/// What stands in `args`, as raw text; empty where absent. A number and a string with a number in it look
/// alike. Of a repeated key the last counts.
struct KinetoArgs {
  std::string_view device, stream, correlation, bytes, graph;
  std::string_view sync_kind, wait_on_stream, wait_on_record;
  std::string_view collective, dtype, group, group_description, group_size, group_ranks;
  std::string_view in_elements, out_elements, source, destination, sequence, comms_id;
  std::string_view inputs;      ///< "Concrete Inputs", the text of the array
  std::string_view input_dims;  ///< "Input Dims", likewise
};

struct KinetoHead {
  char phase = 0;  ///< 'X', 'B', 'E', 's', ...; 0: none
  KinetoKind kind = KinetoKind::Other;
  bool flow = false;     ///< category of launch flows
  bool skipped = false;  ///< of no use; nothing below is filled
  bool repeated_key = false;
  bool name_has_escape = false;
  bool has_args = false;  ///< `args` of the event are of use and were there
  std::string_view name, pid, tid, start, duration, id;
};

/// In two parts, as most events need the first only, and clearing the second takes longer than reading them.
struct KinetoEvent : KinetoHead {
  KinetoArgs args;  ///< all empty without `has_args`
};

/// Takes the event at which `text` stands (an opening brace). Fails like all of JsonText. The event's fields
/// point into the text. Flows are of use only `with_flows`.
[[nodiscard]] bool read_kineto_event(JsonText& text, bool with_flows, KinetoEvent& event);

}  // namespace prism
