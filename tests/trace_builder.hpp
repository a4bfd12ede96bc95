// SPDX-License-Identifier: Apache-2.0
// Profiler traces written in code, for tests: events are added by name and sorted by start at the end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "prism/trace/rank_trace.hpp"

namespace prism {

class TraceBuilder {
 public:
  explicit TraceBuilder(int rank, std::string source = {}) {
    trace_.rank = rank;
    trace_.source = source.empty() ? "rank" + std::to_string(rank) + ".json" : std::move(source);
    trace_.absolute_time = true;
    trace_.names.emplace_back();
  }

  RankTrace& trace() { return trace_; }

  NameId name(std::string_view text) {
    const auto found = std::ranges::find(trace_.names, text);
    if (found == trace_.names.end()) trace_.names.emplace_back(text);
    return NameId(static_cast<std::size_t>(std::ranges::find(trace_.names, text) - trace_.names.begin()));
  }
  ThreadId thread(std::string_view text) {
    const auto found = std::ranges::find(trace_.threads, text);
    if (found == trace_.threads.end()) trace_.threads.emplace_back(text);
    return ThreadId(
        static_cast<std::size_t>(std::ranges::find(trace_.threads, text) - trace_.threads.begin()));
  }
  CommId comm(CommRecord record) {
    trace_.comms.push_back(std::move(record));
    return CommId(trace_.comms.size() - 1);
  }

  /// The op can be changed through the reference until the next one is added.
  GpuOp& kernel(std::string_view kernel_name, std::int64_t start_ns, std::int64_t duration_ns,
                std::int64_t correlation, std::uint64_t stream = 7) {
    GpuOp& op = trace_.gpu_ops.emplace_back();
    op.name = name(kernel_name);
    op.start_ns = start_ns;
    op.duration_ns = duration_ns;
    op.correlation = correlation;
    op.stream = stream;
    op.device = 0;
    return op;
  }
  HostCall& call(std::string_view call_name, std::int64_t start_ns, std::int64_t duration_ns,
                 std::int64_t correlation, std::string_view on_thread = "1") {
    return trace_.calls.emplace_back(
        HostCall{start_ns, duration_ns, correlation, thread(on_thread), name(call_name), {}});
  }
  /// A call of another kind than a launch, with a correlation of its own, which is returned.
  std::int64_t call(HostCallKind kind, std::string_view call_name, std::int64_t start_ns,
                    std::int64_t duration_ns, std::string_view on_thread = "1") {
    call(call_name, start_ns, duration_ns, next_correlation_, on_thread).kind = kind;
    return next_correlation_++;
  }
  /// A kernel and the call of 2 us that launched it.
  GpuOp& launch(std::string_view kernel_name, std::int64_t call_ns, std::int64_t start_ns,
                std::int64_t duration_ns, std::uint64_t stream = 7, std::string_view on_thread = "1") {
    call("cudaLaunchKernel", call_ns, 2'000, next_correlation_, on_thread);
    return kernel(kernel_name, start_ns, duration_ns, next_correlation_++, stream);
  }
  void sync(const SyncRecord& record) { trace_.syncs.push_back(record); }
  void cpu_op(std::string_view op_name, std::int64_t start_ns, std::int64_t duration_ns,
              std::string_view on_thread = "1") {
    trace_.cpu_ops.push_back({start_ns, duration_ns, thread(on_thread), name(op_name), {}});
  }
  void record(std::int64_t start_ns, std::int64_t duration_ns, CommRecord content,
              std::string_view on_thread = "1") {
    trace_.cpu_ops.push_back(
        {start_ns, duration_ns, thread(on_thread), name("record_param_comms"), comm(std::move(content))});
  }
  void annotation(std::string_view text, std::int64_t start_ns, std::int64_t duration_ns,
                  std::string_view on_thread = "1") {
    trace_.annotations.push_back({start_ns, duration_ns, thread(on_thread), name(text)});
  }

  RankTrace finish() {
    const auto by_start = [](auto& events) {
      std::ranges::stable_sort(events, {}, [](const auto& event) { return event.start_ns; });
    };
    by_start(trace_.gpu_ops);
    by_start(trace_.calls);
    by_start(trace_.syncs);
    by_start(trace_.cpu_ops);
    by_start(trace_.annotations);
    return std::move(trace_);
  }

 private:
  static constexpr std::int64_t kFirstCorrelation = 1'000'000;  // those given by hand are smaller
  RankTrace trace_;
  std::int64_t next_correlation_ = kFirstCorrelation;
};

}  // namespace prism
