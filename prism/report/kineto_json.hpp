// SPDX-License-Identifier: Apache-2.0
// A rank's trace as the JSON that PyTorch's profiler (Kineto) writes, in its dialect of 2026.
//
// Strict JSON, one event in a few lines, in pieces: the document is never in memory as a whole.
//
//   OutputFile file("rank0.json.gz");
//   write_kineto_json(trace, "rank0.json.gz", [&](std::string_view piece) { file.write(piece); });
//   file.commit();
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "prism/trace/rank_trace.hpp"

namespace prism {

/// Gets the pieces of a document, in order.
using TextSink = std::function<void(std::string_view)>;

/// Writes the trace: header, host events, GPU events, flows from launches to GPU ops, names of processes and
/// threads. `trace_name` is what the document calls itself.
///
/// Times are microseconds with three decimals, less the base time if the trace has one; nothing is clamped.
/// Of host, common clock, counts and digest, the first two are written ("host_name", "common_clock"). Bytes of names that are not UTF-8 become
/// U+FFFD. A record with a group pointer is written as PyTorch 1.9 to 2.2 did, by position.
void write_kineto_json(const RankTrace& trace, std::string_view trace_name, const TextSink& sink);

/// The whole document.
std::string kineto_json(const RankTrace& trace, std::string_view trace_name);

}  // namespace prism
