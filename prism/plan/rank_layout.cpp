// SPDX-License-Identifier: Apache-2.0
#include "prism/plan/rank_layout.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>

#include "prism/trace/error.hpp"

namespace prism {

namespace {

constexpr std::int64_t kMostRanks = std::int64_t{1} << 20;

void check(bool holds, const std::string& source, const std::string& problem, const std::string& fix) {
  if (!holds) throw InputError({source, {}, {}}, problem, fix);
}

void check_degrees(const Parallel& p, const std::string& source) {
  std::int64_t world = 1;
  for (const std::int64_t degree : {p.tp, p.cp, p.pp, p.dp, p.ep, p.etp}) {
    check(degree >= 1 && degree <= kMostRanks, source, "a parallel degree of " + std::to_string(degree),
          "from 1 to 1 million");
  }
  for (const std::int64_t degree : {p.tp, p.cp, p.pp, p.dp}) {
    world *= degree;
    check(world <= kMostRanks, source, "tp x cp x pp x dp is more than 1 million ranks", "smaller degrees");
  }
  const std::int64_t dense = p.tp * p.cp * p.dp;
  check(dense % (p.etp * p.ep) == 0, source,
        "the " + std::to_string(dense) +
            " ranks of a stage (tp x cp x dp) are no multiple of etp x ep = " + std::to_string(p.etp * p.ep),
        "change ep, etp or dp");
  const std::int64_t copies = p.dp * p.cp;
  check(p.shard >= 0 && (p.shard == 0 || copies % p.shard == 0), source,
        "dp x cp = " + std::to_string(copies) + " is no multiple of the shard group of " +
            std::to_string(p.shard),
        "change shard, dp or cp");
}

/// A coordinate of a pipeline rank's ranks: tensor, context, data-parallel.
struct Dense {
  std::int64_t t = 0;
  std::int64_t c = 0;
  std::int64_t d = 0;
};

}  // namespace

RankLayout::RankLayout(const Parallel& parallel, const Cluster& cluster, const std::string& source)
    : parallel_(parallel), cluster_(cluster) {
  check_degrees(parallel, source);
  mesh_.size(Axis::Tp) = static_cast<int>(parallel.tp);
  mesh_.size(Axis::Cp) = static_cast<int>(parallel.cp);
  mesh_.size(Axis::Dp) = static_cast<int>(parallel.dp);
  mesh_.size(Axis::Pp) = static_cast<int>(parallel.pp);
  mesh_.order = parallel.order;
  template_ranks_ = static_cast<std::int32_t>(parallel.tp * parallel.cp * parallel.pp);
  replicas_ = static_cast<std::uint32_t>(parallel.dp);
  locations_ = place_ranks(cluster, parallel.world_size(), source);
  for (const GroupAxis axis :
       {GroupAxis::Ep, GroupAxis::Etp, GroupAxis::ExpertDp, GroupAxis::Shard, GroupAxis::Replicate}) {
    try {
      static_cast<void>(groups(axis, 0));
    } catch (const std::invalid_argument&) {
      throw InputError({source, {}, {}},
                       std::string("the process groups '") + group_axis_name(axis) +
                           "' do not repeat evenly over data-parallel replicas",
                       "degrees that divide each other (ep, etp, shard against tp, cp, dp)");
    }
  }
}

std::int32_t RankLayout::template_rank(std::int64_t pp, std::int64_t cp, std::int64_t tp) const {
  return static_cast<std::int32_t>((pp * parallel_.cp + cp) * parallel_.tp + tp);
}

std::int32_t RankLayout::pipeline_rank(std::int32_t template_rank) const {
  return template_rank / static_cast<std::int32_t>(parallel_.tp * parallel_.cp);
}

std::int64_t RankLayout::global_rank(std::int32_t template_rank, std::uint32_t replica) const {
  const std::int64_t t = template_rank % parallel_.tp;
  const std::int64_t c = template_rank / parallel_.tp % parallel_.cp;
  const std::int64_t q = template_rank / (parallel_.tp * parallel_.cp);
  return t * mesh_.stride(Axis::Tp) + c * mesh_.stride(Axis::Cp) +
         static_cast<std::int64_t>(replica) * mesh_.stride(Axis::Dp) + q * mesh_.stride(Axis::Pp);
}

const Location& RankLayout::location(std::int32_t template_rank, std::uint32_t replica) const {
  return locations_[static_cast<std::size_t>(global_rank(template_rank, replica))];
}

namespace {

/// Which process group of an axis a rank of a stage belongs to: equal numbers, equal groups.
class GroupNumber {
 public:
  GroupNumber(const Parallel& p, GroupAxis axis) : p_(p), axis_(axis) {}

  [[nodiscard]] std::int64_t of(const Dense& at) const {
    const std::int64_t copy = at.d * p_.cp + at.c;      // dp x cp, cp fastest
    const std::int64_t position = at.t + p_.tp * copy;  // dense position in the stage
    const std::int64_t shard = p_.shard == 0 ? p_.dp * p_.cp : p_.shard;
    switch (axis_) {
      case GroupAxis::Tp:
        return copy;
      case GroupAxis::Cp:
        return at.d * p_.tp + at.t;
      case GroupAxis::Dp:
        return at.t;
      case GroupAxis::Shard:
        return copy / shard * p_.tp + at.t;
      case GroupAxis::Replicate:
        return copy % shard * p_.tp + at.t;
      case GroupAxis::Etp:
        return position / p_.etp;
      case GroupAxis::Ep:
        return position / (p_.etp * p_.ep) * p_.etp + position % p_.etp;
      case GroupAxis::ExpertDp:
        return position % (p_.etp * p_.ep);
      case GroupAxis::Embedding:
        return position;
      case GroupAxis::Model:
        return at.d;
      case GroupAxis::World:
      case GroupAxis::Pp:
        break;
    }
    return 0;
  }

 private:
  const Parallel& p_;
  GroupAxis axis_;
};

/// Ranks of a stage by process group, each group's ascending. A rank's number is its dense position (tensor fastest, then
/// context, then data), so that number = replica * lanes + lane.
class StageGroups {
 public:
  StageGroups(const Parallel& p, GroupAxis axis) {
    const GroupNumber number(p, axis);
    std::vector<std::uint32_t> group_of;
    group_of.reserve(static_cast<std::size_t>(p.tp * p.cp * p.dp));
    for (Dense at; at.d < p.dp; ++at.d) {
      for (at.c = 0; at.c < p.cp; ++at.c) {
        for (at.t = 0; at.t < p.tp; ++at.t) group_of.push_back(static_cast<std::uint32_t>(number.of(at)));
      }
    }
    begins_.assign(std::size_t{*std::ranges::max_element(group_of)} + 2, 0);
    for (const std::uint32_t group : group_of) ++begins_[group + 1];
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
    ranks_.resize(group_of.size());
    std::vector<std::uint32_t> next(begins_.begin(), begins_.end() - 1);
    for (std::size_t i = 0; i < group_of.size(); ++i)
      ranks_[next[group_of[i]]++] = static_cast<std::uint32_t>(i);
  }

  [[nodiscard]] std::size_t size() const { return begins_.size() - 1; }
  [[nodiscard]] std::span<const std::uint32_t> operator[](std::size_t group) const {
    return std::span(ranks_).subspan(begins_[group], begins_[group + 1] - begins_[group]);
  }

 private:
  std::vector<std::uint32_t> begins_;
  std::vector<std::uint32_t> ranks_;
};

/// The same lanes in each of some replicas.
struct LanesInReplicas {
  std::vector<std::int32_t> lanes;
  std::vector<std::uint32_t> replicas;
};

/// A group as that. Throws std::invalid_argument if its lanes differ from replica to replica.
LanesInReplicas as_product(std::span<const std::uint32_t> group, std::uint32_t lanes) {
  LanesInReplicas product;
  for (const std::uint32_t rank : group) {
    if (rank / lanes != group.front() / lanes) break;
    product.lanes.push_back(static_cast<std::int32_t>(rank % lanes));
  }
  const std::size_t width = product.lanes.size();
  for (std::size_t i = 0; i < group.size(); ++i) {
    const std::uint32_t replica = group[i] / lanes;
    if (i % width == 0) product.replicas.push_back(replica);
    if (replica != product.replicas.back() ||
        static_cast<std::int32_t>(group[i] % lanes) != product.lanes[i % width]) {
      throw std::invalid_argument("a group's ranks differ from replica to replica");
    }
  }
  if (product.replicas.size() * width != group.size())
    throw std::invalid_argument("a replica lacks some of a group's ranks");
  return product;
}

/// The first group's replicas {first, first + stride, ...} in the engine's form: groups of `size`, `stride` apart, that tile
/// the replicas. Throws std::invalid_argument if they are none.
ReplicaGroup as_replica_group(std::span<const std::uint32_t> replicas) {
  if (replicas.size() == 1) return {};
  const ReplicaGroup group{static_cast<std::uint32_t>(replicas.size()), replicas[1] - replicas[0]};
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    if (replicas[i] != replicas[0] + i * group.stride) throw std::invalid_argument("uneven replicas");
  }
  if (replicas[0] >= group.stride) throw std::invalid_argument("replicas of the first group start late");
  return group;
}

/// Throws std::invalid_argument unless these replicas are one whole group of that form.
void check_is_group(std::span<const std::uint32_t> replicas, const ReplicaGroup& form) {
  const bool whole =
      replicas.size() == form.size && std::ranges::all_of(replicas, [&](std::uint32_t replica) {
        return form.index_of(replica) == form.index_of(replicas[0]);
      });
  if (!whole) throw std::invalid_argument("groups of the same ranks join replicas in different ways");
}

}  // namespace

std::vector<TemplateGroup> RankLayout::groups(GroupAxis axis, std::int64_t pp) const {
  if (axis == GroupAxis::Embedding && pp != 0 && pp != parallel_.pp - 1) return {};
  const StageGroups of_stage(parallel_, axis);
  const std::int32_t lanes = static_cast<std::int32_t>(parallel_.tp * parallel_.cp);
  std::map<std::vector<std::int32_t>, ReplicaGroup> distinct;
  for (std::size_t i = 0; i < of_stage.size(); ++i) {
    if (of_stage[i].empty()) continue;
    LanesInReplicas group = as_product(of_stage[i], static_cast<std::uint32_t>(lanes));
    if (const auto known = distinct.find(group.lanes); known != distinct.end()) {
      check_is_group(group.replicas, known->second);
    } else {
      const ReplicaGroup form = as_replica_group(group.replicas);
      distinct.emplace(std::move(group.lanes), form);
    }
  }
  std::vector<TemplateGroup> result;
  for (const auto& [ranks, replicas] : distinct) {
    TemplateGroup group{.members = {}, .replicas = replicas};
    for (std::int32_t q = 0; q < parallel_.pp; ++q) {
      const bool spans_stages = axis == GroupAxis::Model || axis == GroupAxis::World ||
                                (axis == GroupAxis::Embedding && (q == 0 || q == parallel_.pp - 1));
      if (q != pp && !spans_stages) continue;
      for (const std::int32_t lane : ranks) group.members.push_back(q * lanes + lane);
    }
    std::ranges::sort(group.members);
    result.push_back(std::move(group));
  }
  return result;
}

double RankLayout::least_memory_gb(std::int64_t pp) const {
  double least = std::numeric_limits<double>::infinity();
  const std::int32_t lanes = static_cast<std::int32_t>(parallel_.tp * parallel_.cp);
  const std::int32_t first = template_rank(pp, 0, 0);
  for (std::int32_t rank = first; rank < first + lanes; ++rank) {
    for (std::uint32_t d = 0; d < replicas_; ++d) {
      least = std::min(least, cluster_.groups[location(rank, d).group].gpu.memory_gb);
    }
  }
  return least;
}

GroupPlace RankLayout::placement(const TemplateGroup& group, std::uint32_t replica) const {
  const std::uint32_t size = group.replicas.size;
  const std::uint32_t stride = group.replicas.stride;
  const std::uint32_t first = replica / (size * stride) * (size * stride) + replica % stride;
  std::vector<Location> members;
  members.reserve(group.members.size() * size);
  for (std::uint32_t i = 0; i < size; ++i) {
    for (const std::int32_t rank : group.members) members.push_back(location(rank, first + i * stride));
  }
  return place_group(cluster_, members);
}

GroupPlace RankLayout::pair(std::int32_t from, std::int32_t to, std::uint32_t replica) const {
  return place_group(cluster_, {location(from, replica), location(to, replica)});
}

}  // namespace prism
