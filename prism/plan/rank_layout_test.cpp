// SPDX-License-Identifier: Apache-2.0
#include "prism/plan/rank_layout.hpp"

#include <algorithm>
#include <map>
#include <optional>
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

/// Coordinates of a global rank, counted out axis by axis. The expert grid factors the ranks of a stage, in the order tensor,
/// context, data.
struct Coordinates {
  std::int64_t t = 0, c = 0, d = 0, q = 0;
  std::int64_t copy = 0;  // of the dense weights: c + cp d
  std::int64_t te = 0, e = 0, de = 0;
};

std::vector<Coordinates> all_coordinates(const Parallel& p) {
  const auto size_of = [&](Axis axis) {
    return axis == Axis::Tp   ? p.tp
           : axis == Axis::Cp ? p.cp
           : axis == Axis::Dp ? p.dp
           : axis == Axis::Pp ? p.pp
                              : 1;
  };
  std::vector<Coordinates> all;
  std::array<std::int64_t, kAxisCount> digit{};  // of the rank, in the order of the axes
  for (std::int64_t rank = 0; rank < p.world_size(); ++rank) {
    Coordinates at;
    for (std::size_t i = 0; i < kAxisCount; ++i) {
      if (p.order[i] == Axis::Tp) at.t = digit[i];
      if (p.order[i] == Axis::Cp) at.c = digit[i];
      if (p.order[i] == Axis::Dp) at.d = digit[i];
      if (p.order[i] == Axis::Pp) at.q = digit[i];
    }
    at.copy = at.c + p.cp * at.d;
    std::int64_t position = at.t + p.tp * at.copy;
    at.te = position % p.etp;
    position /= p.etp;
    at.e = position % p.ep;
    at.de = position / p.ep;
    all.push_back(at);
    for (std::size_t i = 0; i < kAxisCount && ++digit[i] == size_of(p.order[i]); ++i) digit[i] = 0;
  }
  return all;
}

/// Global ranks that agree on a key, as sorted groups.
template <typename Key>
std::set<std::vector<std::int64_t>> agreeing(const std::vector<Coordinates>& all, Key key) {
  std::map<std::vector<std::int64_t>, std::vector<std::int64_t>> groups;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    groups[key(all[rank])].push_back(static_cast<std::int64_t>(rank));
  std::set<std::vector<std::int64_t>> result;
  for (auto& [k, ranks] : groups) result.insert(std::move(ranks));
  return result;
}

RC_GTEST_PROP(RankLayoutProperty, GroupsAreThoseOfTheCoordinates, ()) {
  Parallel p;
  p.tp = *rc::gen::inRange<std::int64_t>(1, 5);
  p.cp = *rc::gen::inRange<std::int64_t>(1, 5);
  p.pp = *rc::gen::inRange<std::int64_t>(1, 4);
  p.dp = *rc::gen::inRange<std::int64_t>(1, 13);
  // A divisor of what the second grid, and the shards, have to divide.
  const auto divisor = [](std::int64_t of) {
    std::vector<std::int64_t> divisors;
    for (std::int64_t i = 1; i <= of; ++i) {
      if (of % i == 0) divisors.push_back(i);
    }
    return *rc::gen::elementOf(divisors);
  };
  const std::int64_t copies = p.dp * p.cp;
  p.etp = divisor(p.tp * copies);
  p.ep = divisor(p.tp * copies / p.etp);
  p.shard = *rc::gen::inRange(0, 2) == 0 ? 0 : divisor(copies);
  for (std::size_t i = kAxisCount - 1; i > 0; --i)
    std::swap(p.order[i], p.order[*rc::gen::inRange<std::size_t>(0, i + 1)]);
  std::optional<RankLayout> made;
  try {
    made.emplace(p, cluster(), "plan");
  } catch (const InputError& error) {
    RC_ASSERT(std::string(error.what()).find("repeat evenly") != std::string::npos);
    RC_DISCARD("groups that are no product of ranks and replicas");
  }
  const RankLayout& layout = *made;
  const std::vector<Coordinates> all = all_coordinates(p);
  const std::int64_t shard = p.shard == 0 ? copies : p.shard;
  using Key = std::vector<std::int64_t>;
  const auto check = [&](GroupAxis axis, auto key) {
    RC_ASSERT(all_groups(layout, axis, p.pp) == agreeing(all, key));
  };
  check(GroupAxis::Tp, [](const Coordinates& a) { return Key{a.c, a.d, a.q}; });
  check(GroupAxis::Cp, [](const Coordinates& a) { return Key{a.t, a.d, a.q}; });
  check(GroupAxis::Dp, [](const Coordinates& a) { return Key{a.t, a.q}; });
  check(GroupAxis::Shard, [&](const Coordinates& a) { return Key{a.copy / shard, a.t, a.q}; });
  check(GroupAxis::Replicate, [&](const Coordinates& a) { return Key{a.copy % shard, a.t, a.q}; });
  check(GroupAxis::Etp, [](const Coordinates& a) { return Key{a.e, a.de, a.q}; });
  check(GroupAxis::Ep, [](const Coordinates& a) { return Key{a.te, a.de, a.q}; });
  check(GroupAxis::ExpertDp, [](const Coordinates& a) { return Key{a.te, a.e, a.q}; });
  check(GroupAxis::Model, [](const Coordinates& a) { return Key{a.d}; });
  check(GroupAxis::World, [](const Coordinates&) { return Key{}; });
}

TEST(RankLayout, RefusesExpertGroupsThatDifferFromReplicaToReplica) {
  // Positions 0 1 | 2 3 | 4 5 (replicas): groups of three are {0 1 2} and {3 4 5}.
  Parallel p;
  p.tp = 2;
  p.dp = 3;
  p.ep = 3;
  EXPECT_THROW(RankLayout(p, cluster(), "plan"), InputError);
}

TEST(RankLayout, OfAMillionRanksIsMadeAtOnce) {
  Parallel p;
  p.tp = 8;
  p.ep = 16;
  p.dp = 1 << 17;
  const RankLayout layout(p, cluster(), "plan");
  const std::vector<TemplateGroup> experts = layout.groups(GroupAxis::Ep, 0);
  ASSERT_EQ(experts.size(), 1U);
  EXPECT_EQ(experts[0].replicas, (ReplicaGroup{2, 1}));
  EXPECT_EQ(layout.groups(GroupAxis::Dp, 0).size(), 8U);
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
