// SPDX-License-Identifier: Apache-2.0
// Traces of a few events, made here: one rule of reading each.
#include "prism/ingest/kineto.hpp"

#include <algorithm>
#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "prism/ingest/kineto_notes.hpp"
#include "prism/ingest/kineto_reader.hpp"
#include "prism/io/byte_stream.hpp"
#include "prism/io/test_dir.hpp"
#include "prism/trace/error.hpp"

namespace prism {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace fs = std::filesystem;

/// {"ph": "X", ...}; `args` without its braces.
std::string event(std::string_view category, std::string_view name, std::string_view pid,
                  std::string_view tid, std::string_view start, std::string_view duration,
                  std::string_view args = {}) {
  std::string text = R"({"ph": "X", "cat": ")";
  text.append(category).append(R"(", "name": ")").append(name);
  text.append(R"(", "pid": )").append(pid).append(R"(, "tid": )").append(tid);
  text.append(R"(, "ts": )").append(start).append(R"(, "dur": )").append(duration);
  return text.append(R"(, "args": {)").append(args).append("}}");
}

std::string kernel(std::string_view start, std::string_view duration,
                   std::string_view args = R"("stream": 7)") {
  return event("kernel", "k", "0", "7", start, duration, args);
}

std::string call(std::string_view name, std::string_view start, std::string_view correlation) {
  return event("cuda_runtime", name, "9", "9", start, "1",
               std::string(R"("correlation": )").append(correlation));
}

std::string joined(const std::vector<std::string>& events) {
  std::string text;
  for (const std::string& e : events) text += (text.empty() ? "" : ",\n") + e;
  return text;
}

/// `blocks` stand before the events and end with a comma.
std::string trace_of(const std::vector<std::string>& events,
                     std::string_view blocks = R"("distributedInfo": {"rank": 0},)") {
  return std::string("{")
      .append(blocks)
      .append("\n\"traceEvents\": [\n")
      .append(joined(events))
      .append("\n]}\n");
}

struct Read {
  RankTrace trace;
  ImportReport report;

  /// How often the report says it; 0 if it does not.
  [[nodiscard]] std::size_t said(std::string_view part) const {
    std::size_t count = 0;
    for (const ImportEntry& entry : report.entries()) {
      if (entry.reason.find(part) != std::string::npos) count += entry.count;
    }
    return count;
  }
};

Read read(std::string_view text, const KinetoOptions& options = {}) {
  Read result;
  result.trace = read_kineto_bytes(text, "made.json", options, result.report);
  return result;
}

Read read_with(std::string_view text, const KinetoLimits& limits) {
  Read result;
  ByteStream stream(text, "made.json");
  KinetoNotes notes("made.json", false);
  result.trace = read_kineto_stream(stream, {}, notes, limits);
  notes.put_into(result.report);
  return result;
}

std::string read_error(std::string_view text, const KinetoOptions& options = {}) {
  return thrown<InputError>([&] { (void)read(text, options); });
}

std::vector<std::int64_t> starts(const RankTrace& trace) {
  std::vector<std::int64_t> all;
  for (const GpuOp& op : trace.gpu_ops) all.push_back(op.start_ns);
  return all;
}

std::vector<std::int64_t> durations(const RankTrace& trace) {
  std::vector<std::int64_t> all;
  for (const GpuOp& op : trace.gpu_ops) all.push_back(op.duration_ns);
  return all;
}

// --- what is read ---

TEST(Kineto, FieldsOfAnEvent) {
  const Read r = read(trace_of({
      event("cpu_op", "aten::mm", "9", "11", "10.5", "20"),
      event("cuda_runtime", "cudaLaunchKernelExC", "9", "11", "12", "3",
            R"("correlation": 5, "stream": "0x7f")"),
      event("kernel", "gemm", "0", "3", "16.25", "8.001",
            R"("grid": [1, 2, 3], "device": 1, "stream": 7, "correlation": 5, "graph id": 12)"),
      event("gpu_memcpy", "Memcpy HtoD", "0", "7", "30", "2", R"("device": 0, "stream": 7, "bytes": 64)"),
      event("gpu_memset", "Memset", "2", "8", "40", "2"),
      event("user_annotation", "ProfilerStep#3", "9", "9", "1", "100"),
  }));
  EXPECT_THAT(r.report.entries(), testing::SizeIs(1));  // times are relative
  ASSERT_EQ(r.trace.gpu_ops.size(), 3U);
  const GpuOp& op = r.trace.gpu_ops[0];
  EXPECT_EQ(op.start_ns, 16'250);
  EXPECT_EQ(op.duration_ns, 8'001);
  EXPECT_EQ(op.device, 1);
  EXPECT_EQ(op.stream, 7U);
  EXPECT_EQ(op.correlation, 5);
  EXPECT_EQ(op.graph, 12U);
  EXPECT_EQ(op.bytes, -1);
  EXPECT_EQ(op.kind, GpuOpKind::Kernel);
  EXPECT_EQ(r.trace.name(op.name), "gemm");
  EXPECT_EQ(r.trace.gpu_ops[1].bytes, 64);
  EXPECT_EQ(r.trace.gpu_ops[2].device, 2);   // from pid
  EXPECT_EQ(r.trace.gpu_ops[2].stream, 8U);  // from tid
  ASSERT_EQ(r.trace.calls.size(), 1U);
  EXPECT_EQ(r.trace.threads[r.trace.calls[0].thread.value], "9/11");
  EXPECT_EQ(r.trace.calls[0].thread, r.trace.cpu_ops[0].thread);
  EXPECT_NE(r.trace.calls[0].thread, r.trace.annotations[0].thread);
  EXPECT_EQ(r.trace.counts.events, 6U);
}

TEST(Kineto, MetadataBeforeAndAfterTheEvents) {
  const Read r = read(
      R"({"unused": {"rank": 3, "deep": [[["]"]]]}, "deviceProperties": [{"id": 0, "name": "A"}, {"name": "B", "id": 1}],
    "traceEvents": [)" +
      kernel("1", "2", R"("device": 1, "stream": 1)") + R"(],
    "distributedInfo": {"backend": "nccl", "rank": "4", "world_size": 16, "pg_count": 2, "pg_config":
      [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": 16, "ranks": []}, {"ranks": "[3, 4]", "pg_name": "tp", "pg_size": 2}]},
    "host_name": "node7", "baseTimeNanoseconds": 1759300074000000000, "traceName": "x"})");
  EXPECT_EQ(r.trace.rank, 4);
  EXPECT_EQ(r.trace.world_size, 16);
  EXPECT_EQ(r.trace.backend, "nccl");
  EXPECT_EQ(r.trace.host, "node7");
  EXPECT_EQ(r.trace.gpu_name, "B");
  ASSERT_EQ(r.trace.groups.size(), 2U);
  EXPECT_EQ(r.trace.groups[0], (ProcessGroup{"0", "default_pg", 16, {}}));
  EXPECT_EQ(r.trace.groups[1], (ProcessGroup{"tp", "", 2, {3, 4}}));
  EXPECT_THAT(starts(r.trace), ElementsAre(1759300074000001000));
  EXPECT_TRUE(r.trace.absolute_time);
  EXPECT_THAT(r.report.entries(), IsEmpty());
}

TEST(Kineto, ABaseIsNotAddedToAbsoluteTimes) {
  const Read r =
      read(trace_of({kernel("1712867402348667.123", "1")}, R"("baseTimeNanoseconds": 1711964646000000000,)"));
  EXPECT_THAT(starts(r.trace), ElementsAre(1712867402348667123));
  EXPECT_TRUE(r.trace.absolute_time);
  EXPECT_EQ(r.said("base time ignored"), 1U);
}

TEST(Kineto, CallsAreKeptIfTheyLaunchWaitOrRecord) {
  const Read r = read(trace_of({
      call("INVALID", "1", "5"),
      kernel("3", "2", R"("stream": 7, "correlation": 5)"),
      call("cudaMalloc", "4", "6"),
      call("cudaStreamSynchronize", "10", "7"),
      call("hipDeviceSynchronize", "11", "8"),
      call("cuCtxSynchronize", "12", "9"),
      call("cudaEventSynchronize", "13", "10"),
      call("cudaEventRecord", "14", "11"),
      call("hipEventRecordWithFlags", "15", "12"),
      call("cuStreamWaitEvent_ptsz", "16", "13"),
      call("cudaEventQuery", "17", "14"),
      call("cudaStreamIsCapturing", "18", "15"),
      event("mtia_runtime", "synchronizeStream", "9", "9", "19", "1"),
  }));
  std::vector<HostCallKind> kinds;
  for (const HostCall& c : r.trace.calls) kinds.push_back(c.kind);
  EXPECT_THAT(kinds, ElementsAre(HostCallKind::Launch, HostCallKind::StreamSync, HostCallKind::DeviceSync,
                                 HostCallKind::DeviceSync, HostCallKind::EventSync, HostCallKind::EventRecord,
                                 HostCallKind::EventRecord, HostCallKind::StreamWait,
                                 HostCallKind::EventQuery, HostCallKind::StreamSync));
}

TEST(Kineto, CategoriesOfAllDialects) {
  for (const char* category : {"Kernel", "KERNEL", "kernel"}) {
    EXPECT_EQ(read(trace_of({event(category, "k", "0", "1", "1", "1")})).trace.gpu_ops.size(), 1U)
        << category;
  }
  for (const char* category :
       {"Runtime", "cuda_driver", "xpu_runtime", "privateuse1_runtime", "mtia_runtime"}) {
    EXPECT_EQ(read(trace_of({event(category, "cudaEventQuery", "9", "9", "1", "1")})).trace.calls.size(), 1U)
        << category;
  }
  for (const char* category :
       {"gpu_user_annotation", "overhead", "Trace", "cpu_instant_event", "kernels", ""}) {
    const Read r = read(trace_of({event(category, "x", "0", "1", "1", "1")}));
    EXPECT_EQ(r.trace.counts.events, 1U);
    EXPECT_TRUE(r.trace.gpu_ops.empty() && r.trace.calls.empty() && r.trace.cpu_ops.empty()) << category;
  }
  const Read python = read(trace_of({event("python_function", "f", "9", "9", "1", "1")}));
  EXPECT_EQ(python.trace.counts.python_functions, 1U);
  const Read step = read(trace_of({event("Operator", "ProfilerStep#5", "9", "9", "1", "1")}));
  EXPECT_EQ(step.trace.annotations.size(), 1U);
}

TEST(Kineto, KeysInAnyOrder) {
  const Read r = read(trace_of(
      {R"({"args": {"correlation": 3, "stream": 9}, "cat": "kernel", "dur": 2, "name": "k", "ph": "X", "pid": 0, "tid": 0, "ts": 5})",
       R"({"args": {"Concrete Inputs": ["", "4", "1", "0", "", "[]", "[]", "8"]}, "name": "record_param_comms", "cat": "cpu_op", "dur": 2, "ph": "X", "pid": 0, "tid": 0, "ts": 5})",
       R"({"cat": "cpu_op", "args": {"Seq": 4}, "name": "record_param_comms", "dur": 2, "ph": "X", "pid": 0, "tid": 0, "ts": 6})"}));
  ASSERT_EQ(r.trace.gpu_ops.size(), 1U);
  EXPECT_EQ(r.trace.gpu_ops[0].stream, 9U);
  ASSERT_EQ(r.trace.comms.size(), 2U);
  EXPECT_EQ(r.trace.comms[0].sequence, 4);
  EXPECT_EQ(r.trace.comms[1].sequence, 4);
}

TEST(Kineto, EqualNamesHaveEqualIds) {
  const Read r = read(trace_of({event("kernel", "a\\u00e9b", "0", "1", "1", "1"),
                                event("kernel",
                                      "a\xc3\xa9"
                                      "b",
                                      "0", "1", "2", "1"),
                                event("cpu_op", "a\xc3\xa9\\u0062", "9", "9", "2", "1")}));
  EXPECT_EQ(r.trace.gpu_ops[0].name, r.trace.gpu_ops[1].name);
  EXPECT_EQ(r.trace.gpu_ops[0].name, r.trace.cpu_ops[0].name);
  EXPECT_THAT(r.trace.names, ElementsAre("",
                                         "a\xc3\xa9"
                                         "b"));
}

TEST(Kineto, EventsAreSortedByStartAndTiesStayInFileOrder) {
  const Read r = read(trace_of({kernel("5", "1", R"("stream": 1)"), kernel("3", "1", R"("stream": 2)"),
                                kernel("5", "1", R"("stream": 3)")}));
  std::vector<std::uint64_t> streams;
  for (const GpuOp& op : r.trace.gpu_ops) streams.push_back(op.stream);
  EXPECT_THAT(streams, ElementsAre(2U, 1U, 3U));
}

TEST(Kineto, NamedCommunication) {
  const Read r =
      read(trace_of({kernel("1", "5", R"("stream": 20, "Collective name": "allreduce", "dtype": "Float",
      "In msg nelems": 8, "Out msg nelems": 9, "Group size": 2, "Process Group Name": "7", "Process Group Description": "tp",
      "Process Group Ranks": "[3, 1]", "Src Rank": 1, "Dst Rank": 3, "Seq": 4, "Comms Id": 18446744073709551615)")}));
  ASSERT_TRUE(r.trace.gpu_ops.at(0).comm);
  const CommRecord& comm = r.trace.comms[r.trace.gpu_ops[0].comm->value];
  EXPECT_EQ(r.trace.name(comm.collective), "allreduce");
  EXPECT_EQ(r.trace.name(comm.dtype), "Float");
  EXPECT_EQ(r.trace.name(comm.group), "7");
  EXPECT_EQ(r.trace.name(comm.group_description), "tp");
  EXPECT_EQ(comm.in_elements, 8);
  EXPECT_EQ(comm.out_elements, 9);
  EXPECT_EQ(comm.group_size, 2);
  EXPECT_EQ(comm.source, 1);
  EXPECT_EQ(comm.destination, 3);
  EXPECT_EQ(comm.sequence, 4);
  EXPECT_EQ(comm.comms_id, 18446744073709551615U);
  EXPECT_THAT(comm.members, ElementsAre(3, 1));
}

// Shapes of real records: PyTorch 2.0 with and without tensors, 2.3 and later beside named fields.
TEST(Kineto, PositionalCommunication) {
  const auto record = [](const std::string& args) {
    return event("cpu_op", "record_param_comms", "9", "9", "1", "5", args);
  };
  const Read r = read(trace_of({
      record(
          R"("Concrete Inputs": ["", "337", "93825114103440", "0", "", "[]", "[]", "8"], "Input Dims": [[[4, 2048], [3]], [], []])"),
      record(R"("Concrete Inputs": ["338", "0", "0", "", "[]", "[]", "1"], "Input Dims": [[], []])"),
      record(
          R"("Collective name": "wait", "Group size": 1, "Process Group Ranks": "[]", "Concrete Inputs": ["", "", "0", "", "[]", "[]", "-1", "-1", "1"])"),
      record(R"("Concrete Inputs": "no list", "Input Dims": 5)"),
  }));
  ASSERT_EQ(r.trace.comms.size(), 4U);
  EXPECT_EQ(r.trace.comms[0].sequence, 337);
  EXPECT_EQ(r.trace.comms[0].group_pointer, 93825114103440U);
  EXPECT_EQ(r.trace.comms[0].group_size, 8);
  EXPECT_EQ(r.trace.comms[0].in_elements, 4 * 2048 + 3);
  EXPECT_EQ(r.trace.name(r.trace.comms[0].collective), "");
  EXPECT_EQ(r.trace.comms[1].sequence, 338);
  EXPECT_EQ(r.trace.name(r.trace.comms[1].collective), "wait");
  EXPECT_EQ(r.trace.name(r.trace.comms[2].collective), "wait");
  EXPECT_EQ(r.trace.comms[2].group_size, 1);
  EXPECT_FALSE(r.trace.comms[2].group_pointer);
  EXPECT_EQ(r.trace.comms[3], CommRecord());
}

TEST(Kineto, Synchronisations) {
  const Read r = read(trace_of({
      event(
          "cuda_sync", "Stream Wait Event", "0", "20", "1", "3",
          R"("stream": 20, "wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 5169, "correlation": 5170, "device": 0)"),
      event("cuda_sync", "Event Sync", "0", "-1", "2", "3",
            R"("stream": -1, "wait_on_stream": -1, "wait_on_cuda_event_record_corr_id": -1)"),
      event("cuda_sync", "Context Sync", "0", "-1", "3", "3", R"("stream": 4294967295)"),
      event("cuda_sync", "Stream Sync", "0", "1000007", "4", "3"),
      event("cuda_event", "cudaEventRecord", "0", "7", "5", "0", R"("stream": 7, "correlation": 5169)"),
      event("cuda_sync", "Some Other Sync", "0", "7", "6", "3"),
  }));
  ASSERT_EQ(r.trace.syncs.size(), 5U);
  EXPECT_EQ(r.trace.syncs[0].kind, SyncRecord::Kind::StreamWait);
  EXPECT_EQ(r.trace.syncs[0].stream, 20U);
  EXPECT_EQ(r.trace.syncs[0].awaited_stream, 7U);
  EXPECT_EQ(r.trace.syncs[0].event_correlation, 5169);
  EXPECT_EQ(r.trace.syncs[1].stream, std::nullopt);
  EXPECT_EQ(r.trace.syncs[1].awaited_stream, std::nullopt);
  EXPECT_EQ(r.trace.syncs[1].event_correlation, -1);
  EXPECT_EQ(r.trace.syncs[2].stream, std::nullopt);
  EXPECT_EQ(r.trace.syncs[3].stream, 7U);
  EXPECT_EQ(r.trace.syncs[4].kind, SyncRecord::Kind::EventRecord);
  EXPECT_EQ(r.said("unknown kind"), 1U);
}

TEST(Kineto, FlowsLinkWhatHasNoCorrelation) {
  const std::vector<std::string> events = {
      event("cuda_runtime", "hipLaunchKernel", "9", "9", "12", "3"),
      event("kernel", "k", "2", "4", "20", "5"),
      R"({"ph": "s", "id": 61, "pid": 9, "tid": 9, "ts": 12, "cat": "ac2g", "name": "ac2g"})",
      R"({"ph": "f", "id": 61, "pid": 2, "tid": 4, "ts": 20, "cat": "ac2g", "name": "ac2g", "bp": "e"})",
      R"({"ph": "s", "id": 9, "pid": 9, "tid": 9, "ts": 12, "cat": "fwdbwd", "name": "fwdbwd"})"};
  const Read r = read(trace_of(events));
  EXPECT_EQ(r.trace.gpu_ops.at(0).correlation, 61);
  ASSERT_EQ(r.trace.calls.size(), 1U);
  EXPECT_EQ(r.trace.calls[0].correlation, 61);
  EXPECT_EQ(r.trace.calls[0].kind, HostCallKind::Launch);
  EXPECT_EQ(r.said("flow"), 2U);
}

TEST(Kineto, BeginAndEndNestPerThread) {
  const auto begin = [](const char* category, const char* tid, const char* start) {
    return std::string(R"({"ph": "B", "cat": ")") + category + R"(", "name": "b", "pid": 0, "tid": )" + tid +
           R"(, "ts": )" + start + "}";
  };
  const auto end = [](const char* tid, const char* at) {
    return std::string(R"({"ph": "E", "pid": 0, "tid": )") + tid + R"(, "ts": )" + at + "}";
  };
  const Read r = read(
      trace_of({begin("kernel", "7", "10"), begin("kernel", "8", "11"), begin("overhead", "7", "12"),
                begin("user_annotation", "7", "13"), end("7", "14"), end("7", "15"), end("8", "31"),
                end("7", "18"), end("7", "19"), begin("kernel", "7", "50"), begin("cpu_op", "8", "51")}));
  EXPECT_THAT(durations(r.trace), ElementsAre(8'000, 20'000));
  ASSERT_EQ(r.trace.annotations.size(), 1U);
  EXPECT_EQ(r.trace.annotations[0].duration_ns, 1'000);
  EXPECT_THAT(r.trace.cpu_ops, IsEmpty());
  EXPECT_EQ(r.said("joined"), 3U);
  EXPECT_EQ(r.said("end without begin"), 1U);
  EXPECT_EQ(r.said("begin without end"), 2U);
  EXPECT_EQ(r.trace.counts.gpu_ops_set_aside, 1U);
}

TEST(Kineto, MtiaHasNoGpuWork) {
  const Read r =
      read(trace_of({event("mtia_ccp_events", "pe_exe", "17", "1", "1", "5", R"("stream": 101)")}));
  EXPECT_EQ(r.said("MTIA device event left out"), 1U);
  EXPECT_EQ(r.said("no GPU work"), 1U);
}

// --- times that cannot be ---

TEST(Kineto, CorruptDurationsAreCutAtTheNextStartOfTheStream) {
  const Read r = read(trace_of(
      {kernel("100.5", "5000"), kernel("200", "10"), kernel("150", "5000", R"("stream": 8)"),
       kernel("150", "20", R"("device": 3, "stream": 7)"), event("cpu_op", "a", "9", "9", "1", "9000")}));
  EXPECT_THAT(durations(r.trace), ElementsAre(99'500, 5'000'000, 20'000, 10'000));
  EXPECT_EQ(r.said("GPU op cut"), 1U);
}

TEST(Kineto, OverlapsThatHappenAreLeftAlone) {
  // 10 us; 50 us of 1000 us; kernels of one graph launch.
  const Read r = read(trace_of({kernel("100.5", "20"), kernel("110.5", "1000"), kernel("1060.5", "10"),
                                kernel("2000", "500", R"("stream": 7, "correlation": 4)"),
                                kernel("2010", "500", R"("stream": 7, "correlation": 4)")}));
  EXPECT_THAT(durations(r.trace), ElementsAre(20'000, 1'000'000, 10'000, 500'000, 500'000));
  EXPECT_EQ(r.said("GPU op cut"), 0U);
}

TEST(Kineto, ZeroLengthIsLostOnlyWhereTimesHaveDecimals) {
  const Read whole = read(trace_of({kernel("100", "0"), kernel("200", "10")}));
  EXPECT_THAT(durations(whole.trace), ElementsAre(0, 10'000));
  EXPECT_EQ(whole.said("zero length kept"), 1U);
  const Read decimals = read(trace_of({kernel("100", "0"), kernel("200.25", "10")}));
  EXPECT_THAT(durations(decimals.trace), ElementsAre(10'000));
  EXPECT_EQ(decimals.said("its duration was lost"), 1U);
  EXPECT_EQ(decimals.trace.counts.gpu_ops, 2U);
  EXPECT_EQ(decimals.trace.counts.gpu_ops_set_aside, 1U);
}

TEST(Kineto, GpuOpsLongerThanTheTraceAreSetAside) {
  const std::vector<std::string> events = {event("cpu_op", "a", "9", "9", "0", "1000000"),
                                           kernel("10", "61000000"),
                                           kernel("20", "61000001", R"("stream": 8)"), kernel("30", "1e30")};
  const Read r = read(trace_of(events));
  EXPECT_THAT(durations(r.trace), ElementsAre(61'000'000'000));
  EXPECT_EQ(r.said("longer than the traced time"), 1U);
  EXPECT_EQ(r.said("its duration was lost"), 1U);
}

TEST(Kineto, HostEventsWithoutUsableTimesAreLeftOut) {
  const Read r =
      read(trace_of({event("cpu_op", "a", "9", "9", "1", "-3"), event("cpu_op", "a", "9", "9", "NaN", "3"),
                     event("cpu_op", "a", "9", "9", "1", "null"), event("cpu_op", "a", "9", "9", "1", "0")}));
  EXPECT_EQ(r.trace.cpu_ops.size(), 1U);
  EXPECT_EQ(r.said("no usable duration"), 2U);
  EXPECT_EQ(r.said("no usable start"), 1U);
}

// --- text that is not sound ---

TEST(Kineto, ABrokenEventCostsOnlyItself) {
  const std::vector<std::string> broken = {
      R"({"ph": "X", "cat": "kernel", "name": "a "b" c", "ts": 1, "dur": 1})",
      R"({"ph": "X", "cat": "python_function", "name": "a "b" c", "ts": 1, "dur": 1})",
      R"({"ph": "X", "cat": "kernel", "name": "odd " quote", "pid": 0, "ts": 1, "dur": 1})",
      R"({"ph": "X", "cat": "python_function", "name": "ends with "", "pid": 0, "ts": 1, "dur": 1})",
      R"({"ph": "X", "cat": "kernel", "name": f("x, {"y"), "ts": 1, "dur": 1})",
      R"({"ph": "f", "id": 1, "name": "no end, "ts": 1, "cat": "async"})",
      R"({"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1, "args": {"grid": [1, 2}})",
      R"({"ph": "X", "cat": "kernel", "name": "k", "ts" 1, "dur": 1})",
      R"({"ph": "X", "cat": "kernel", "name": "k", "ts": , "dur": 1})",
      R"({"ph": "X", "cat": "kernel", name: "k"})",
      R"("a string")",
      "garbage",
      R"({"x" "y", "args": {"ph": "X", "cat": "kernel", "name": "no event", "ts": 99, "dur": 1}})",
      R"({"ph": "X", "cat": "python_function", "name": "f", "args": {"a brace": "is missing"})",
      R"({"ph": "X", "cat": "cpu_op", "name": "deep", "args": {"x": )" + std::string(200, '[') +
          std::string(200, ']') + "}}",
  };
  for (const std::string& text : broken) {
    for (const char* separator : {",\n", ",", ", "}) {
      std::string all = R"({"traceEvents": [)" + kernel("10", "5") + separator + text + separator +
                        kernel("20", "5") + separator + kernel("30", "5") +
                        R"(], "distributedInfo": {"rank": 3}})";
      const Read r = read(all);
      SCOPED_TRACE(all);
      EXPECT_THAT(starts(r.trace), ElementsAre(10'000, 20'000, 30'000));
      EXPECT_EQ(r.said("event left out: it is not JSON"), 1U);
      EXPECT_EQ(r.trace.rank, 3);
      EXPECT_TRUE(r.trace.complete);
      EXPECT_THAT(read_error(all, {.strict = true}), HasSubstr("at byte"));
    }
  }
}

TEST(Kineto, ABrokenLastEventDoesNotHideWhatFollows) {
  const Read r = read("{\"traceEvents\": [\n" + kernel("10", "5") + ",\n" + R"({"ph": "X", "name": "a "b")" +
                      "}\n  ],\n  \"baseTimeNanoseconds\": 1000000000000000000}\n");
  EXPECT_THAT(starts(r.trace), ElementsAre(1'000'000'000'000'010'000));
  EXPECT_TRUE(r.trace.complete);
}

TEST(Kineto, BlocksBehindABrokenOneAreFound) {
  const Read r =
      read("{\"schemaVersion\": 1,\n\"metadata\": {\"a\" b},\n\"traceEvents\": [\n" + kernel("10", "5") +
           "],\n\"INFO\": [\"a \"b\" c\",\n\"INFO:x\"],\n\"baseTimeNanoseconds\": 1000000000000000000,\n"
           "\"ERROR\": [\"{]\" \"],\n\"distributedInfo\": {\"rank\": 3}\n}");
  EXPECT_THAT(starts(r.trace), ElementsAre(1'000'000'000'000'010'000));
  EXPECT_EQ(r.trace.rank, 3);
  EXPECT_EQ(r.said("block beside the events ignored"), 3U);
}

TEST(Kineto, EveryCutKeepsTheWholeEventsBeforeIt) {
  const std::vector<std::string> events = {
      kernel("10", "5"), event("python_function", "f", "9", "9", "1", "1"), call("cudaEventQuery", "15", "8"),
      kernel("20", "5"), R"({"name": "process_name", "ph": "M", "ts": 0, "pid": 9, "args": {"name": "x"}})"};
  const std::string text = trace_of(events);
  const std::size_t first = text.find('[') + 1;
  const std::size_t last = text.rfind(']');
  for (std::size_t size = first; size < text.size(); ++size) {
    SCOPED_TRACE(text.substr(0, size));
    const Read r = read(std::string_view(text).substr(0, size));
    std::size_t whole = 0;
    for (const std::string& e : events) whole += text.find(e) + e.size() <= size ? 1 : 0;
    EXPECT_EQ(r.trace.counts.events, whole);
    EXPECT_EQ(r.trace.complete, size > last);
    EXPECT_EQ(r.said("file ends early"), size > last ? 0U : 1U);
    EXPECT_EQ(r.said("not JSON"), 0U);
  }
}

TEST(Kineto, ABrokenEventDoesNotSwallowTheRestOfACutFile) {
  const Read r = read(R"({"traceEvents": [)" + kernel("10", "5") +
                      R"(,
{"ph": "X", "cat": "python_function", "name": "f", "args": {"a brace": "is missing"},
)" + kernel("20", "5") +
                      ",\n" + kernel("30", "5") + ",\n" + kernel("40", "5").substr(0, 50));
  EXPECT_THAT(starts(r.trace), ElementsAre(10'000, 20'000, 30'000));
  EXPECT_EQ(r.said("not JSON"), 1U);
  EXPECT_EQ(r.said("file ends early"), 1U);
}

TEST(Kineto, AnArrayOfEventsMayLackItsBracket) {
  const Read r = read("[" + kernel("10", "5") + ",\n" + kernel("20", "5"));
  EXPECT_EQ(r.trace.gpu_ops.size(), 2U);
  EXPECT_TRUE(r.trace.complete);
  const Read cut = read("[" + kernel("10", "5") + ",\n" + kernel("20", "5").substr(0, 40));
  EXPECT_EQ(cut.trace.gpu_ops.size(), 1U);
  EXPECT_FALSE(cut.trace.complete);
}

TEST(Kineto, CommasThatSeparateNothing) {
  const Read r = read(R"({"traceEvents": [,)" + kernel("10", "5") + ",," + kernel("20", "5") + ",]}");
  EXPECT_EQ(r.trace.gpu_ops.size(), 2U);
  EXPECT_EQ(r.said("comma"), 2U);  // a first one costs nothing
  EXPECT_EQ(
      read(R"({"traceEvents": [{"ph": "X", "cat": "kernel", "ts": 5, "dur": 5,},]})").trace.gpu_ops.size(),
      1U);
}

TEST(Kineto, EventsLongerThanTheLimitAreLeftOut) {
  const std::string text = trace_of(
      {kernel("10", "5"), kernel("15", "5", R"("x": ")" + std::string(5'000, 'x') + '"'), kernel("20", "5"),
       kernel("25", "5", R"("x": [)" + std::string(5'000, ' ') + "]"), kernel("30", "5")});
  const Read r = read_with(text, {.window_bytes = 512, .most_window_bytes = 4'096});
  EXPECT_THAT(starts(r.trace), ElementsAre(10'000, 20'000, 30'000));
  EXPECT_EQ(r.said("longer than 64 MiB"), 2U);
  EXPECT_TRUE(r.trace.complete);
  EXPECT_EQ(r.trace.counts.bytes, text.size());
}

TEST(Kineto, WhatIsReadDoesNotDependOnTheWindow) {
  std::vector<std::string> events;
  for (int i = 1; i < 60; ++i) {
    events.push_back(call("cudaLaunchKernel", std::to_string(i * 100), std::to_string(i)));
    events.push_back(
        kernel(std::to_string(i * 100 + 10), "5", R"("stream": 7, "correlation": )" + std::to_string(i)));
    if (i % 7 == 0) events.emplace_back(R"({"ph": "X", "cat": "kernel", "name": "a "b", "ts": 1, "dur": 1})");
    if (i % 11 == 0)
      events.emplace_back(R"({"ph": "X", "cat": "cpu_op", "name": "a", "ts": "b" "c": 1, "dur": 1})");
  }
  const std::string text =
      trace_of(events, R"("deviceProperties": [{"id": 0, "name": "A"}], "x": [1, 2, 3],)");
  const Read expected = read_with(text, {});
  EXPECT_EQ(expected.trace.gpu_ops.size(), 59U);
  EXPECT_EQ(expected.said("not JSON"), 13U);
  for (const std::size_t bytes : {17U, 64U, 100U, 257U, 300U, 1000U, 4096U}) {
    const Read r = read_with(text, {.window_bytes = bytes});
    SCOPED_TRACE(bytes);
    EXPECT_EQ(starts(r.trace), starts(expected.trace));
    EXPECT_EQ(r.trace.calls.size(), expected.trace.calls.size());
    EXPECT_EQ(r.trace.gpu_name, "A");
    EXPECT_EQ(r.trace.digest, expected.trace.digest);
    ASSERT_EQ(r.report.entries().size(), expected.report.entries().size());
    for (std::size_t i = 0; i < r.report.entries().size(); ++i) {
      EXPECT_EQ(r.report.entries()[i].count, expected.report.entries()[i].count);
      EXPECT_EQ(r.report.entries()[i].places, expected.report.entries()[i].places);
    }
  }
}

// Text made to be scanned again and again: takes far longer than the test's limit if that grows with its square.
TEST(Kineto, HostileTextTakesTimeInProportion) {
  for (const std::string& piece :
       {std::string(R"(,{"ph":)"), std::string(R"(,{"ph":[1)"), std::string(R"(,{"ph":"\",)"),
        std::string("{"), std::string("["), std::string("\""), std::string(R"({"name":"x)"),
        std::string(",[{\"ph\":1}"), std::string("\n\"a\":"), std::string("]")}) {
    std::string text = R"({"traceEvents": [)";
    while (text.size() < 2'000'000) text += piece;
    EXPECT_TRUE(read(text).trace.gpu_ops.empty()) << piece;
    std::string block = R"({"x": )";
    while (block.size() < 2'000'000) block += piece;
    EXPECT_THAT(read_error(block), HasSubstr("is no PyTorch profiler trace")) << piece;
  }
}

TEST(Kineto, WhatIsNoTraceIsRefused) {
  for (const char* text :
       {"hello", "{}", "{\"a\": 1}", "{\"traceEvents\": 5}", "<html>", "\xef\xbb\xbf", "   ", "{", "5"}) {
    EXPECT_THAT(read_error(text),
                AllOf(HasSubstr("made.json: is no PyTorch profiler trace"), HasSubstr("fix: ")))
        << text;
  }
}

TEST(Kineto, LooksLike) {
  EXPECT_TRUE(looks_like_kineto(trace_of({})));
  EXPECT_TRUE(
      looks_like_kineto("\xef\xbb\xbf \r\n{\n \"schemaVersion\": 1,\n \"deviceProperties\": [\n{ \"id\": 0"));
  EXPECT_TRUE(looks_like_kineto("[\n{\"ph\": \"X\", \"cat\": \"Operator\", \"pid\": 3"));
  for (const char* text : {"", "{", "[1, 2]", "{\"a\": 1}", "dp_rank,stage", "traceEvents", "\x1f\x8b"}) {
    EXPECT_FALSE(looks_like_kineto(text)) << text;
  }
}

// --- files ---

TEST(KinetoFiles, RankOfAName) {
  const TestDir dir;
  const std::string text = trace_of({kernel("10", "5")}, "");
  const auto rank_of = [&](const std::string& name) {
    ImportReport report;
    return read_kineto(dir.file(name, text), {}, report).rank;
  };
  EXPECT_EQ(rank_of("rank3.json"), 3);
  EXPECT_EQ(rank_of("trace_rank-12.pt.trace.json"), 12);
  EXPECT_EQ(rank_of("worker7.1623143089861.pt.trace.json.gz"), 7);
  EXPECT_EQ(rank_of("run4-r5.json"), 5);
  EXPECT_EQ(rank_of("8rank-rank6.json"), 6);
  EXPECT_EQ(rank_of("rank_1_of_rank_2.json"), 2);
  EXPECT_EQ(rank_of("nothing-12.json"), 0);
  ImportReport report;
  EXPECT_EQ(read_kineto(dir.file("rank3.json", text), {.rank = 9}, report).rank, 9);
  EXPECT_EQ(read_kineto(dir.file("rank3.json", trace_of({kernel("10", "5")})), {.rank = 9}, report).rank, 0);
}

TEST(KinetoFiles, SeveralFilesMustSayTheirRanks) {
  const TestDir dir;
  const auto of_rank = [](int rank) {
    return trace_of({kernel("10", "5")}, R"("distributedInfo": {"rank": )" + std::to_string(rank) + "},");
  };
  const std::vector<fs::path> files = {dir.file("a", of_rank(2)), dir.file("b", of_rank(0)),
                                       dir.file("rank1", trace_of({}, ""))};
  ImportReport report;
  const std::vector<RankTrace> traces = read_kineto_files(files, {.rank = 7}, {}, report);
  ASSERT_EQ(traces.size(), 3U);
  EXPECT_EQ(traces[0].source, files[1].string());
  EXPECT_EQ(traces[1].source, files[2].string());
  EXPECT_EQ(traces[2].source, files[0].string());

  const std::vector<fs::path> twice = {dir.file("a", of_rank(2)), dir.file("c", of_rank(2))};
  EXPECT_THAT(thrown<InputError>([&] { (void)read_kineto_files(twice, {}, {}, report); }),
              AllOf(HasSubstr(twice[0].string()), HasSubstr(twice[1].string()), HasSubstr("rank 2"),
                    HasSubstr("fix: ")));
  const std::vector<fs::path> unknown = {dir.file("a", of_rank(2)), dir.file("d", trace_of({}, ""))};
  EXPECT_THAT(thrown<InputError>([&] { (void)read_kineto_files(unknown, {}, {}, report); }),
              AllOf(HasSubstr(unknown[1].string()), HasSubstr("does not say its rank")));
}

TEST(KinetoFiles, AStopIsHonoured) {
  const TestDir dir;
  const std::vector<fs::path> files = {dir.file("rank0", trace_of({kernel("10", "5")}))};
  const std::atomic<bool> cancelled{true};
  ImportReport report;
  EXPECT_THROW(
      (void)read_kineto_files(files, {}, {.threads = 1, .cancelled = &cancelled, .progress = {}}, report),
      Cancelled);
}

TEST(KinetoFiles, OfAFolder) {
  const TestDir dir;
  const fs::path b = dir.file("b.json", trace_of({}));
  const fs::path a = dir.file("a.gz", trace_of({kernel("1", "2")}));
  (void)dir.file("notes.txt", "hello");
  (void)dir.file("other.json", R"({"a": 1})");
  (void)dir.file("empty.json", "");
  fs::create_directory(dir.path("deeper"));
  ImportReport report;
  EXPECT_THAT(kineto_files_in(dir.path(), report), ElementsAre(a, b));
  ASSERT_EQ(report.entries().size(), 2U);
  EXPECT_EQ(report.entries()[0].reason, "file skipped: it cannot be read");
  EXPECT_THAT(report.entries()[0].places, ElementsAre(HasSubstr("empty.json: is empty")));
  EXPECT_EQ(report.entries()[1].count, 2U);
  EXPECT_THAT(thrown<InputError>([&] { (void)kineto_files_in(dir.path("none"), report); }),
              HasSubstr("cannot be listed"));
}

TEST(KinetoFiles, DashIsStandardInput) {
  const TestDir dir;
  const fs::path path = dir.file("in", trace_of({kernel("10", "5")}));
  const int saved = ::dup(STDIN_FILENO);
  const int fd = ::open(path.c_str(), O_RDONLY);
  ::dup2(fd, STDIN_FILENO);
  ::close(fd);
  ImportReport report;
  const RankTrace trace = read_kineto("-", {}, report);
  ::dup2(saved, STDIN_FILENO);
  ::close(saved);
  EXPECT_EQ(trace.gpu_ops.size(), 1U);
  EXPECT_EQ(trace.source, "standard input");
}

}  // namespace
}  // namespace prism
