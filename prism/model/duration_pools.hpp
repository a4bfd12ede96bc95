// SPDX-License-Identifier: Apache-2.0
// Duration pools: the values that nodes draw from, all in one array, grouped into classes.
//
// A class is a set of nodes of one template rank that share a pool, such as the forward computes of stage 1.
// From profiled steps its values are laid out [replica][step][member] (K steps, M members), so that index k*M
// + m of a replica's pool is what member m took in step k. A communication or local op is a class of its own
// (M = 1). A user's own pool is plain: N values, shared by all replicas.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "prism/model/composed_durations.hpp"
#include "prism/trace/ids.hpp"

namespace prism {

/// What the durations of a class are made of. Decides the sampling rule and the grouping of reports.
enum class Category : std::uint8_t {
  Compute,       ///< kernels of one rank
  Collective,    ///< transfer part of a collective
  PointToPoint,  ///< transfer part of a send or receive
  Local,         ///< work of one rank outside the microbatches (optimizer, garbage collection)
  LaunchDelay,   ///< time between the last arrival and the start
  HostWork,      ///< host time from one GPU call to the next
  QueueLag,      ///< launch latency, gaps between kernels of a stream, wake-up of a waiting host
  Unexplained,   ///< part of a start's lag that no dependency and no usual lag accounts for
  StepStart,     ///< where host and streams stand when a step begins, against the end of the step before
  Waiting,       ///< of a traced rank for ranks that were not traced
};

/// "compute", "collective", "point-to-point", "local", "launch delay", "host work", "queue lag",
/// "unexplained lag", "step start" or "waiting for untraced ranks".
std::string_view category_name(Category category);
inline constexpr std::size_t kCategoryCount = 10;

/// Whether values of the category belong to a cell: all that one rank or replica did by itself in one
/// profiled step, resampled together. The others are taken from the step k* that the whole job shares.
constexpr bool is_of_cell(Category category) {
  return category == Category::Compute || category == Category::HostWork || category == Category::QueueLag ||
         category == Category::Unexplained || category == Category::StepStart;
}

/// Value of a communication op in a profiled step that did not run it: it ends so early that nothing waits for it.
inline constexpr double kDidNotRunNs = -1e15;

/// Whether a value of a kernel-level pool is of a step that ran the op. Other ops have 0 where they did not run: they
/// take no time.
constexpr bool did_run(double value_ns) {
  return value_ns != 0 && value_ns > kDidNotRunNs / 2;
}

struct DurationClass {
  std::string key;  ///< pool key: classes of one key are shown as one pool
  Category category = Category::Compute;
  std::int32_t rank = 0;          ///< template rank
  std::uint32_t members = 1;      ///< M
  std::uint32_t size = 0;         ///< values per replica: K * M, or N
  bool per_replica = true;        ///< false: one pool for all replicas
  bool exchangeable = false;      ///< members are microbatches 0..M-1, which a sample may reorder
  std::size_t offset = 0;         ///< first value in DurationPools::values_ns
  OwnDraw own = OwnDraw::None;    ///< other than None: a composed class (composed_durations.hpp)
  double sigma = 0;               ///< of OwnDraw::Lognormal
  std::vector<FactorId> factors;  ///< of a composed class
  friend bool operator==(const DurationClass&, const DurationClass&) = default;
};

struct DurationPools {
  IdVector<ClassId, DurationClass> classes;
  std::vector<double> values_ns;

  /// Adds a class with its values ([replica][step][member]); its size and offset are set here.
  ClassId add(DurationClass description, std::span<const double> values, std::size_t replicas);

  /// Adds a class that draws from the same values as class `other`; its size and offset are set here.
  ClassId add_sharing(DurationClass description, ClassId other);

  /// The pool of one replica, `size` values.
  [[nodiscard]] std::span<const double> pool(ClassId id, std::size_t replica) const {
    const DurationClass& c = classes[id];
    return std::span(values_ns).subspan(c.offset + (c.per_replica ? replica * c.size : 0), c.size);
  }
  /// The pools of all `replicas`, one after the other.
  [[nodiscard]] std::span<const double> all(ClassId id, std::size_t replicas) const {
    const DurationClass& c = classes[id];
    return std::span(values_ns).subspan(c.offset, c.size * (c.per_replica ? replicas : 1));
  }
  friend bool operator==(const DurationPools&, const DurationPools&) = default;
};

/// The pools of `steps` profiled steps with those `selected` (repeats allowed) in place of all. Precondition:
/// every class has steps * members values per replica.
DurationPools with_steps(const DurationPools& pools, std::size_t steps,
                         std::span<const std::size_t> selected);

}  // namespace prism
