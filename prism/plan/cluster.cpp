// SPDX-License-Identifier: Apache-2.0
#include "prism/plan/cluster.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "prism/trace/error.hpp"

namespace prism {

namespace {

/// GPU kind group of each host, hosts numbered through the groups. An open group (0 hosts) gets what is missing.
std::vector<std::size_t> groups_of_hosts(const Cluster& cluster, std::int64_t ranks,
                                         const std::string& source) {
  std::vector<std::size_t> groups;
  std::int64_t left = ranks;
  for (std::size_t g = 0; g < cluster.groups.size(); ++g) {
    const HostGroup& group = cluster.groups[g];
    const std::int64_t per_host = group.gpus_per_host;
    const std::int64_t needed = left > 0 ? (left + per_host - 1) / per_host : 0;
    const std::int64_t hosts = group.hosts == 0 ? needed : group.hosts;
    if (hosts > (std::int64_t{1} << 20)) {
      throw InputError({source, {}, {}}, std::to_string(hosts) + " hosts are too many", "at most 1 million");
    }
    groups.insert(groups.end(), static_cast<std::size_t>(hosts), g);
    left -= hosts * per_host;
  }
  if (left > 0) {
    throw InputError({source, {}, {}},
                     "the plan has " + std::to_string(ranks) + " ranks and the cluster " +
                         std::to_string(ranks - left) + " GPUs",
                     "more hosts, or smaller degrees");
  }
  return groups;
}

std::vector<std::int64_t> host_order(const Cluster& cluster, std::size_t hosts, const std::string& source) {
  std::vector<std::int64_t> order = cluster.host_order;
  if (order.empty()) {
    for (std::size_t i = 0; i < hosts; ++i) order.push_back(static_cast<std::int64_t>(i));
    return order;
  }
  const std::set<std::int64_t> different(order.begin(), order.end());
  if (different.size() != order.size() || *different.begin() < 0 ||
      *different.rbegin() >= static_cast<std::int64_t>(hosts)) {
    throw InputError({source, {}, {}}, "the order of hosts names a host twice, or one that does not exist",
                     "each of 0 to " + std::to_string(hosts - 1) + " at most once");
  }
  return order;
}

std::int64_t domain_size(const Cluster& cluster, const HostGroup& group) {
  return cluster.scale_up_domain > 0 ? cluster.scale_up_domain : std::int64_t{group.gpu.scale_up_domain};
}

}  // namespace

std::int64_t Cluster::gpus() const {
  std::int64_t sum = 0;
  for (const HostGroup& group : groups) sum += group.hosts * group.gpus_per_host;
  return sum;
}

const char* link_class_name(LinkClass link) {
  switch (link) {
    case LinkClass::None:
      return "none";
    case LinkClass::ScaleUp:
      return "scale-up";
    case LinkClass::Network:
      return "network";
    case LinkClass::Far:
      break;
  }
  return "far network";
}

std::vector<Location> place_ranks(const Cluster& cluster, std::int64_t ranks, const std::string& source) {
  const std::vector<std::size_t> group_of = groups_of_hosts(cluster, ranks, source);
  // Scale-up domains are runs of GPUs of neighbouring hosts of one kind; a host's GPUs may form several.
  std::vector<std::int64_t> first_gpu;  // of each host, in its group
  std::vector<std::int64_t> first_domain(cluster.groups.size(), 0);
  std::int64_t gpus = 0;
  std::int64_t domains = 0;
  for (std::size_t host = 0; host < group_of.size(); ++host) {
    const std::size_t g = group_of[host];
    if (host == 0 || g != group_of[host - 1]) {
      gpus = 0;
      first_domain[g] = domains;
    }
    first_gpu.push_back(gpus);
    gpus += cluster.groups[g].gpus_per_host;
    const std::int64_t size = domain_size(cluster, cluster.groups[g]);
    domains = first_domain[g] + (gpus + size - 1) / size;
  }
  std::vector<Location> places;
  places.reserve(static_cast<std::size_t>(ranks));
  for (const std::int64_t host : host_order(cluster, group_of.size(), source)) {
    const std::size_t g = group_of[static_cast<std::size_t>(host)];
    const HostGroup& group = cluster.groups[g];
    for (std::int64_t local = 0; local < group.gpus_per_host && std::ssize(places) < ranks; ++local) {
      const std::int64_t gpu = first_gpu[static_cast<std::size_t>(host)] + local;
      const std::int64_t domain = first_domain[g] + gpu / domain_size(cluster, group);
      places.push_back({.host = host, .local = local, .domain = domain, .group = g});
    }
  }
  if (std::ssize(places) < ranks) {
    throw InputError({source, {}, {}},
                     "the order of hosts has room for " + std::to_string(places.size()) + " of " +
                         std::to_string(ranks) + " ranks",
                     "name more hosts");
  }
  return places;
}

GroupPlace place_group(const Cluster& cluster, const std::vector<Location>& members) {
  GroupPlace placement{.ranks = std::ssize(members)};
  std::set<std::int64_t> hosts;
  std::map<std::int64_t, std::int64_t> in_domain;
  placement.in_switch_reduction = true;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const Location& at = members[i];
    hosts.insert(at.host);
    ++in_domain[at.domain];
    const GpuKind& gpu = cluster.groups[at.group].gpu;
    const double nic = cluster.nic_gb_per_s > 0 ? cluster.nic_gb_per_s : gpu.nic_gb_per_s;
    const auto least = [&](double& value, double other) { value = i == 0 ? other : std::min(value, other); };
    least(placement.nic_gb_per_s, nic);
    least(placement.scale_up_gb_per_s, gpu.scale_up_gb_per_s);
    least(placement.scale_up_peer_gb_per_s, gpu.scale_up_peer_gb_per_s);
    placement.in_switch_reduction = placement.in_switch_reduction && gpu.in_switch_reduction;
  }
  placement.hosts = std::ssize(hosts);
  placement.domains = std::ssize(in_domain);
  if (placement.ranks <= 1) return placement;
  placement.least_per_domain = placement.ranks;
  for (const auto& [domain, count] : in_domain) {
    placement.ranks_per_domain = std::max(placement.ranks_per_domain, count);
    placement.least_per_domain = std::min(placement.least_per_domain, count);
  }
  placement.link = placement.domains == 1 ? LinkClass::ScaleUp : LinkClass::Network;
  if (placement.domains == 1) return placement;
  placement.level_latency_us = cluster.nic_latency_us;
  for (const NetworkLevel& level : cluster.levels) {
    const std::int64_t below = level.hosts;
    const bool crosses = below > 0 && *hosts.begin() / below != *hosts.rbegin() / below;
    if (!crosses) break;
    ++placement.level;
    placement.oversubscription *= level.oversubscription;
    placement.level_latency_us += level.latency_us;
    placement.link = LinkClass::Far;
  }
  return placement;
}

}  // namespace prism
