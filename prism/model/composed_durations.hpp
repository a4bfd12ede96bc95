// SPDX-License-Identifier: Apache-2.0
// Durations without profiled steps, composed of what varies alone and what varies together:
//
//   duration(node, replica, sample) = base(node, replica) * own draw * product of the class's shared factors
//
// The base is what a cost model gives; the own draw has mean 1 (kernel jitter, transfer tails); a shared factor is one
// number for all ops of a GPU, of a host, of a link, of a microbatch or of a sample (design: laws of plans). Random numbers
// are keyed by (factor's draw id, what it belongs to, sample), so scenarios share them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "prism/stats/laws.hpp"
#include "prism/trace/ids.hpp"

namespace prism {

/// What shares one draw of a factor in a sample.
enum class FactorScope : std::uint8_t {
  Step,        ///< everything
  Rank,        ///< one GPU
  Host,        ///< the GPUs of one host
  Link,        ///< one process group (or pair) of one axis
  Microbatch,  ///< one microbatch of one replica, on all stages
};

/// One row of variability: with `probability` the factor is drawn from `law` (or is one of `values`, each equally likely),
/// else it is 1.
struct SharedFactor {
  std::string name;  ///< "speed of GPUs: matrix products"
  FactorScope scope = FactorScope::Step;
  std::uint64_t draw_id = 0;  ///< factors of equal scope and draw id follow the same random number
  Law law{ConstantLaw{1}};
  std::vector<double> values;  ///< in place of the law; ascending
  double probability = 1;
  bool once = false;  ///< one draw for all samples: a given fleet, rather than any
  friend bool operator==(const SharedFactor&, const SharedFactor&) = default;
};

/// What a composed class draws per op.
enum class OwnDraw : std::uint8_t {
  None,       ///< the class is not composed: durations are pool values
  Constant,   ///< 1
  Pool,       ///< one of the class's pool values (mean 1), each equally likely
  Lognormal,  ///< exp(sigma z - sigma^2 / 2)
};

}  // namespace prism
