// SPDX-License-Identifier: Apache-2.0
#include "prism/plan/rank_layout.hpp"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "prism/trace/error.hpp"

namespace prism {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Cluster cluster(const char* gpu = "H100", std::int64_t per_host = 8) {
  Cluster c;
  c.groups.push_back({*find_gpu_kind(gpu), 0, per_host});
  return c;
}

/// Global ranks of each group of an axis, over all pipeline ranks and replicas.
std::set<std::vector<std::int64_t>> all_groups(const RankLayout& layout, GroupAxis axis, std::int64_t pp) {
  std::set<std::vector<std::int64_t>> groups;
  for (std::int64_t q = 0; q < pp; ++q) {
    for (const TemplateGroup& group : layout.groups(axis, q)) {
      for (std::uint32_t d = 0; d < layout.replicas(); ++d) {
        std::vector<std::int64_t> ranks;
        for (std::uint32_t other = 0; other < layout.replicas(); ++other) {
          if (group.replicas.index_of(other) != group.replicas.index_of(d)) continue;
          for (const std::int32_t member : group.members) ranks.push_back(layout.global_rank(member, other));
        }
        std::ranges::sort(ranks);
        groups.insert(ranks);
      }
    }
  }
  return groups;
}

TEST(RankLayout, GroupsOfTheSixteenRankExample) {
  Parallel p;
  p.tp = 2;
  p.pp = 4;
  p.dp = 2;
  const RankLayout layout(p, cluster(), "plan");
  const auto tp = all_groups(layout, GroupAxis::Tp, 4);
  EXPECT_EQ(tp.size(), 8U);
  EXPECT_TRUE(tp.contains({0, 1}));
  EXPECT_TRUE(tp.contains({14, 15}));
  const auto dp = all_groups(layout, GroupAxis::Dp, 4);
  EXPECT_EQ(dp, (std::set<std::vector<std::int64_t>>{
                    {0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  EXPECT_EQ(layout.global_rank(layout.template_rank(2, 0, 0), 0), 8);  // pipeline {0, 4, 8, 12}
  EXPECT_EQ(layout.pipeline_rank(layout.template_rank(3, 0, 1)), 3);
  EXPECT_EQ(all_groups(layout, GroupAxis::World, 4).begin()->size(), 16U);
  EXPECT_TRUE(all_groups(layout, GroupAxis::Embedding, 4).contains({0, 12}));
}

/// Every rank in exactly one group, and all groups of one size.
void check_partition(const std::set<std::vector<std::int64_t>>& groups, std::int64_t world,
                     std::int64_t size) {
  std::set<std::int64_t> seen;
  for (const auto& group : groups) {
    RC_ASSERT(std::ssize(group) == size);
    for (const std::int64_t rank : group) RC_ASSERT(seen.insert(rank).second);
  }
  RC_ASSERT(std::ssize(seen) == world);
}

RC_GTEST_PROP(RankLayoutProperty, GroupsAreThoseOfTheCoordinates, ()) {
  Parallel p;
  p.tp = std::int64_t{1} << *rc::gen::inRange(0, 3);
  p.cp = std::int64_t{1} << *rc::gen::inRange(0, 3);
  p.pp = *rc::gen::inRange<std::int64_t>(1, 4);
  p.dp = std::int64_t{1} << *rc::gen::inRange(0, 4);
  p.etp = std::int64_t{1} << *rc::gen::inRange(0, 2);
  p.ep = std::int64_t{1} << *rc::gen::inRange(0, 4);
  p.shard = *rc::gen::element<std::int64_t>(0, 1, 2, 4);
  std::array<Axis, kAxisCount> order = p.order;
  for (std::size_t i = kAxisCount - 1; i > 0; --i)
    std::swap(order[i], order[*rc::gen::inRange<std::size_t>(0, i + 1)]);
  p.order = order;
  const std::int64_t copies = p.dp * p.cp;
  RC_PRE(p.tp * copies % (p.etp * p.ep) == 0 && (p.shard == 0 || copies % p.shard == 0));
  const std::int64_t world = p.world_size();
  std::optional<RankLayout> made;
  try {
    made.emplace(p, cluster(), "plan");
  } catch (const InputError& error) {
    RC_ASSERT(std::string(error.what()).find("repeat evenly") != std::string::npos);
    return;
  }
  const RankLayout& layout = *made;
  const std::int64_t shard = p.shard == 0 ? copies : p.shard;
  check_partition(all_groups(layout, GroupAxis::Tp, p.pp), world, p.tp);
  check_partition(all_groups(layout, GroupAxis::Cp, p.pp), world, p.cp);
  check_partition(all_groups(layout, GroupAxis::Dp, p.pp), world, copies);
  check_partition(all_groups(layout, GroupAxis::Shard, p.pp), world, shard);
  check_partition(all_groups(layout, GroupAxis::Replicate, p.pp), world, copies / shard);
  check_partition(all_groups(layout, GroupAxis::Ep, p.pp), world, p.ep);
  check_partition(all_groups(layout, GroupAxis::Etp, p.pp), world, p.etp);
  check_partition(all_groups(layout, GroupAxis::ExpertDp, p.pp), world, p.tp * copies / (p.etp * p.ep));
  // Against the mesh: a tensor-parallel group differs in that coordinate alone.
  for (const auto& group : all_groups(layout, GroupAxis::Tp, p.pp)) {
    RC_ASSERT(group == layout.mesh().group(group.front(), Axis::Tp));
  }
  // A dense and an expert data-parallel group meet the same weights: expert groups lie inside one stage.
  for (const auto& group : all_groups(layout, GroupAxis::Ep, p.pp)) {
    for (const std::int64_t rank : group) {
      RC_ASSERT(layout.mesh().coordinate(rank, Axis::Pp) ==
                layout.mesh().coordinate(group.front(), Axis::Pp));
    }
  }
}

TEST(RankLayout, RefusesDegreesThatDoNotDivide) {
  Parallel p;
  p.dp = 4;
  p.ep = 3;
  const auto refusal = [&]() -> std::string {
    try {
      const RankLayout layout(p, cluster(), "plan");
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal(), HasSubstr("no multiple of etp x ep = 3"));
  p.ep = 1;
  p.shard = 3;
  EXPECT_THAT(refusal(), HasSubstr("shard group of 3"));
  p.shard = 0;
  p.dp = std::int64_t{1} << 40;
  EXPECT_THAT(refusal(), HasSubstr("1 million"));
}

// Machines

TEST(Cluster, GroupsAreInsideAHostIfAndOnlyIfTheirMembersAre) {
  Parallel p;
  p.tp = 4;
  p.cp = 4;
  p.dp = 4;
  const RankLayout layout(p, cluster(), "plan");
  for (const TemplateGroup& group : layout.groups(GroupAxis::Tp, 0)) {
    for (std::uint32_t d = 0; d < 4; ++d) EXPECT_EQ(layout.placement(group, d).link, LinkClass::ScaleUp);
  }
  for (const TemplateGroup& group : layout.groups(GroupAxis::Cp, 0)) {
    const GroupPlace place = layout.placement(group, 1);
    EXPECT_EQ(place.link, LinkClass::Network);
    EXPECT_EQ(place.hosts, 2);
    EXPECT_EQ(place.ranks_per_domain, 2);
  }
  EXPECT_EQ(layout.location(0, 1).host, 2);
  EXPECT_EQ(layout.location(5, 0).local, 5);
}

TEST(Cluster, ScaleUpDomainsMaySpanHosts) {
  Parallel p;
  p.tp = 8;
  p.dp = 18;
  const RankLayout layout(p, cluster("GB200", 4), "plan");
  EXPECT_EQ(layout.placement(layout.groups(GroupAxis::Tp, 0).front(), 0).link, LinkClass::ScaleUp);
  EXPECT_EQ(layout.location(0, 9).domain, 1);  // rank 72
  EXPECT_EQ(layout.placement(layout.groups(GroupAxis::Dp, 0).front(), 0).domains, 2);
}

TEST(Cluster, KindsHostsAndLevels) {
  Cluster c;
  c.groups.push_back({*find_gpu_kind("A100"), 2, 8});
  c.groups.push_back({*find_gpu_kind("H100"), 2, 8});
  c.levels.push_back({"leaf", 2, 1, 0});
  c.levels.push_back({"spine", 0, 4, 3});
  EXPECT_EQ(c.gpus(), 32);
  const auto places = place_ranks(c, 32, "plan");
  EXPECT_EQ(places[16].group, 1U);
  const GroupPlace mixed = place_group(c, {places[0], places[16]});
  EXPECT_EQ(mixed.nic_gb_per_s, 25);  // the slower
  EXPECT_FALSE(mixed.in_switch_reduction);
  EXPECT_EQ(mixed.link, LinkClass::Far);
  EXPECT_EQ(place_group(c, {places[0], places[8]}).link, LinkClass::Network);
  EXPECT_EQ(place_group(c, {places[0], places[1]}).link, LinkClass::ScaleUp);
  c.host_order = {3, 2, 1, 0};
  EXPECT_EQ(place_ranks(c, 32, "plan")[0].host, 3);
  c.host_order = {3, 3};
  EXPECT_THROW(place_ranks(c, 16, "plan"), InputError);
  c.host_order = {3};
  EXPECT_THROW(place_ranks(c, 16, "plan"), InputError);
  EXPECT_THROW(place_ranks(c, 33, "plan"), InputError);
}

}  // namespace
}  // namespace prism
