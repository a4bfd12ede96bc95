// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/align_order.hpp"

#include <algorithm>
#include <cmath>

namespace prism {

namespace {

constexpr std::int64_t kSlackNs = 50'000;          // clock error and exit skew after alignment
constexpr std::int64_t kLooseSlackNs = 1'000'000;  // between members that need not overlap
constexpr std::int64_t kNeighbourFloorNs =
    10'000;  // ends closer than this are not compared with the neighbours'
constexpr std::int64_t kNeighbourRatio = 4;
constexpr double kSdFromMad = 1.4826;
constexpr double kClearlyBetter = 2;
constexpr std::size_t kFewDeviations = 4;  // the median of three is the smaller of two
constexpr std::size_t kEvidencePairs = 8;  // to believe a shift with a skew that is not plausible
constexpr std::size_t kMaxComparisons = std::size_t{1} << 26;

std::int64_t median(std::vector<std::int64_t>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Of absolute deviations, not empty: robust standard deviation, of few the largest. The median of few is small by
/// chance, and a shift that leaves few pairs must not win by chance.
double spread(std::vector<std::int64_t>& deviations) {
  if (deviations.size() < kFewDeviations) return static_cast<double>(std::ranges::max(deviations));
  return kSdFromMad * static_cast<double>(median(deviations));
}

class Search {
 public:
  Search(std::span<const OrderedOp> a, std::span<const OrderedOp> b, const std::optional<ClockPrior>& prior,
         PairTiming timing)
      : a_(a), b_(b), prior_(prior), timing_(timing) {}

  OrderResult run() {
    collect();
    OrderResult result;
    if (out_of_budget_) {
      result.failure.reason = "too many possible shifts to compare";
      return result;
    }
    if (prior_) {
      std::vector<OrderAlignment> near;
      for (const OrderAlignment& candidate : fitting_) {
        if (std::abs(candidate.offset_ns - prior_->offset_ns) <= prior_->tolerance_ns)
          near.push_back(candidate);
      }
      if (!near.empty()) return pick(near, prior_->offset_ns);
    }
    // Clocks that are far apart or unrelated: only much agreeing evidence says so.
    const std::size_t most = most_pairs();
    std::erase_if(fitting_, [&](const OrderAlignment& candidate) {
      return candidate.pairs * 2 < most || (prior_ && candidate.pairs < kEvidencePairs);
    });
    if (!fitting_.empty()) return pick(fitting_, std::nullopt);
    result.failure = misfit_;
    return result;
  }

 private:
  std::size_t most_pairs() const {
    std::size_t most = std::min(a_.size(), b_.size());
    // A short sequence at one end of a long one may share little with it.
    for (const OrderAlignment& candidate : fitting_) most = std::max(most, candidate.pairs);
    return most;
  }

  void collect() {
    const auto na = static_cast<std::ptrdiff_t>(a_.size());
    const auto nb = static_cast<std::ptrdiff_t>(b_.size());
    std::size_t fewest_misfits = SIZE_MAX;
    // From the right-aligned guess outwards, so that its misfit is the one reported among equals.
    const std::ptrdiff_t guess = na - nb;
    for (std::ptrdiff_t distance = 0; distance < na + nb && !out_of_budget_; ++distance) {
      for (const std::ptrdiff_t shift : {guess + distance, guess - distance}) {
        if (shift <= -nb || shift >= na || (distance == 0 && shift != guess)) continue;
        consider(shift, fewest_misfits);
        if (distance == 0) break;
      }
    }
  }

  /// Checks one shift: signatures, then times.
  void consider(std::ptrdiff_t shift, std::size_t& fewest_misfits) {
    const auto first = static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, -shift));
    const auto end = static_cast<std::size_t>(std::min<std::ptrdiff_t>(
        static_cast<std::ptrdiff_t>(b_.size()), static_cast<std::ptrdiff_t>(a_.size()) - shift));
    const std::size_t n = end - first;
    OrderAlignment candidate;
    candidate.shift = shift;
    differences_.clear();
    const bool has_barrier = timing_ == PairTiming::Collective &&
                             std::ranges::any_of(b_.subspan(first, n), [](const OrderedOp& op) {
                               return is_barrier_like(op.signature.kind);
                             });
    for (std::size_t i = first; i < end; ++i) {
      ++comparisons_;
      const OrderedOp& b = b_[i];
      const OrderedOp& a = in_a(i, shift);
      if (!can_match(a.signature, b.signature)) {
        candidate.odd.push_back(i);
        if (candidate.odd.size() > allowed_odd(n)) break;
      } else if (!has_barrier || is_barrier_like(b.signature.kind)) {
        differences_.push_back(b.end_ns - a.end_ns);
      }
    }
    out_of_budget_ = comparisons_ > kMaxComparisons;
    if (candidate.odd.size() > allowed_odd(n) || differences_.empty()) {
      note_misfit(shift, candidate.odd, n, "differ in kind, type or size", fewest_misfits);
      return;
    }
    candidate.offset_ns = median(differences_);
    for (std::int64_t& difference : differences_) difference = std::abs(difference - candidate.offset_ns);
    candidate.spread_ns = spread(differences_);
    std::vector<std::size_t> odd;
    auto known = candidate.odd.begin();
    for (std::size_t i = first; i < end; ++i) {
      if (known != candidate.odd.end() && *known == i) {
        ++known;
        odd.push_back(i);
      } else if (!agrees(i, candidate)) {
        odd.push_back(i);
      }
    }
    if (odd.size() > allowed_odd(n) || odd.size() >= n) {
      note_misfit(shift, odd, n, "do not overlap in time", fewest_misfits);
      return;
    }
    candidate.pairs = n - odd.size();
    candidate.odd = std::move(odd);
    fitting_.push_back(std::move(candidate));
  }

  /// Pairs of a shift that may disagree: one in 20; a single one of few only where the shift uses all there is.
  std::size_t allowed_odd(std::size_t pairs) const {
    const bool is_few = pairs < 4 && pairs < std::min(a_.size(), b_.size());
    return is_few ? 0 : std::max<std::size_t>(1, pairs / 20);
  }

  const OrderedOp& in_a(std::size_t i, std::ptrdiff_t shift) const {
    return a_[static_cast<std::size_t>(static_cast<std::ptrdiff_t>(i) + shift)];
  }

  bool agrees(std::size_t i, const OrderAlignment& candidate) const {
    const OrderedOp& b = b_[i];
    const OrderedOp& a = in_a(i, candidate.shift);
    // A send may end long before its receive, so the ends of such pairs are a poor clock.
    const std::int64_t offset =
        timing_ == PairTiming::SendFirst && prior_ ? prior_->offset_ns : candidate.offset_ns;
    if (!agree_in_time(a, b, offset, timing_)) return false;
    if (timing_ != PairTiming::Collective || !is_barrier_like(b.signature.kind)) return true;
    // The ends of a missing collective's neighbours agree far better one position away.
    const std::int64_t off = std::abs(b.end_ns - a.end_ns - candidate.offset_ns);
    if (off < kNeighbourFloorNs) return true;
    for (const std::ptrdiff_t step : {-1, 1}) {
      const std::ptrdiff_t j = static_cast<std::ptrdiff_t>(i) + candidate.shift + step;
      if (j < 0 || j >= static_cast<std::ptrdiff_t>(a_.size())) continue;
      const OrderedOp& neighbour = a_[static_cast<std::size_t>(j)];
      const std::int64_t there = std::abs(b.end_ns - neighbour.end_ns - candidate.offset_ns);
      if (there * kNeighbourRatio < off && can_match(neighbour.signature, b.signature)) return false;
    }
    return true;
  }

  void note_misfit(std::ptrdiff_t shift, const std::vector<std::size_t>& odd, std::size_t n,
                   const char* reason, std::size_t& fewest) {
    // Shifts that leave little in common say little.
    if (n * 2 < std::min(a_.size(), b_.size()) || odd.empty() || odd.size() >= fewest) return;
    fewest = odd.size();
    misfit_.in_b = odd.back();
    misfit_.in_a = static_cast<std::size_t>(static_cast<std::ptrdiff_t>(odd.back()) + shift);
    misfit_.reason = reason;
  }

  /// The candidate whose ends agree clearly best; among equals the one that needs clearly the smallest change of a known
  /// clock offset; among equals again (equal ops in equal intervals) the one that leaves no op without a partner.
  OrderResult pick(std::vector<OrderAlignment>& candidates, std::optional<std::int64_t> offset_ns) const {
    std::size_t most = 0;
    for (const OrderAlignment& c : candidates) most = std::max(most, c.pairs);
    keep_best(candidates, [&](const OrderAlignment& c) {
      if (c.pairs <= 1) return static_cast<double>(INFINITY);  // one pair has no spread
      // Of many shifts that leave most ops alone, some agree by chance; a true one agrees with the clocks too.
      const bool is_checked = offset_ns && prior_->is_measured && 2 * c.pairs < most;
      const auto off = is_checked ? static_cast<double>(std::abs(c.offset_ns - *offset_ns)) : 0;
      return std::max(c.spread_ns, off);
    });
    if (candidates.size() > 1 && offset_ns) {
      keep_best(candidates, [&](const OrderAlignment& c) {
        return std::abs(static_cast<double>(c.offset_ns - *offset_ns));
      });
    }
    if (candidates.size() > 1 && a_.size() == b_.size()) {
      const auto whole = std::ranges::find(candidates, 0, &OrderAlignment::shift);
      if (whole != candidates.end()) candidates = {*whole};
    }
    OrderResult result;
    if (candidates.size() == 1) {
      result.alignment = std::move(candidates.front());
    } else {
      result.failure.ambiguous = true;
      result.failure.in_a = a_.size() - 1;
      result.failure.in_b = b_.size() - 1;
      result.failure.reason = "match equally well at " + std::to_string(candidates.size()) + " shifts";
    }
    return result;
  }

  /// Drops the candidates that are clearly worse than the best. Below a microsecond all are equal.
  template <class Cost>
  static void keep_best(std::vector<OrderAlignment>& candidates, const Cost& cost) {
    double best = INFINITY;
    for (const OrderAlignment& c : candidates) best = std::min(best, std::max(cost(c), 1000.0));
    std::erase_if(candidates, [&](const OrderAlignment& c) { return cost(c) > kClearlyBetter * best; });
  }

  std::span<const OrderedOp> a_;
  std::span<const OrderedOp> b_;
  const std::optional<ClockPrior>& prior_;
  PairTiming timing_;
  std::vector<OrderAlignment> fitting_;
  OrderFailure misfit_;
  std::vector<std::int64_t> differences_;
  std::size_t comparisons_ = 0;
  bool out_of_budget_ = false;
};

}  // namespace

bool can_match(const OpSignature& a, const OpSignature& b) {
  if (a.number && b.number && a.number != b.number) return false;
  const bool kinds_differ =
      a.kind != b.kind && a.kind != CollectiveKind::Unknown && b.kind != CollectiveKind::Unknown;
  if (!a.recorded || !b.recorded) {
    // Kernels say less than records: all-to-all runs as send/recv.
    return a.kernel == b.kernel &&
           (!kinds_differ || a.kind == CollectiveKind::SendRecv || b.kind == CollectiveKind::SendRecv);
  }
  if (kinds_differ || (a.dtype != b.dtype && a.dtype != 0 && b.dtype != 0)) return false;
  if (!a.equal_sizes || !b.equal_sizes) return true;
  const auto same = [](std::int64_t x, std::int64_t y) { return x == y || x < 0 || y < 0; };
  return same(a.in_elements, b.in_elements) && same(a.out_elements, b.out_elements);
}

bool agree_in_time(const OrderedOp& a, const OrderedOp& b, std::int64_t offset_ns, PairTiming timing) {
  const std::int64_t b_start = b.start_ns - offset_ns;
  const std::int64_t b_end = b.end_ns - offset_ns;
  if (timing == PairTiming::SendFirst) return b_end + kSlackNs >= a.start_ns;
  const std::int64_t slack =
      is_barrier_like(a.signature.kind) && is_barrier_like(b.signature.kind) ? kSlackNs : kLooseSlackNs;
  return std::max(a.start_ns, b_start) <= std::min(a.end_ns, b_end) + slack;
}

OrderResult align_order(std::span<const OrderedOp> a, std::span<const OrderedOp> b,
                        const std::optional<ClockPrior>& prior, PairTiming timing) {
  return Search(a, b, prior, timing).run();
}

}  // namespace prism
