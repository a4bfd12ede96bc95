// SPDX-License-Identifier: Apache-2.0
// What names say about communication.
#include "prism/model/communication.hpp"

#include <gtest/gtest.h>

#include "prism/trace/error.hpp"

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

}  // namespace
}  // namespace prism
