// SPDX-License-Identifier: Apache-2.0
// How long a collective takes between the last arrival and its end: alpha-beta models, or what was measured.
//
// S is the total size as nccl-tests counts it. The model takes the fastest of (algorithm, protocol), as NCCL does:
// latency(algorithm, protocol) + S / bandwidth(algorithm, protocol). Constants and their sources: collective_cost.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "prism/plan/cluster.hpp"
#include "prism/plan/pass_program.hpp"

namespace prism {

struct CollectiveTime {
  double ns = 0;
  std::string algorithm;  ///< "ring simple", "tree LL", "nvls", "measured", ...
};

/// Measured times of collectives: what replaces the model where it has the same kind and a group like it.
class MeasuredCollectives {
 public:
  /// One measured point: mean time of a collective of that size in a group of that form.
  struct Point {
    CollectiveOp kind = CollectiveOp::AllReduce;
    std::int64_t ranks = 0;
    std::int64_t hosts = 0;
    double bytes = 0;
    double ns = 0;
    std::string group;  ///< which measurement: node pair, file
  };
  void add(const Point& point);
  void add(const MeasuredCollectives& other);
  [[nodiscard]] const std::vector<Point>& points() const { return points_; }
  [[nodiscard]] bool empty() const { return points_.empty(); }

  /// Time by interpolation over log size between the measured sizes of groups with that number of ranks and hosts (median
  /// over the groups measured); above the largest size by its bandwidth, below the smallest its time. Nothing where no such
  /// group was measured.
  [[nodiscard]] std::optional<double> time_ns(CollectiveOp kind, double bytes, std::int64_t ranks,
                                              std::int64_t hosts) const;

  /// Time of each measured group over the median of all, at the largest size at or below `bytes`: the spatial spread of
  /// links. Empty with fewer than three groups.
  [[nodiscard]] std::vector<double> spread(CollectiveOp kind, double bytes, std::int64_t ranks,
                                           std::int64_t hosts) const;

  /// The spread of the collective and group form over several hosts that most groups were measured of, at its largest
  /// size. Empty if there is none with three groups.
  [[nodiscard]] std::vector<double> network_spread() const;

 private:
  std::vector<Point> points_;
};

/// From the model alone.
CollectiveTime model_collective(CollectiveOp kind, double bytes, const GroupPlace& group);

/// Measured where it can be, else modelled.
CollectiveTime collective_time(CollectiveOp kind, double bytes, const GroupPlace& group,
                               const MeasuredCollectives& measured);

}  // namespace prism
