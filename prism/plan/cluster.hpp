// SPDX-License-Identifier: Apache-2.0
// The machines: hosts, what connects their GPUs, and what connects them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "prism/plan/gpu_kind.hpp"

namespace prism {

/// A run of equal hosts.
struct HostGroup {
  GpuKind gpu;
  std::int64_t hosts = 0;  ///< 0 in a plan's only group: as many as the ranks need
  std::int64_t gpus_per_host = 8;
};

/// One level of the network above the hosts, from the bottom up: leaf switches, spines.
struct NetworkLevel {
  std::string name;
  std::int64_t hosts = 0;       ///< hosts below one switch of this level; 0: all
  double oversubscription = 1;  ///< of the links from this level up
  double latency_us = 0;        ///< added to a message that crosses this level
};

struct Cluster {
  std::vector<HostGroup> groups;     ///< in the order of host numbers
  std::int64_t scale_up_domain = 0;  ///< GPUs (of neighbouring hosts) on one NVLink; 0: the GPU kind's
  double nic_gb_per_s = 0;           ///< per GPU, one direction; 0: the GPU kind's
  double nic_latency_us = 0;         ///< added per network message; 0: the collective model's own
  std::vector<NetworkLevel> levels;
  std::vector<std::int64_t> host_order;  ///< host of the i-th run of ranks; empty: 0, 1, 2, ...

  [[nodiscard]] std::int64_t gpus() const;  ///< of all groups with hosts given
};

/// Where a rank runs.
struct Location {
  std::int64_t host = 0;    ///< physical
  std::int64_t local = 0;   ///< GPU of the host; its NIC (rail) has the same number
  std::int64_t domain = 0;  ///< scale-up domain
  std::size_t group = 0;    ///< of Cluster::groups
};

/// Location of each of `ranks` ranks. Throws InputError (place: `source`) if there are too few GPUs or host_order is no
/// permutation.
std::vector<Location> place_ranks(const Cluster& cluster, std::int64_t ranks, const std::string& source);

/// What a communication crosses at worst.
enum class LinkClass : std::uint8_t {
  None,     ///< one rank
  ScaleUp,  ///< NVLink or Infinity Fabric
  Network,  ///< NICs, below one leaf switch
  Far,      ///< NICs, over the higher levels of the network
};
inline constexpr std::size_t kLinkClassCount = 4;
/// "none", "scale-up", "network" or "far network".
const char* link_class_name(LinkClass link);

/// How a process group lies on the machines: all that its cost depends on.
struct GroupPlace {
  std::int64_t ranks = 1;
  std::int64_t domains = 1;           ///< scale-up domains it touches (as hosts for its network part)
  std::int64_t ranks_per_domain = 1;  ///< largest number in one
  std::int64_t least_per_domain = 1;  ///< smallest number in one: its NICs carry all that enters or leaves it
  std::int64_t hosts = 1;
  int level = 0;                ///< highest network level crossed: 0 none or below the first
  double oversubscription = 1;  ///< product over the levels crossed
  double level_latency_us = 0;
  double nic_gb_per_s = 0;  ///< slowest of the members, one direction, of one rank
  double scale_up_gb_per_s = 0;
  double scale_up_peer_gb_per_s = 0;
  bool in_switch_reduction = false;
  LinkClass link = LinkClass::None;
  friend auto operator<=>(const GroupPlace&, const GroupPlace&) = default;
};
GroupPlace place_group(const Cluster& cluster, const std::vector<Location>& members);

}  // namespace prism
