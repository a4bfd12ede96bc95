// SPDX-License-Identifier: Apache-2.0
// Bytes as a profiler trace: an InputError, or a trace whose parts fit together; the same trace through a
// window of a few bytes; what strict reading takes, tolerant reading takes without another word.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "prism/ingest/json_string.hpp"
#include "prism/ingest/kineto.hpp"
#include "prism/ingest/kineto_notes.hpp"
#include "prism/ingest/kineto_reader.hpp"
#include "prism/io/byte_stream.hpp"
#include "prism/trace/error.hpp"
#include "tests/fuzz/require.hpp"

namespace {

using namespace prism;
using prism::fuzz::require;

void check_sorted(const auto& events, const RankTrace& trace) {
  require(std::ranges::is_sorted(events, {}, [](const auto& event) { return event.start_ns; }), "not sorted");
  for (const auto& event : events) {
    require(event.duration_ns >= 0, "negative duration");
    require(event.start_ns <= event.start_ns + event.duration_ns, "end before start");
    if constexpr (requires { event.name; }) require(event.name.value < trace.names.size(), "no such name");
    if constexpr (requires { event.thread; })
      require(event.thread.value < trace.threads.size(), "no such thread");
    if constexpr (requires { event.comm; }) {
      require(!event.comm || event.comm->value < trace.comms.size(), "no such communication");
    }
  }
}

void check(const RankTrace& trace) {
  check_sorted(trace.gpu_ops, trace);
  check_sorted(trace.calls, trace);
  check_sorted(trace.syncs, trace);
  check_sorted(trace.cpu_ops, trace);
  check_sorted(trace.annotations, trace);
  require(!trace.names.empty() && trace.names[0].empty(), "name 0 is not empty");
  for (const std::string& name : trace.names) require(is_utf8(name), "a name is not UTF-8");
  for (const std::string& thread : trace.threads) require(is_utf8(thread), "a thread is not UTF-8");
  require(trace.rank.has_value(), "no rank");
  require(trace.counts.gpu_ops == trace.gpu_ops.size() + trace.counts.gpu_ops_set_aside, "GPU ops are lost");
  require(trace.counts.events >= trace.counts.complete_events, "more complete events than events");
}

/// Everything crosses the end of such a window; nothing may change.
void check_small_window(std::string_view bytes, const RankTrace& trace, const ImportReport& report) {
  ByteStream stream(bytes, "fuzz.json");
  KinetoNotes notes("fuzz.json", false);
  const RankTrace other =
      read_kineto_stream(stream, {}, notes, {.window_bytes = 40, .most_window_bytes = std::size_t{64} << 20});
  const auto same = [](const auto& a, const auto& b) {
    return std::ranges::equal(
        a, b, {}, [](const auto& e) { return std::pair(e.start_ns, e.duration_ns); },
        [](const auto& e) { return std::pair(e.start_ns, e.duration_ns); });
  };
  require(same(trace.gpu_ops, other.gpu_ops) && same(trace.calls, other.calls) &&
              same(trace.cpu_ops, other.cpu_ops) && same(trace.annotations, other.annotations) &&
              trace.names == other.names && trace.threads == other.threads && trace.comms == other.comms &&
              trace.groups == other.groups && trace.digest == other.digest &&
              trace.counts.events == other.counts.events && trace.complete == other.complete,
          "the trace depends on the window");
  ImportReport other_report;
  notes.put_into(other_report);
  std::size_t entry = 0;
  for (const ImportEntry& expected : report.entries()) {
    if (expected.reason.starts_with("rank ")) continue;  // said by the caller of the stream
    require(entry < other_report.entries().size() &&
                other_report.entries()[entry].reason == expected.reason &&
                other_report.entries()[entry].count == expected.count &&
                other_report.entries()[entry].places == expected.places,
            "the report depends on the window");
    ++entry;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  ImportReport report;
  try {
    const RankTrace trace = read_kineto_bytes(bytes, "fuzz.json", {}, report);
    check(trace);
    check_small_window(bytes, trace, report);
    ImportReport strict_report;
    const RankTrace strict =
        read_kineto_bytes(bytes, "fuzz.json", {.strict = true, .rank = {}}, strict_report);
    require(strict.digest == trace.digest, "strict and tolerant reading differ");
    require(strict_report.entries().size() == report.entries().size(),
            "strict reading reports something else");
  } catch (const InputError&) {
    return 0;
  }
  return 0;
}
