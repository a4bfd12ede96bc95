// SPDX-License-Identifier: Apache-2.0
#include "tests/made_trace/trace_text.hpp"

#include <fmt/format.h>

namespace prism {

namespace {

class TraceText {
 public:
  explicit TraceText(const RankTrace& trace) : trace_(trace) {}

  std::vector<std::string> lines() {
    const auto optional = [](const auto& value) {
      return value ? fmt::to_string(*value) : std::string("none");
    };
    add("rank {} of {}, backend {}, gpu {}, host {}, clock {}, base {}, absolute {}, complete {}",
        optional(trace_.rank), optional(trace_.world_size), trace_.backend, trace_.gpu_name, trace_.host,
        trace_.common_clock, optional(trace_.base_time_ns), trace_.absolute_time, trace_.complete);
    for (const ProcessGroup& g : trace_.groups) {
      add("group {} {} size {} [{}]", g.name, g.description, g.size, fmt::join(g.members, " "));
    }
    for (const GpuOp& op : trace_.gpu_ops) {
      add("gpu {} {} kind {} device {} stream {} correlation {} bytes {} graph {} {}{}", op.start_ns,
          op.duration_ns, static_cast<int>(op.kind), op.device, op.stream, op.correlation, op.bytes, op.graph,
          trace_.name(op.name), comm(op.comm));
    }
    for (const HostCall& c : trace_.calls) {
      add("call {} {} kind {} correlation {} thread {} {}", c.start_ns, c.duration_ns,
          static_cast<int>(c.kind), c.correlation, trace_.threads[c.thread.value], trace_.name(c.name));
    }
    for (const SyncRecord& s : trace_.syncs) {
      add("sync {} {} kind {} correlation {} event {} stream {} awaited {} device {}", s.start_ns,
          s.duration_ns, static_cast<int>(s.kind), s.correlation, s.event_correlation, optional(s.stream),
          optional(s.awaited_stream), s.device);
    }
    for (const CpuOp& op : trace_.cpu_ops) {
      add("op {} {} thread {} {}{}", op.start_ns, op.duration_ns, trace_.threads[op.thread.value],
          trace_.name(op.name), comm(op.comm));
    }
    for (const Annotation& a : trace_.annotations) {
      add("annotation {} {} thread {} {}", a.start_ns, a.duration_ns, trace_.threads[a.thread.value],
          trace_.name(a.name));
    }
    return std::move(lines_);
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    lines_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  [[nodiscard]] std::string comm(const std::optional<CommId>& id) const {
    if (!id) return "";
    const CommRecord& c = trace_.comms[id->value];
    return fmt::format(" | {} {} group {} ({}) size {} in {} out {} {}->{} seq {} id {} pointer {} [{}]",
                       trace_.name(c.collective), trace_.name(c.dtype), trace_.name(c.group),
                       trace_.name(c.group_description), c.group_size, c.in_elements, c.out_elements,
                       c.source, c.destination, c.sequence, c.comms_id ? fmt::to_string(*c.comms_id) : "none",
                       c.group_pointer ? fmt::to_string(*c.group_pointer) : "none",
                       fmt::join(c.members, " "));
  }

  const RankTrace& trace_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> trace_text(const RankTrace& trace) {
  return TraceText(trace).lines();
}

}  // namespace prism
