// SPDX-License-Identifier: Apache-2.0
// The shift between two recordings of one sequence of communication, when nothing numbers them.
//
// Two ranks issue the collectives of a group in one order, but their traces begin and end at different ones: the
// sequences are equal up to a missing prefix and suffix. Training repeats the same signatures step after step, so
// signatures alone allow shifts by whole steps; the times decide: no member of a collective ends before all have begun,
// and all end at about one instant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "prism/kernels/clock_fit.hpp"
#include "prism/kernels/communication_names.hpp"

namespace prism {

/// What an op is, comparable between traces. Names are numbered over all traces.
struct OpSignature {
  CollectiveKind kind = CollectiveKind::Unknown;
  bool recorded = false;     ///< sizes and type come from metadata
  bool equal_sizes = false;  ///< has_equal_sizes
  std::uint32_t kernel = 0;  ///< number of the kernel's base name
  std::uint32_t dtype = 0;   ///< number of the recorded type; 0: not recorded
  std::int64_t in_elements = -1;
  std::int64_t out_elements = -1;
  std::optional<std::uint64_t> number;  ///< sequence number or communication id: equal for all members
};

/// Can both be members of one collective? What only one of them knows does not count; where one has no metadata, the
/// kernels must have one name.
bool can_match(const OpSignature& a, const OpSignature& b);

struct OrderedOp {
  std::int64_t start_ns = 0;  ///< of the rank's clock
  std::int64_t end_ns = 0;
  OpSignature signature;
};

/// What is known about clock(b) - clock(a) before: a value and how far off it may be, at most and usually.
struct ClockPrior {
  std::int64_t offset_ns = 0;
  std::int64_t tolerance_ns = 0;
  std::int64_t uncertainty_ns = 0;
};

struct OrderAlignment {
  std::ptrdiff_t shift = 0;      ///< b[i] is a[i + shift]
  ClockFit clock;                ///< clock(b) - clock(a), from the differences of ends
  std::size_t pairs = 0;         ///< that agree in signature and time
  std::vector<std::size_t> odd;  ///< positions in b of pairs that do not: at most one in 20, or one
};

/// Why there is no alignment, with the pair of ops that shows it.
struct OrderFailure {
  bool ambiguous = false;  ///< several shifts fit equally well, else none does
  std::size_t in_a = 0;
  std::size_t in_b = 0;
  std::string reason;
};

struct OrderResult {
  std::optional<OrderAlignment> alignment;
  OrderFailure failure;
};

enum class PairTiming : std::uint8_t {
  Collective,  ///< barrier-like ops end together
  SendFirst,   ///< a sends, b receives: a receive does not end before its send began
};

/// Clocks closer than this need no alignment to be believed.
inline constexpr std::int64_t kPlausibleSkewNs = 5'000'000;

/// Finds the shift. `prior` none: the clocks are unrelated, and a shift is taken only if no other explains the times
/// half as well.
OrderResult align_order(std::span<const OrderedOp> a, std::span<const OrderedOp> b,
                        const std::optional<ClockPrior>& prior, PairTiming timing);

/// The op on the clock that `clock` is the difference to.
OrderedOp on_reference_clock(const OrderedOp& op, const ClockFit& clock);

/// Whether two members of one matched collective, on one clock, agree in time. Of barrier-like ones none ends before the
/// other begins, but for twice the spread of that clock, and both end together: to 100 us and a quarter of the shorter.
/// Others are at most a millisecond apart.
bool agree_in_time(const OrderedOp& a, const OrderedOp& b, double spread_ns, PairTiming timing);

}  // namespace prism
