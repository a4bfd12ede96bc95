// SPDX-License-Identifier: Apache-2.0
#include "prism/plan/rank_layout.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
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

/// The run of replicas {first, first + stride, ...} as a group of the engine's form: groups of `size`, `stride` apart, that
/// tile the replicas. Throws std::invalid_argument if they are none.
ReplicaGroup as_replica_group(const std::set<std::int64_t>& replicas) {
  const auto size = static_cast<std::uint32_t>(replicas.size());
  if (size == 1) return {};
  const std::int64_t first = *replicas.begin();
  const std::int64_t stride = *std::next(replicas.begin()) - first;
  std::int64_t expected = first;
  for (const std::int64_t d : replicas) {
    if (d != expected) throw std::invalid_argument("uneven replicas");
    expected += stride;
  }
  if (first >= stride) throw std::invalid_argument("replicas of the first group start late");
  return {size, static_cast<std::uint32_t>(stride)};
}

}  // namespace

std::vector<TemplateGroup> RankLayout::groups(GroupAxis axis, std::int64_t pp) const {
  if (axis == GroupAxis::Embedding && pp != 0 && pp != parallel_.pp - 1) return {};
  const GroupNumber number(parallel_, axis);
  // All members of the groups that touch replica 0 .. : template ranks and replicas by group number.
  struct Members {
    std::set<std::int32_t> ranks;
    std::set<std::int64_t> replicas;
    std::int64_t count = 0;
  };
  std::map<std::int64_t, Members> found;
  for (std::int64_t d = 0; d < parallel_.dp; ++d) {
    for (std::int64_t c = 0; c < parallel_.cp; ++c) {
      for (std::int64_t t = 0; t < parallel_.tp; ++t) {
        Members& members = found[number.of({t, c, d})];
        members.ranks.insert(template_rank(pp, c, t));
        members.replicas.insert(d);
        ++members.count;
      }
    }
  }
  std::map<std::vector<std::int32_t>, ReplicaGroup> distinct;
  for (const auto& [id, members] : found) {
    if (members.count != std::ssize(members.ranks) * std::ssize(members.replicas)) {
      throw std::invalid_argument("a group's ranks differ from replica to replica");
    }
    std::vector<std::int32_t> ranks(members.ranks.begin(), members.ranks.end());
    if (distinct.contains(ranks)) continue;  // the same ranks in other replicas
    distinct.emplace(std::move(ranks), as_replica_group(members.replicas));
  }
  std::vector<TemplateGroup> result;
  const std::int32_t lanes = static_cast<std::int32_t>(parallel_.tp * parallel_.cp);
  for (const auto& [ranks, replicas] : distinct) {
    TemplateGroup group{.members = {}, .replicas = replicas};
    for (std::int32_t q = 0; q < parallel_.pp; ++q) {
      const bool spans_stages = axis == GroupAxis::Model || axis == GroupAxis::World ||
                                (axis == GroupAxis::Embedding && (q == 0 || q == parallel_.pp - 1));
      if (q != pp && !spans_stages) continue;
      for (const std::int32_t rank : ranks) {
        group.members.push_back(rank + (q - static_cast<std::int32_t>(pp)) * lanes);
      }
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
