// SPDX-License-Identifier: Apache-2.0
// Turns the events of a profiler trace into a RankTrace: what is kept, linked, set aside and put in order.
// Internal to the reader of such traces.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "prism/ingest/kineto_event.hpp"
#include "prism/ingest/kineto_metadata.hpp"
#include "prism/ingest/kineto_notes.hpp"
#include "prism/ingest/name_table.hpp"
#include "prism/trace/rank_trace.hpp"

namespace prism {

class RankTraceBuilder {
 public:
  explicit RankTraceBuilder(KinetoNotes& notes) : notes_(notes) {}

  /// Keeps what is of use of an event that starts at this byte of the file.
  void add(const KinetoEvent& event, std::uint64_t byte);

  /// Whether launch flows are worth reading: an event has come that should have a correlation and has none.
  [[nodiscard]] bool wants_flows() const { return wants_flows_; }

  /// The trace: sorted, linked, in absolute time if the file allows it. Rank, source and completeness are
  /// left to the caller. The builder is used up.
  [[nodiscard]] RankTrace finish(KinetoMetadata metadata);

 private:
  /// Of begin events until their end has come: a negative duration, which nothing else has.
  static constexpr std::int64_t kOpen = -1;
  struct Begin {
    KinetoKind kind = KinetoKind::Other;
    std::uint32_t index = 0;  ///< into the vector of its kind
    std::int64_t start_ns = 0;
    std::uint64_t byte = 0;
  };
  struct Flow {
    std::int64_t start_ns = 0;
    std::int64_t correlation = 0;
    std::uint64_t row = 0;  ///< thread, or device and stream
  };

  void add_complete(const KinetoEvent& event, std::uint64_t byte);
  void add_begin(const KinetoEvent& event, std::uint64_t byte);
  void add_end(const KinetoEvent& event, std::uint64_t byte);
  void add_flow(const KinetoEvent& event);
  /// Keeps the event; false if its kind keeps nothing.
  bool keep(const KinetoEvent& event, std::int64_t start_ns, std::int64_t duration_ns, std::uint64_t byte);
  void keep_gpu_op(const KinetoEvent& event, std::int64_t start_ns, std::int64_t duration_ns,
                   std::uint64_t byte);
  void keep_sync(const KinetoEvent& event, std::int64_t start_ns, std::int64_t duration_ns);

  NameId name(std::string_view raw, bool has_escape);
  NameId name(std::string_view raw) { return name(raw, raw.find('\\') != std::string_view::npos); }
  ThreadId thread(const KinetoEvent& event);
  CommId comm(const KinetoArgs& args);
  std::int64_t correlation(const KinetoEvent& event);
  std::int64_t* duration_of(const Begin& begin);
  [[nodiscard]] std::size_t size_of(KinetoKind kind) const;

  void drop_open_begins();
  void link_flows();
  void set_aside_lost_gpu_ops();
  void keep_linked_calls();
  void complete_members(const std::vector<ProcessGroup>& groups);
  void add_base(const KinetoMetadata& metadata);

  KinetoNotes& notes_;
  RankTrace trace_;
  NameTable names_;
  NameTable threads_;
  std::string last_thread_key_;
  std::string thread_key_;
  ThreadId last_thread_;
  std::unordered_map<std::uint32_t, std::vector<Begin>> begins_;  ///< by thread
  std::vector<Flow> host_flows_;
  std::vector<Flow> device_flows_;
  bool wants_flows_ = false;
  bool whole_micros_ = true;  ///< so far, of GPU ops
};

}  // namespace prism
