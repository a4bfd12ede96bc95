// SPDX-License-Identifier: Apache-2.0
#include "prism/model/mesh.hpp"

#include <set>

#include <gtest/gtest.h>

namespace prism {
namespace {

using Ranks = std::vector<std::int64_t>;

/// tp 2, cp 1, ep 1, dp 3, pp 4 in Megatron's order.
Mesh small_mesh() {
  return {.sizes = {2, 1, 1, 3, 4}};
}

TEST(Mesh, StridesGrowInTheOrder) {
  const Mesh mesh = small_mesh();
  EXPECT_EQ(mesh.world_size(), 24);
  EXPECT_EQ(mesh.stride(Axis::Tp), 1);
  EXPECT_EQ(mesh.stride(Axis::Cp), 2);
  EXPECT_EQ(mesh.stride(Axis::Dp), 2);
  EXPECT_EQ(mesh.stride(Axis::Pp), 6);
}

// rank = tp + 2 dp + 6 pp: 17 = 1 + 2*2 + 6*2.
TEST(Mesh, GroupsOfARank) {
  const Mesh mesh = small_mesh();
  EXPECT_EQ(mesh.coordinate(17, Axis::Tp), 1);
  EXPECT_EQ(mesh.coordinate(17, Axis::Dp), 2);
  EXPECT_EQ(mesh.coordinate(17, Axis::Pp), 2);
  EXPECT_EQ(mesh.coordinate(17, Axis::Ep), 0);
  EXPECT_EQ(mesh.group(17, Axis::Tp), (Ranks{16, 17}));
  EXPECT_EQ(mesh.group(17, Axis::Dp), (Ranks{13, 15, 17}));
  EXPECT_EQ(mesh.group(17, Axis::Pp), (Ranks{5, 11, 17, 23}));
  EXPECT_EQ(mesh.group(17, Axis::Cp), (Ranks{17}));
}

TEST(Mesh, OtherOrderOtherGroups) {
  Mesh mesh = small_mesh();
  mesh.order = {Axis::Pp, Axis::Tp, Axis::Dp, Axis::Cp, Axis::Ep};
  EXPECT_EQ(mesh.stride(Axis::Pp), 1);
  EXPECT_EQ(mesh.stride(Axis::Tp), 4);
  EXPECT_EQ(mesh.stride(Axis::Dp), 8);
  EXPECT_EQ(mesh.group(17, Axis::Pp), (Ranks{16, 17, 18, 19}));
  EXPECT_EQ(mesh.group(17, Axis::Dp), (Ranks{1, 9, 17}));
}

// Coordinates name a rank: all different, and rank = sum of coordinate * stride.
TEST(Mesh, CoordinatesAndStridesInvertEachOther) {
  Mesh mesh{.sizes = {2, 3, 1, 4, 2}};
  mesh.order = {Axis::Dp, Axis::Pp, Axis::Ep, Axis::Tp, Axis::Cp};
  for (std::int64_t rank = 0; rank < mesh.world_size(); ++rank) {
    std::int64_t sum = 0;
    for (const Axis axis : mesh.order) {
      const int coordinate = mesh.coordinate(rank, axis);
      EXPECT_GE(coordinate, 0);
      EXPECT_LT(coordinate, mesh.size(axis));
      sum += coordinate * mesh.stride(axis);
      EXPECT_EQ(mesh.group(rank, axis)[static_cast<std::size_t>(coordinate)], rank);
    }
    EXPECT_EQ(sum, rank);
  }
}

TEST(Mesh, TextLeavesOutAxesOfOne) {
  EXPECT_EQ(small_mesh().text(), "tp 2 x dp 3 x pp 4");
  EXPECT_EQ(Mesh{}.text(), "1 rank");
  EXPECT_EQ((Mesh{.sizes = {1, 1, 1, 8, 1}}.text()), "dp 8");
}

TEST(Mesh, OrderTextReadsBack) {
  EXPECT_EQ(small_mesh().order_text(), "tp-cp-ep-dp-pp");
  const auto order = Mesh::parse_order("pp-dp-tp-ep-cp");
  ASSERT_TRUE(order);
  EXPECT_EQ(*order, (std::array{Axis::Pp, Axis::Dp, Axis::Tp, Axis::Ep, Axis::Cp}));
  EXPECT_EQ((Mesh{.order = *order}.order_text()), "pp-dp-tp-ep-cp");
}

TEST(Mesh, OrderMustNameEachAxisOnce) {
  for (const char* text :
       {"", "tp", "tp-cp-ep-dp", "tp-cp-ep-dp-dp", "tp-cp-ep-dp-pp-tp", "tp-cp-ep-dp-pp-", "-tp-cp-ep-dp-pp",
        "tp--cp-ep-dp-pp", "TP-cp-ep-dp-pp", "tp-cp-ep-dp-xx", "tp cp ep dp pp", "tp-cp-ep-dp-pp "}) {
    EXPECT_FALSE(Mesh::parse_order(text)) << "'" << text << "'";
  }
}

TEST(Mesh, LargeSizesDoNotOverflow) {
  const Mesh mesh{.sizes = {1 << 15, 1 << 10, 1, 1 << 15, 1 << 10}};
  EXPECT_EQ(mesh.world_size(), std::int64_t{1} << 50);
  EXPECT_EQ(mesh.stride(Axis::Pp), std::int64_t{1} << 40);
}

}  // namespace
}  // namespace prism
