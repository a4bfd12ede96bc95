// SPDX-License-Identifier: Apache-2.0
// What names say about communication, and which ops of a trace are communication.
#include "prism/kernels/communication.hpp"

#include <gtest/gtest.h>

#include "prism/trace/error.hpp"
#include "tests/trace_builder.hpp"

namespace prism {
namespace {

TEST(KernelNames, OldAndNewNcclNamesGiveKindAlgorithmProtocolAndType) {
  const KernelName old =
      parse_kernel_name("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long)");
  EXPECT_EQ(old.base, "ncclKernel_AllReduce_RING_LL_Sum_float");
  EXPECT_EQ(old.kind, CollectiveKind::AllReduce);
  EXPECT_EQ(old.algorithm, "RING");
  EXPECT_EQ(old.protocol, "LL");
  EXPECT_EQ(old.dtype, "float");
  const KernelName tree = parse_kernel_name("ncclDevKernel_AllReduce_Sum_bf16_NVLS_TREE_SIMPLE(x)");
  EXPECT_EQ(tree.algorithm, "NVLS_TREE");
  EXPECT_EQ(tree.protocol, "SIMPLE");
  EXPECT_EQ(tree.dtype, "bf16");
  EXPECT_EQ(parse_kernel_name("ncclKernel_Broadcast_RING_LL_Sum_int8_t(x)").dtype, "int8_t");
  EXPECT_EQ(parse_kernel_name("ncclDevKernel_SendRecv(x)").kind, CollectiveKind::SendRecv);
  EXPECT_EQ(parse_kernel_name("ncclDevKernel_Generic(x)").kind, CollectiveKind::Unknown);
}

TEST(Patterns, KnownLibrariesAreFoundAndComputeIsNot) {
  const auto is_communication = [](std::string_view name) {
    return find_pattern(default_communication_patterns(), name) != nullptr;
  };
  for (const char* name :
       {"ncclKernel_AllGather_RING_LL_Sum_int8_t(x)", "ncclDevKernel_Generic_4(x)",
        "NCCLDEVKERNEL_AllReduce(x)", "ncclSymkDevKernel_AllGather_LL(x)",
        "void deep_ep::internode::dispatch<true>(int)", "void dpsk::ep::intranode::combine(x)",
        "void vllm::cross_device_reduce_1stage<__half, 8>(x)", "oneccl_allreduce_kernel", "hccl:allgather",
        "Memcpy PtoP (Device -> Device)"}) {
    EXPECT_TRUE(is_communication(name)) << name;
  }
  for (const char* name : {"void at::native::reduce_kernel<512>(x)", "Memcpy DtoD (Device -> Device)",
                           "ampere_sgemm_128x64_tn", "hipLaunchKernel", ""}) {
    EXPECT_FALSE(is_communication(name)) << name;
  }
}

TEST(Patterns, AFileReplacesTheListAndABadKindIsNamedWithItsLine) {
  const auto patterns = parse_communication_patterns("# ours\n\nmy_ring_* = all_reduce\r\nother\n", "p.txt");
  ASSERT_EQ(patterns.size(), 2U);
  EXPECT_EQ(find_pattern(patterns, "my_ring_3")->kind, CollectiveKind::AllReduce);
  EXPECT_EQ(find_pattern(patterns, "OTHER")->kind, CollectiveKind::Unknown);
  EXPECT_EQ(find_pattern(patterns, "ncclDevKernel_AllReduce"), nullptr);
  try {
    parse_communication_patterns("a = allreduce\nb = nonsense\n", "p.txt");
    FAIL() << "accepted";
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("p.txt:2"), std::string::npos) << e.what();
  }
}

TEST(Patterns, ManyStarsAreNotExponential) {
  std::string glob;
  for (int i = 0; i < 30; ++i) glob += "*a";
  const std::vector<CommunicationPattern> patterns = {{glob + "b", CollectiveKind::Unknown}};
  EXPECT_EQ(find_pattern(patterns, std::string(5000, 'a')), nullptr);
}

RankCommunication communication_of(const RankTrace& trace) {
  return find_communication(trace, find_launches(trace));
}

CommRecord record_of(TraceBuilder& b, std::string_view collective, std::int64_t elements,
                     std::string_view group = "0") {
  CommRecord record;
  record.collective = b.name(collective);
  record.dtype = b.name("BFloat16");
  record.group = b.name(group);
  record.in_elements = record.out_elements = elements;
  return record;
}

TEST(Communication, MetadataOnTheKernelComesFirstAndTheHostRecordFillsIn) {
  TraceBuilder b(0);
  CommRecord host = record_of(b, "allreduce", 999);
  host.sequence = 17;
  b.record(1'000, 10'000, host);
  b.call("cudaLaunchKernel", 5'000, 3'000, 1);
  b.kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", 20'000, 5'000, 1).comm =
      b.comm(record_of(b, "allreduce", 1024));
  const RankCommunication found = communication_of(b.finish());
  ASSERT_EQ(found.ops.size(), 1U);
  const CommunicationOp& op = found.ops[0];
  EXPECT_EQ(op.evidence, CommEvidence::KernelMetadata);
  EXPECT_EQ(op.kind, CollectiveKind::AllReduce);
  EXPECT_EQ(op.bytes, 2048);
  EXPECT_EQ(op.sequence, 17);
  EXPECT_EQ(op.issue_ns, 1'000) << "the record begins before the launch";
  EXPECT_EQ(found.kernels[op.kernel].algorithm, "RING");
  EXPECT_EQ(found.records_without_op, 0U);
}

TEST(Communication, WaitsAreDroppedAndCopiesInsideARecordAreNotCommunication) {
  TraceBuilder b(0);
  b.record(1'000, 10'000, record_of(b, "allreduce", 8));
  b.call("cudaLaunchKernel", 2'000, 1'000, 1);
  b.call("cudaLaunchKernel", 4'000, 1'000, 2);
  b.record(20'000, 5'000, record_of(b, "wait", -1));
  b.call("cudaLaunchKernel", 21'000, 1'000, 3);
  b.kernel("void at::native::pack(x)", 30'000, 1'000, 1);
  b.kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", 31'000, 1'000, 2);
  b.kernel("compute", 32'000, 1'000, 3);
  const RankCommunication found = communication_of(b.finish());
  ASSERT_EQ(found.ops.size(), 1U);
  EXPECT_EQ(found.ops[0].gpu_op, 1U);
  EXPECT_EQ(found.ops[0].evidence, CommEvidence::HostRecord);
  EXPECT_EQ(found.wait_records, 1U);
  EXPECT_EQ(found.of_gpu_op[1], 0U);
  EXPECT_FALSE(found.of_gpu_op[0]);
}

TEST(Communication, AKernelOfNoKnownNameInsideARecordIsCommunication) {
  TraceBuilder b(0);
  b.record(1'000, 10'000, record_of(b, "allreduce", 8));
  b.call("cudaLaunchKernel", 2'000, 1'000, 1);
  b.kernel("my_fast_ring(x)", 30'000, 1'000, 1);
  const RankCommunication found = communication_of(b.finish());
  ASSERT_EQ(found.ops.size(), 1U);
  EXPECT_EQ(found.ops[0].kind, CollectiveKind::AllReduce);
}

TEST(Communication, OneKernelTakesTheCoalescedRecordsBeforeIt) {
  TraceBuilder b(1);
  CommRecord send = record_of(b, "send", 100, "pp");
  send.source = 1;
  send.destination = 2;
  CommRecord receive = record_of(b, "recv", 50, "pp");
  receive.source = 2;
  receive.destination = 1;
  b.record(500, 100, record_of(b, "allreduce", 7, "cpu group"));  // launches nothing on the GPU
  b.record(1'000, 1'000, send);
  b.record(3'000, 1'000, receive);
  b.record(3'000, 1'000, record_of(b, "send", 1, "pp"), "other thread");
  b.call("cudaLaunchKernel", 6'000, 1'000, 1);
  b.call("cudaLaunchKernel", 16'000, 1'000, 2);
  b.kernel("ncclDevKernel_SendRecv(x)", 20'000, 5'000, 1);
  b.kernel("ncclDevKernel_SendRecv(x)", 30'000, 5'000, 2);
  const RankTrace trace = b.finish();
  const RankCommunication found = communication_of(trace);
  ASSERT_EQ(found.ops.size(), 2U);
  const CommunicationOp& op = found.ops[0];
  EXPECT_EQ(op.evidence, CommEvidence::CoalescedRecords);
  EXPECT_EQ(op.kind, CollectiveKind::SendRecv);
  EXPECT_EQ(op.records.size(), 2U);
  EXPECT_EQ(op.in_elements, 150);
  EXPECT_EQ(op.issue_ns, 1'000);
  EXPECT_EQ(trace.name(op.group), "pp");
  EXPECT_EQ(found.ops[1].evidence, CommEvidence::Name) << "nothing is left for the second";
  EXPECT_EQ(found.records_without_op, 2U);
}

TEST(Communication, WithoutAnyCorrelationKernelsAndRecordsPairFromTheEnd) {
  // roctracer wrote correlation 0 for all RCCL kernels. The first kernel was enqueued before the trace.
  TraceBuilder b(0);
  for (int i = 0; i < 3; ++i) b.record(10'000 + 10'000 * i, 1'000, record_of(b, "allreduce", 100 + i));
  for (int i = 0; i < 4; ++i) b.kernel("ncclDevKernel_Generic(x)", 5'000 + 10'000 * i, 2'000, 0);
  const RankCommunication found = communication_of(b.finish());
  ASSERT_EQ(found.ops.size(), 4U);
  EXPECT_EQ(found.ops[0].evidence, CommEvidence::Name);
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(found.ops[i].evidence, CommEvidence::RecordByOrder);
    EXPECT_EQ(found.ops[i].in_elements, 99 + static_cast<std::int64_t>(i));
    EXPECT_EQ(found.ops[i].kind, CollectiveKind::AllReduce);
  }
}

TEST(Communication, WhereRecordsSayNothingTheAnnotationTellsAnAllToAllFromASend) {
  TraceBuilder b(0);
  b.annotation("nccl:all_to_all", 1'000, 10'000);
  b.record(2'000, 5'000, {});
  b.record(20'000, 5'000, {});  // a wait of 2023
  b.call("cudaLaunchKernel", 3'000, 1'000, 1);
  b.kernel("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(x)", 30'000, 1'000, 1);
  const RankCommunication found = communication_of(b.finish());
  ASSERT_EQ(found.ops.size(), 1U);
  EXPECT_EQ(found.ops[0].kind, CollectiveKind::AllToAll);
  EXPECT_EQ(found.wait_records, 1U);
  EXPECT_EQ(found.with_metadata, 0U);
}

TEST(Communication, ASizeThatDoesNotFitIsUnknown) {
  TraceBuilder b(0);
  b.kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", 20'000, 5'000, 1).comm =
      b.comm(record_of(b, "allreduce", INT64_MAX));
  const RankCommunication found = communication_of(b.finish());
  ASSERT_EQ(found.ops.size(), 1U);
  EXPECT_EQ(found.ops[0].bytes, -1);
}

}  // namespace
}  // namespace prism
