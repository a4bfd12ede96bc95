// SPDX-License-Identifier: Apache-2.0
#include "prism/report/kineto_json.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace prism {

namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 16;
constexpr std::uint64_t kStreamSyncRow = 1'000'000;  // added to the stream, so that kernels do not hide it
constexpr std::int64_t kGpuSortIndex = 5'000'000;    // GPUs are shown below processes
constexpr std::int64_t kSpanSortIndex = 536'870'912;

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool is_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

/// Microseconds with three decimals.
std::string microseconds(std::int64_t ns) {
  const bool negative = ns < 0;
  const std::uint64_t size = negative ? 0 - static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
  return fmt::format("{}{}.{:03}", negative ? "-" : "", size / 1000, size % 1000);
}

std::string list_text(const std::vector<std::int32_t>& numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

/// The pid and tid of a thread, as JSON values.
struct Row {
  std::string process;
  std::string thread;
};

Row row_of(const std::string& thread) {
  const std::size_t slash = thread.find('/');
  const auto json = [](std::string_view text) {
    return is_integer(text) ? std::string(text) : json_string(text);
  };
  if (slash == std::string::npos) return {"0", json(thread)};
  return {json(std::string_view(thread).substr(0, slash)), json(std::string_view(thread).substr(slash + 1))};
}

/// Driver calls are named cuLaunchKernel, those of the runtime cudaLaunchKernel.
bool is_driver_call(std::string_view name) {
  return name.size() > 2 && name.starts_with("cu") && std::isupper(static_cast<unsigned char>(name[2])) != 0;
}

std::string_view category_of(GpuOpKind kind) {
  switch (kind) {
    case GpuOpKind::Memcpy:
      return "gpu_memcpy";
    case GpuOpKind::Memset:
      return "gpu_memset";
    case GpuOpKind::Kernel:
      return "kernel";
  }
  return "kernel";
}

std::string_view name_of(SyncRecord::Kind kind) {
  switch (kind) {
    case SyncRecord::Kind::StreamSync:
      return "Stream Sync";
    case SyncRecord::Kind::EventSync:
      return "Event Sync";
    case SyncRecord::Kind::ContextSync:
      return "Context Sync";
    case SyncRecord::Kind::StreamWait:
      return "Stream Wait Event";
    case SyncRecord::Kind::EventRecord:
      return "cudaEventRecord";
  }
  return "Context Sync";
}

class Writer {
 public:
  Writer(const RankTrace& trace, const TextSink& sink) : trace_(trace), sink_(sink) {
    names_.reserve(trace.names.size());
    for (const std::string& name : trace.names) names_.push_back(json_string(name));
    rows_.reserve(trace.threads.size());
    for (const std::string& thread : trace.threads) rows_.push_back(row_of(thread));
    find_window();
  }

  void write(std::string_view trace_name) {
    write_header();
    write_host_events();
    write_gpu_events();
    write_row_names();
    write_span();
    put("\n  ],\n  \"traceName\": {}\n}}\n", json_string(trace_name));
    flush();
  }

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  void flush() {
    sink_(text_);
    text_.clear();
  }

  /// Opens an event; its last line has to follow.
  void begin_event() {
    put("{}\n  {{\n    ", std::exchange(first_event_, false) ? "" : ",");
    if (text_.size() < kPieceBytes) return;
    flush();
  }
  void end_event() { put("\n  }}"); }

  [[nodiscard]] std::string ts(std::int64_t ns) const {
    return microseconds(ns - trace_.base_time_ns.value_or(0));
  }

  void find_window() {
    bool any = false;
    const auto add = [&](const auto& events) {
      for (const auto& e : events) {
        first_ns_ = any ? std::min(first_ns_, e.start_ns) : e.start_ns;
        last_ns_ = any ? std::max(last_ns_, e.start_ns + e.duration_ns) : e.start_ns + e.duration_ns;
        any = true;
      }
    };
    add(trace_.gpu_ops);
    add(trace_.calls);
    add(trace_.cpu_ops);
    add(trace_.annotations);
    if (!any) first_ns_ = last_ns_ = trace_.base_time_ns.value_or(0);
  }

  [[nodiscard]] std::set<std::int32_t> devices() const {
    std::set<std::int32_t> found;
    for (const GpuOp& op : trace_.gpu_ops) found.insert(op.device);
    return found;
  }

  void write_header() {
    put("{{\n  \"schemaVersion\": 1,\n");
    if (!trace_.gpu_name.empty()) {
      put("  \"deviceProperties\": [");
      bool first = true;
      for (const std::int32_t device : devices()) {
        put("{}\n    {{\n      \"id\": {}, \"name\": {}\n    }}", first ? "" : ",", device,
            json_string(trace_.gpu_name));
        first = false;
      }
      put("\n  ],\n");
    }
    write_distributed_info();
    if (!trace_.host.empty()) put("  \"host_name\": {},\n", json_string(trace_.host));
    if (!trace_.common_clock.empty()) put("  \"common_clock\": {},\n", json_string(trace_.common_clock));
    put("  \"displayTimeUnit\": \"ms\",\n");
    if (trace_.base_time_ns) put("  \"baseTimeNanoseconds\": {},\n", *trace_.base_time_ns);
    put("  \"traceEvents\": [");
  }

  void write_distributed_info() {
    std::vector<std::string> parts;
    if (!trace_.backend.empty()) parts.push_back(fmt::format("\"backend\": {}", json_string(trace_.backend)));
    if (trace_.rank) parts.push_back(fmt::format("\"rank\": {}", *trace_.rank));
    if (trace_.world_size) parts.push_back(fmt::format("\"world_size\": {}", *trace_.world_size));
    if (!trace_.groups.empty()) {
      std::vector<std::string> groups;
      for (const ProcessGroup& g : trace_.groups) {
        groups.push_back(
            fmt::format("{{\"pg_name\": {}, \"pg_desc\": {}, \"backend_config\": {}, \"pg_size\": {}, "
                        "\"ranks\": {}}}",
                        json_string(g.name), json_string(g.description),
                        json_string("cuda:" + trace_.backend), g.size, list_text(g.members)));
      }
      parts.push_back(
          fmt::format("\"pg_count\": {}, \"pg_config\": [{}]", groups.size(), fmt::join(groups, ", ")));
    }
    if (!parts.empty()) put("  \"distributedInfo\": {{{}}},\n", fmt::join(parts, ", "));
  }

  template <class Event>
  void write_host_event(std::string_view category, const Event& event, std::string_view arguments) {
    const Row& row = rows_[event.thread.value];
    begin_event();
    put("\"ph\": \"X\", \"cat\": \"{}\", \"name\": {}, \"pid\": {}, \"tid\": {},\n    \"ts\": {}, \"dur\": "
        "{},\n    \"args\": {{\n      {}\n    }}",
        category, names_[event.name.value], row.process, row.thread, ts(event.start_ns),
        microseconds(event.duration_ns), arguments);
    end_event();
  }

  void write_host_events() {
    for (const CpuOp& op : trace_.cpu_ops) {
      const std::string record = op.comm ? ", " + comm_arguments(trace_.comms[op.comm->value]) : "";
      write_host_event("cpu_op", op, fmt::format("\"Record function id\": 0{}", record));
    }
    for (const Annotation& range : trace_.annotations) {
      write_host_event("user_annotation", range, "\"Record function id\": 0");
    }
    for (const HostCall& call : trace_.calls) {
      const bool driver = is_driver_call(trace_.name(call.name));
      write_host_event(driver ? "cuda_driver" : "cuda_runtime", call,
                       fmt::format("\"correlation\": {}", call.correlation));
      const Row& row = rows_[call.thread.value];
      if (call.correlation > 0) write_flow("s", call.correlation, row.process, row.thread, call.start_ns);
    }
  }

  void write_flow(std::string_view phase, std::int64_t id, std::string_view process, std::string_view thread,
                  std::int64_t at_ns) {
    begin_event();
    put("\"ph\": \"{}\", \"id\": {}, \"pid\": {}, \"tid\": {}, \"ts\": {},\n    \"cat\": \"ac2g\", \"name\": "
        "\"ac2g\"{}",
        phase, id, process, thread, ts(at_ns), phase == "f" ? ", \"bp\": \"e\"" : "");
    end_event();
  }

  /// The named fields of a communication. What is absent is left out.
  [[nodiscard]] std::string comm_arguments(const CommRecord& record) const {
    std::vector<std::string> fields;
    const auto name = [&](std::string_view key, NameId id) {
      if (id.value != 0) fields.push_back(fmt::format("\"{}\": {}", key, names_[id.value]));
    };
    const auto number = [&](std::string_view key, std::int64_t value) {
      if (value >= 0) fields.push_back(fmt::format("\"{}\": {}", key, value));
    };
    if (!record.group_pointer) name("Collective name", record.collective);  // old records have none
    number("In msg nelems", record.in_elements);
    number("Out msg nelems", record.out_elements);
    if (!record.group_pointer) number("Group size", record.group_size);
    name("dtype", record.dtype);
    name("Process Group Name", record.group);
    name("Process Group Description", record.group_description);
    if (!record.members.empty()) {
      fields.push_back(fmt::format("\"Process Group Ranks\": \"{}\"", list_text(record.members)));
    }
    number("Src Rank", record.source);
    number("Dst Rank", record.destination);
    if (!record.group_pointer) number("Seq", record.sequence);
    if (record.comms_id) fields.push_back(fmt::format("\"Comms Id\": {}", *record.comms_id));
    if (record.group_pointer) fields.push_back(positional_inputs(record));
    return fmt::format("{}", fmt::join(fields, ", "));
  }

  /// [tensors,] sequence, group pointer, rank, name, in splits, out splits, size. A wait has no tensors.
  [[nodiscard]] std::string positional_inputs(const CommRecord& record) const {
    const bool wait = trace_.name(record.collective) == "wait";
    return fmt::format("\"Concrete Inputs\": [{}\"{}\", \"{}\", \"{}\", \"\", \"[]\", \"[]\", \"{}\"]",
                       wait ? "" : "\"\", ", record.sequence, *record.group_pointer, trace_.rank.value_or(0),
                       record.group_size);
  }

  void write_gpu_events() {
    for (const GpuOp& op : trace_.gpu_ops) {
      begin_event();
      put("\"ph\": \"X\", \"cat\": \"{}\", \"name\": {}, \"pid\": {}, \"tid\": {},\n    \"ts\": {}, \"dur\": "
          "{},\n    \"args\": {{\n      ",
          category_of(op.kind), names_[op.name.value], op.device, op.stream, ts(op.start_ns),
          microseconds(op.duration_ns));
      if (op.kind == GpuOpKind::Kernel) put("\"queued\": 0, ");
      put("\"device\": {}, \"context\": 1, \"stream\": {}, \"correlation\": {}", op.device, op.stream,
          op.correlation);
      if (op.bytes >= 0) put(", \"bytes\": {}", op.bytes);
      if (op.graph != 0) put(", \"graph id\": {}", op.graph);
      if (op.comm) put(", {}", comm_arguments(trace_.comms[op.comm->value]));
      put("\n    }}");
      end_event();
      if (op.correlation > 0) {
        write_flow("f", op.correlation, fmt::to_string(op.device), fmt::to_string(op.stream), op.start_ns);
      }
    }
    for (const SyncRecord& sync : trace_.syncs) write_sync(sync);
  }

  void write_sync(const SyncRecord& sync) {
    using enum SyncRecord::Kind;
    const std::string stream = sync.stream ? fmt::to_string(*sync.stream) : "-1";
    const bool own_row = sync.kind == StreamSync && sync.stream;
    const std::string_view name = name_of(sync.kind);
    begin_event();
    put("\"ph\": \"X\", \"cat\": \"{}\", \"name\": \"{}\", \"pid\": {}, \"tid\": {},\n    \"ts\": {}, "
        "\"dur\": {},\n    \"args\": {{\n      ",
        sync.kind == EventRecord ? "cuda_event" : "cuda_sync", name, sync.device,
        own_row ? fmt::to_string(*sync.stream + kStreamSyncRow) : stream, ts(sync.start_ns),
        microseconds(sync.duration_ns));
    if (sync.kind != EventRecord) put("\"cuda_sync_kind\": \"{}\", ", name);
    if (sync.kind == EventSync || sync.kind == StreamWait) {
      put("\"wait_on_stream\": {}, \"wait_on_cuda_event_record_corr_id\": {}, ",
          sync.awaited_stream ? fmt::to_string(*sync.awaited_stream) : "-1", sync.event_correlation);
    }
    put("\"stream\": {}, \"correlation\": {}, \"device\": {}, \"context\": 1\n    }}", stream,
        sync.correlation, sync.device);
    end_event();
  }

  void write_name(std::string_view what, std::string_view process, std::string_view thread,
                  std::string_view arguments) {
    begin_event();
    put("\"name\": \"{}\", \"ph\": \"M\", \"ts\": {}, \"pid\": {}, \"tid\": {},\n    \"args\": {{\n      "
        "{}\n    }}",
        what, ts(first_ns_), process, thread, arguments);
    end_event();
  }

  void write_process(std::string_view process, std::string_view label, std::string_view sort_index) {
    write_name("process_name", process, "0", "\"name\": \"python\"");
    write_name("process_labels", process, "0", fmt::format("\"labels\": \"{}\"", label));
    write_name("process_sort_index", process, "0", fmt::format("\"sort_index\": {}", sort_index));
  }

  void write_row_names() {
    std::set<std::string> processes;
    for (const Row& row : rows_) {
      if (processes.insert(row.process).second) {
        write_process(row.process, "CPU", is_integer(row.process) ? row.process : "0");
      }
      const std::string name =
          is_integer(row.thread) ? row.thread : row.thread.substr(1, row.thread.size() - 2);
      write_name("thread_name", row.process, row.thread,
                 fmt::format("\"name\": \"thread {} (python)\"", name));
      write_name("thread_sort_index", row.process, row.thread,
                 fmt::format("\"sort_index\": {}", is_integer(row.thread) ? row.thread : "0"));
    }
    std::map<std::int32_t, std::set<std::uint64_t>> streams;
    for (const GpuOp& op : trace_.gpu_ops) streams[op.device].insert(op.stream);
    for (const auto& [device, ids] : streams) {
      const std::string process = fmt::to_string(device);
      write_process(process, "GPU " + process, fmt::to_string(kGpuSortIndex + device));
      for (const std::uint64_t id : ids) {
        const std::string stream = fmt::to_string(id);
        write_name("thread_name", process, stream, fmt::format("\"name\": \"stream {} \"", stream));
        write_name("thread_sort_index", process, stream, fmt::format("\"sort_index\": {}", stream));
      }
    }
  }

  void write_span() {
    begin_event();
    put("\"ph\": \"X\", \"cat\": \"Trace\", \"ts\": {}, \"dur\": {},\n    \"pid\": \"Spans\", \"tid\": "
        "\"PyTorch Profiler\",\n    \"name\": \"PyTorch Profiler (0)\",\n    \"args\": {{\n      \"Op "
        "count\": 0\n    }}",
        ts(first_ns_), microseconds(last_ns_ - first_ns_));
    end_event();
    write_name("process_sort_index", "\"Spans\"", "0", fmt::format("\"sort_index\": {}", kSpanSortIndex));
    write_instant("Iteration Start: PyTorch Profiler", "Traces", "Trace PyTorch Profiler", first_ns_);
    write_instant("Record Window End", "", "", last_ns_);
  }

  void write_instant(std::string_view name, std::string_view process, std::string_view thread,
                     std::int64_t at_ns) {
    begin_event();
    put("\"name\": \"{}\", \"ph\": \"i\", \"s\": \"g\",\n    \"pid\": \"{}\", \"tid\": \"{}\", \"ts\": {}",
        name, process, thread, ts(at_ns));
    end_event();
  }

  const RankTrace& trace_;
  const TextSink& sink_;
  std::string text_;
  bool first_event_ = true;
  std::vector<std::string> names_;  // as JSON
  std::vector<Row> rows_;
  std::int64_t first_ns_ = 0;
  std::int64_t last_ns_ = 0;
};

}  // namespace

void write_kineto_json(const RankTrace& trace, std::string_view trace_name, const TextSink& sink) {
  Writer(trace, sink).write(trace_name);
}

std::string kineto_json(const RankTrace& trace, std::string_view trace_name) {
  std::string whole;
  write_kineto_json(trace, trace_name, [&](std::string_view piece) { whole += piece; });
  return whole;
}

}  // namespace prism
