// SPDX-License-Identifier: Apache-2.0
// Latencies are those of NCCL's own tuning table (src/graph/tuning.cc, release 2.27); achieved bandwidths are the large-message
// limits of nccl-tests on 8 x H100 (NVLink 362 of 450 GB/s, NVLS all-reduce 275 GB/s of S, 400 Gb/s NIC 48.8 GB/s) and on 8 x
// A100 (232 of 300 GB/s).
#include "prism/plan/collective_cost.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace prism {

namespace {

constexpr double kScaleUpShare = 0.80;  // of NVLink's nominal rate in one direction
constexpr double kNicShare = 0.97;      // of a NIC's nominal rate
constexpr double kPairNicShare = 0.83;  // of one send-receive at a time over a NIC
constexpr double kNvlsShare = 0.61;     // S per second of an in-switch all-reduce over the nominal rate
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

/// Bus bandwidth of a ring through the group, GB/s.
double ring_gb_per_s(const GroupPlace& group) {
  const double inside = kScaleUpShare * group.scale_up_gb_per_s;
  if (group.domains == 1) return inside;
  const double network =
      kNicShare * group.nic_gb_per_s * static_cast<double>(group.ranks_per_domain) / group.oversubscription;
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
    offer(best, kNvlsUs, bytes, kNvlsShare * group.scale_up_gb_per_s, "nvls");
  }
  return best;
}

CollectiveTime all_to_all(double bytes, const GroupPlace& group) {
  const auto n = static_cast<double>(group.ranks);
  const auto local = static_cast<double>(group.ranks_per_domain);
  const double inside = bytes * (local - 1) / n / (kScaleUpShare * group.scale_up_gb_per_s);
  const double outside = bytes * (1 - local / n) / (kNicShare * group.nic_gb_per_s / group.oversubscription);
  constexpr double kPeersAtOnce = 8;
  const double us = kRingBase[Simple] + (local - 1) * kRingScaleUpHop[Simple] +
                    (n - local) / kPeersAtOnce * (kRingNetworkHop[Simple] + group.level_latency_us);
  return {us * 1e3 + std::max(inside, group.domains > 1 ? outside : 0), "pairwise"};
}

CollectiveTime send_receive(double bytes, const GroupPlace& group) {
  if (group.domains == 1) {
    const double nominal =
        group.scale_up_peer_gb_per_s > 0 ? group.scale_up_peer_gb_per_s : group.scale_up_gb_per_s;
    return {(kRingBase[Simple] + kRingScaleUpHop[Simple]) * 1e3 + bytes / (kScaleUpShare * nominal),
            "direct"};
  }
  const double us = kRingBase[Simple] + kRingNetworkHop[Simple] + group.level_latency_us;
  return {us * 1e3 + bytes / (kPairNicShare * group.nic_gb_per_s / group.oversubscription), "direct"};
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
