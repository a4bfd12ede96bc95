// SPDX-License-Identifier: Apache-2.0
// Texts that are taken apart again: names of nodes and keys of communication pools.
#include "prism/kernels/node_names.hpp"

#include <gtest/gtest.h>

#include "prism/kernels/split_collectives.hpp"

namespace prism {
namespace {

TEST(NodeNames, AreTakenApart) {
  for (const char* what : {"gemm", "Memcpy DtoH", "kernel 7 of rank 3", "host to cudaLaunchKernel"}) {
    EXPECT_EQ(what_of_node_name(numbered_node_name(what, 12, "rank 3")), what);
  }
  for (const char* other :
       {"", "op 17", "stream 7 of rank 1 free", "3 of rank 1", "gemm of rank 1", "gemm 3 of rank "}) {
    EXPECT_EQ(what_of_node_name(other), std::nullopt) << other;
  }
}

TEST(CommunicationPoolKey, IsTakenApart) {
  for (const CollectiveKind kind :
       {CollectiveKind::Unknown, CollectiveKind::AllReduce, CollectiveKind::AllToAll, CollectiveKind::Send,
        CollectiveKind::SendRecv, CollectiveKind::Copy}) {
    for (const GroupPlacement placement : {GroupPlacement::Unknown, GroupPlacement::InterHost}) {
      for (const std::int64_t bytes : {std::int64_t{-1}, std::int64_t{1} << 40}) {
        const std::string key = communication_pool_key(
            kind, 8, placement, bytes, parse_kernel_name("ncclDevKernel_AllReduce_RING_LL(x)"));
        const auto pool = parse_communication_pool_key(key);
        ASSERT_TRUE(pool.has_value()) << key;
        EXPECT_EQ(pool->kind, kind) << key;
        EXPECT_EQ(pool->group_size, 8) << key;
        EXPECT_EQ(pool->bytes, bytes) << key;
        EXPECT_EQ(pool->kernel, "RING LL") << key;
      }
    }
  }
  for (const char* other :
       {"", "pool 3", "gemm", "all-reduce", "all-reduce, 8 ranks", "all-reduce, x ranks, 3 bytes",
        "all-reduce, 8 ranks, -3 bytes", "forward-send stage 1"}) {
    EXPECT_FALSE(parse_communication_pool_key(other).has_value()) << other;
  }
}

}  // namespace
}  // namespace prism
