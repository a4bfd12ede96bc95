// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/parallel_layout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace prism {
namespace {

using ::testing::ElementsAre;

CommGroup group(std::string description, std::vector<std::int32_t> members) {
  CommGroup result;
  result.description = std::move(description);
  result.size = static_cast<std::int32_t>(members.size());
  result.members = std::move(members);
  return result;
}

ParallelLayout layout_of(int world, const std::vector<int>& ranks, std::vector<CommGroup> groups) {
  std::vector<RankTrace> traces(ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    traces[i].rank = ranks[i];
    traces[i].world_size = world;
  }
  GroupTable table;
  table.groups = std::move(groups);
  return find_layout(traces, table);
}

TEST(AxisOfDescription, ReadsTheNamesOfFrameworks) {
  // Megatron-LM
  EXPECT_EQ(axis_of_description("TENSOR_MODEL_PARALLEL_GROUP"), Axis::Tp);
  EXPECT_EQ(axis_of_description("PIPELINE_MODEL_PARALLEL_GROUP"), Axis::Pp);
  EXPECT_EQ(axis_of_description("DATA_PARALLEL_GROUP"), Axis::Dp);
  EXPECT_EQ(axis_of_description("CONTEXT_PARALLEL_GROUP"), Axis::Cp);
  EXPECT_EQ(axis_of_description("EXPERT_MODEL_PARALLEL_GROUP"), Axis::Ep);
  // torchtitan and FSDP2: names of mesh dimensions
  EXPECT_EQ(axis_of_description("mesh_tp"), Axis::Tp);
  EXPECT_EQ(axis_of_description("mesh_dp_shard"), Axis::Dp);
  EXPECT_EQ(axis_of_description("mesh_dp_replicate"), Axis::Dp);
  EXPECT_EQ(axis_of_description("mesh_pp"), Axis::Pp);
  EXPECT_EQ(axis_of_description("fsdp"), Axis::Dp);
  // DeepSpeed
  EXPECT_EQ(axis_of_description("data_parallel_group"), Axis::Dp);
  EXPECT_EQ(axis_of_description("expert_parallel_group_4"), Axis::Ep);
}

TEST(AxisOfDescription, TwoAxesOrNoneSayNothing) {
  EXPECT_EQ(axis_of_description("DATA_PARALLEL_GROUP_WITH_CP"), std::nullopt);
  EXPECT_EQ(axis_of_description("mesh_dp_cp"), std::nullopt);
  EXPECT_EQ(axis_of_description("default_pg"), std::nullopt);
  EXPECT_EQ(axis_of_description("EMBEDDING_GROUP"), std::nullopt);
  EXPECT_EQ(axis_of_description("http"), std::nullopt);  // letters are no words
  EXPECT_EQ(axis_of_description(""), std::nullopt);
}

TEST(ParallelLayout, AJobWithOneGroupOfAllIsDataParallel) {
  const ParallelLayout layout = layout_of(2, {0, 1}, {group("default_pg", {0, 1})});
  EXPECT_TRUE(layout.known);
  EXPECT_EQ(layout.mesh.size(Axis::Dp), 2);
  EXPECT_THAT(layout.cell_of, ElementsAre(0, 1));
  EXPECT_EQ(layout.cells, 2U);
}

TEST(ParallelLayout, TensorNeighboursAreOneCell) {
  const ParallelLayout layout =
      layout_of(4, {0, 1, 2, 3},
                {group("mesh_tp", {0, 1}), group("mesh_tp", {2, 3}), group("mesh_dp", {0, 2}),
                 group("mesh_dp", {1, 3}), group("default_pg", {0, 1, 2, 3})});
  ASSERT_TRUE(layout.known);
  EXPECT_EQ(layout.mesh.text(), "tp 2 x dp 2");
  EXPECT_THAT(layout.cell_of, ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(layout.cells, 2U);
  EXPECT_THAT(layout.axis_of_group, ElementsAre(Axis::Tp, Axis::Tp, Axis::Dp, Axis::Dp, std::nullopt));
}

TEST(ParallelLayout, PipelineStagesMayBeInsideOrOutsideOfReplicas) {
  // Megatron: stages farthest apart.
  const ParallelLayout outside = layout_of(4, {0, 1, 2, 3}, {group("pp", {0, 2}), group("dp", {0, 1})});
  ASSERT_TRUE(outside.known);
  EXPECT_THAT(outside.cell_of, ElementsAre(0, 1, 0, 1));
  // The mesh (dp, pp) of torchtitan: replicas farthest apart.
  const ParallelLayout inside = layout_of(4, {0, 1, 2, 3}, {group("pp", {0, 1}), group("dp", {0, 2})});
  ASSERT_TRUE(inside.known);
  EXPECT_THAT(inside.cell_of, ElementsAre(0, 0, 1, 1));
}

TEST(ParallelLayout, GroupsThatFitNoMeshLeaveEachRankACellOfItsOwn) {
  for (const std::vector<CommGroup>& groups :
       {std::vector{group("tp", {0, 3}), group("dp", {0, 1})},  // no order gives these members
        std::vector{group("tp", {0, 1})},                       // 2 of 4 ranks
        std::vector{group("dp", {0, 1, 2, 3}), group("something else", {0, 1})}}) {  // unknown axis
    const ParallelLayout layout = layout_of(4, {2, 3}, groups);
    EXPECT_FALSE(layout.known);
    EXPECT_EQ(layout.mesh, Mesh{});
    EXPECT_EQ(layout.world, 4);
    EXPECT_THAT(layout.cell_of, ElementsAre(0, 1));
  }
}

TEST(ParallelLayout, CellsAreNumberedAmongTheTracedRanks) {
  const ParallelLayout layout = layout_of(8, {4, 5, 6}, {group("tp", {4, 5}), group("dp", {0, 2, 4, 6})});
  ASSERT_TRUE(layout.known);
  EXPECT_THAT(layout.cell_of, ElementsAre(0, 0, 1));
  EXPECT_EQ(layout.cells, 2U);
}

}  // namespace
}  // namespace prism
