// SPDX-License-Identifier: Apache-2.0
// Latencies are those of NCCL's own tuning table (src/graph/tuning.cc, release 2.27); achieved bandwidths are the large-message
// limits of nccl-tests on 4 and 8 x H100 (NVLink 362 of 450 GB/s, NVLS all-reduce 245 and 275 GB/s of S, 400 Gb/s NIC
// 48.8 GB/s) and on 8 x A100 (232 of 300 GB/s).
#include "prism/plan/collective_cost.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace prism {

namespace {

constexpr double kScaleUpShare = 0.80;  // of NVLink's nominal rate in one direction
// Of a link between two GPUs without a switch: 48 of 64 GB/s of an xGMI link (ncclTopoXGMISpeed of RCCL; AMD,
// "Understanding RCCL Bandwidth and xGMI Performance on AMD Instinct MI300X", 2025).
constexpr double kMeshShare = 0.75;
constexpr double kNicShare = 0.97;      // of a NIC's nominal rate
constexpr double kPairNicShare = 0.83;  // of a NIC's, with one peer at a time
constexpr double kNvlsShare = 0.685;    // of NVLink's nominal rate, in an in-switch all-reduce
constexpr double kTreeShare = 0.92;     // of the ring's bandwidth
constexpr double kPlateau = 1.4;        // latency of large all-reduce rings over several hosts

enum Protocol : std::size_t { LL, LL128, Simple };
constexpr std::array<const char*, 3> kProtocolNames = {"LL", "LL128", "simple"};
// Microseconds, by protocol.
constexpr std::array<double, 3> kRingBase = {6.6, 14.0, 8.4};
constexpr std::array<double, 3> kRingScaleUpHop = {0.6, 1.9, 3.4};
constexpr std::array<double, 3> kRingNetworkHop = {2.7, 4.0, 14.0};
constexpr std::array<double, 3> kTreeBase = {6.8, 14.0, 8.4};
constexpr std::array<double, 3> kTreeScaleUpHop = {0.6, 1.25, 4.0};
constexpr std::array<double, 3> kTreeNetworkHop = {5.0, 8.5, 14.0};
constexpr double kNvlsUs = 25;

/// Bandwidth share that a protocol leaves: LL sends a flag with every word, LL128 one per 128 bytes.
constexpr std::array<double, 3> kProtocolShare = {0.5, 0.92, 1.0};
constexpr double kLowLatencyHostCap = 141;                         // GB/s of LL inside one host
constexpr std::array<double, 2> kLowLatencyNetworkCap = {39, 20};  // GB/s, two hosts and more

/// What a GPU reaches to `peers` others of its scale-up domain together, GB/s in one direction. Through a switch all links
/// lead to any peer; without one, a link leads to one.
double scale_up_gb_per_s(const GroupPlace& group, double peers) {
  if (group.scale_up_peer_gb_per_s <= 0) return kScaleUpShare * group.scale_up_gb_per_s;
  return kMeshShare * std::min(group.scale_up_gb_per_s, peers * group.scale_up_peer_gb_per_s);
}

/// What a rank reaches over its NIC, GB/s in one direction.
double nic_gb_per_s(const GroupPlace& group, double share) {
  return share * group.nic_gb_per_s / group.oversubscription;
}

/// Bus bandwidth of rings through the group, GB/s. Each ring enters and leaves each domain once, over a NIC of its own.
double ring_gb_per_s(const GroupPlace& group) {
  const double inside = scale_up_gb_per_s(group, static_cast<double>(group.ranks_per_domain) - 1);
  if (group.domains == 1) return inside;
  const double network = nic_gb_per_s(group, kNicShare) * static_cast<double>(group.least_per_domain);
  return group.ranks_per_domain == 1 ? network : std::min(inside, network);
}

double with_protocol(double gb_per_s, Protocol protocol, const GroupPlace& group) {
  double rate = gb_per_s * kProtocolShare[protocol];
  if (protocol == LL) {
    const double cap = group.domains == 1   ? kLowLatencyHostCap
                       : group.domains == 2 ? kLowLatencyNetworkCap[0]
                                            : kLowLatencyNetworkCap[1];
    rate = std::min(rate, cap);
  }
  return rate;
}

/// A candidate replaces the best so far if it is faster.
void offer(CollectiveTime& best, double us, double bytes_over_bus, double gb_per_s, const std::string& name) {
  const double ns = us * 1e3 + bytes_over_bus / gb_per_s;
  if (best.algorithm.empty() || ns < best.ns) best = {ns, name};
}

CollectiveTime ring_like(CollectiveOp kind, double bytes, const GroupPlace& group) {
  const auto n = static_cast<double>(group.ranks);
  const auto domains = static_cast<double>(group.domains);
  const bool twice = kind == CollectiveOp::AllReduce;
  const double passes = twice ? 2 : 1;
  const double on_bus = kind == CollectiveOp::Broadcast ? bytes : bytes * passes * (n - 1) / n;
  const double network_steps = domains > 1 ? passes * (domains - (twice ? 1 : 0)) : 0;
  const double scale_up_steps = std::max(passes * (n - 1) - network_steps, 0.0);
  CollectiveTime best;
  for (const Protocol protocol : {LL, LL128, Simple}) {
    const double rate = with_protocol(ring_gb_per_s(group), protocol, group);
    double us = kRingBase[protocol] + scale_up_steps * kRingScaleUpHop[protocol] +
                network_steps * (kRingNetworkHop[protocol] + group.level_latency_us);
    if (twice && group.domains > 1) us *= kPlateau;
    offer(best, us, on_bus, rate, std::string("ring ") + kProtocolNames[protocol]);
    if (!twice) continue;
    const double tree_us = kTreeBase[protocol] +
                           2 * (static_cast<double>(group.ranks_per_domain) - 1) * kTreeScaleUpHop[protocol] +
                           2 * std::log2(domains) * (kTreeNetworkHop[protocol] + group.level_latency_us);
    offer(best, tree_us, 2 * bytes, rate * kTreeShare, std::string("tree ") + kProtocolNames[protocol]);
  }
  if (twice && group.in_switch_reduction && group.domains == 1 && group.ranks > 2) {
    // Each GPU has 1/n of S reduced and spread by the switch: S + S/n leave it and enter it.
    offer(best, kNvlsUs, bytes * (1 + 1 / n), kNvlsShare * group.scale_up_gb_per_s, "nvls");
  }
  return best;
}

CollectiveTime all_to_all(double bytes, const GroupPlace& group) {
  const auto n = static_cast<double>(group.ranks);
  const double peers = static_cast<double>(group.ranks_per_domain) - 1;
  const double most_outside = n - static_cast<double>(group.least_per_domain);
  const double inside = peers > 0 ? bytes * peers / n / scale_up_gb_per_s(group, peers) : 0;
  const double outside = bytes * most_outside / n / nic_gb_per_s(group, n > 2 ? kNicShare : kPairNicShare);
  constexpr double kPeersAtOnce = 8;
  const double us = kRingBase[Simple] + peers * kRingScaleUpHop[Simple] +
                    most_outside / kPeersAtOnce * (kRingNetworkHop[Simple] + group.level_latency_us);
  return {us * 1e3 + std::max(inside, group.domains > 1 ? outside : 0), "pairwise"};
}

CollectiveTime send_receive(double bytes, const GroupPlace& group) {
  if (group.domains == 1) {
    return {(kRingBase[Simple] + kRingScaleUpHop[Simple]) * 1e3 + bytes / scale_up_gb_per_s(group, 1),
            "direct"};
  }
  const double us = kRingBase[Simple] + kRingNetworkHop[Simple] + group.level_latency_us;
  return {us * 1e3 + bytes / nic_gb_per_s(group, kPairNicShare), "direct"};
}

}  // namespace

CollectiveTime model_collective(CollectiveOp kind, double bytes, const GroupPlace& group) {
  if (group.ranks <= 1 || bytes <= 0) return {0, "none"};
  switch (kind) {
    case CollectiveOp::AllToAll:
      return all_to_all(bytes, group);
    case CollectiveOp::SendReceive:
      return send_receive(bytes, group);
    case CollectiveOp::AllReduce:
    case CollectiveOp::AllGather:
    case CollectiveOp::ReduceScatter:
    case CollectiveOp::Broadcast:
      break;
  }
  return ring_like(kind, bytes, group);
}

CollectiveTime collective_time(CollectiveOp kind, double bytes, const GroupPlace& group,
                               const MeasuredCollectives& measured) {
  if (group.ranks > 1 && bytes > 0 && !measured.empty()) {
    if (const std::optional<double> ns = measured.time_ns(kind, bytes, group.ranks, group.hosts))
      return {*ns, "measured"};
  }
  return model_collective(kind, bytes, group);
}

}  // namespace prism
