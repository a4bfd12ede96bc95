// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/align_order.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace prism {

namespace {

constexpr double kMinSlackNs = 2'000;  // clock error where all ends agree
constexpr double kMaxSlackNs = 50'000;
constexpr std::int64_t kLooseSlackNs = 1'000'000;   // between members that need not overlap
constexpr std::int64_t kSampleNoiseNs = 5'000'000;  // a sampled pair may be odd
constexpr std::int64_t kNeighbourFloorNs =
    10'000;  // ends closer than this are not compared with the neighbours'
constexpr std::int64_t kNeighbourRatio = 4;
constexpr double kSlackSpreads = 2;
// Ends of matched collectives scatter by up to 100 us, and of long ones by up to a quarter of their duration (8 ranks of
// one machine: median 20 us, largest 188 us of 0.5 ms).
constexpr std::int64_t kEndNoiseNs = 100'000;
constexpr std::int64_t kEndNoiseShare = 4;
// What it takes to believe that a known clock is off by so much: no matter what, agreeing ends, and agreeing ends of
// more and more pairs.
constexpr std::int64_t kSynchronisedNs = 100'000;
constexpr std::int64_t kSmallSkewNs = 1'000'000;
constexpr double kAgreeingSpreadNs = 50'000;
constexpr std::size_t kPairsForSkew = 8;
constexpr std::size_t kPairsForAnySkew = 16;
constexpr double kClearlyBetter = 2;
constexpr std::size_t kMaxComparisons = std::size_t{1} << 26;

class Search {
 public:
  Search(std::span<const OrderedOp> a, std::span<const OrderedOp> b, const std::optional<ClockPrior>& prior,
         PairTiming timing)
      : a_(a), b_(b), prior_(prior), timing_(timing) {}

  OrderResult run() {
    // Long sequences have many shifts, of which known clocks leave few.
    if (prior_ && timing_ == PairTiming::Collective) {
      collect(true);
      std::vector<OrderAlignment> near = believed();
      if (!near.empty()) return pick(near);
      fitting_.clear();
    }
    collect(false);
    std::vector<OrderAlignment> all = believed();
    if (!all.empty() && !out_of_budget_) return pick(all);
    OrderResult result;
    result.failure = misfit_;
    if (out_of_budget_) {
      result.failure.reason = "can be shifted in too many ways to compare";
    } else if (result.failure.reason.empty() && !fitting_.empty()) {
      result.failure.in_a = a_.size() - 1;
      result.failure.in_b = b_.size() - 1;
      result.failure.reason = "fit only if their clocks differ by more than so few ops can show";
    }
    return result;
  }

 private:
  std::vector<OrderAlignment> believed() const {
    const std::size_t most = most_pairs();
    std::vector<OrderAlignment> candidates;
    for (const OrderAlignment& candidate : fitting_) {
      if ((candidate.pairs + candidate.odd.size()) * 2 >= most && is_believable(candidate)) {
        candidates.push_back(candidate);
      }
    }
    return candidates;
  }

  bool is_believable(const OrderAlignment& candidate) const {
    if (timing_ == PairTiming::SendFirst) return true;
    const bool agrees = candidate.clock.spread_ns <= kAgreeingSpreadNs;
    if (!prior_) return agrees;
    const std::int64_t change = std::abs(candidate.clock.offset_ns - prior_->offset_ns);
    if (change <= kSynchronisedNs) return true;
    if (change <= kSmallSkewNs) return agrees;
    return agrees && candidate.pairs >= (change <= prior_->tolerance_ns ? kPairsForSkew : kPairsForAnySkew);
  }

  /// How many ops of one recording lie within the time of the other, by the clocks as they are known.
  std::size_t recorded_by_both() const {
    const auto count_within = [](std::span<const OrderedOp> ops, std::span<const OrderedOp> window,
                                 std::int64_t offset) {
      const std::int64_t begin = window.front().start_ns + offset;
      const std::int64_t end = window.back().end_ns + offset;
      return std::ranges::count_if(
          ops, [&](const OrderedOp& op) { return op.end_ns >= begin && op.end_ns <= end; });
    };
    return static_cast<std::size_t>(
        std::min(count_within(b_, a_, prior_->offset_ns), count_within(a_, b_, -prior_->offset_ns)));
  }

  /// How many pairs the right shift should have about: what both recorded by known clocks; else no fewer than any shift.
  std::size_t most_pairs() const {
    if (prior_ && timing_ == PairTiming::Collective) return recorded_by_both();
    std::size_t most = std::min(a_.size(), b_.size());
    for (const OrderAlignment& candidate : fitting_) most = std::max(most, candidate.pairs);
    return most;
  }

  /// Whether the clocks that a shift asks for can be near the known ones, by a sample of its pairs.
  bool may_be_near(std::ptrdiff_t shift) const {
    const auto [first, end] = common_range(shift);
    std::array<std::int64_t, 3> change{};
    for (std::size_t k = 0; k < change.size(); ++k) {
      const std::size_t i = first + (end - first) * (k + 1) / (change.size() + 1);
      change[k] = std::abs(b_[i].end_ns - in_a(i, shift).end_ns - prior_->offset_ns);
    }
    std::ranges::sort(change);
    return change[1] <= prior_->tolerance_ns + kSampleNoiseNs;
  }

  /// Positions in b that have a partner in a.
  std::pair<std::size_t, std::size_t> common_range(std::ptrdiff_t shift) const {
    return {static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, -shift)),
            static_cast<std::size_t>(std::min<std::ptrdiff_t>(
                static_cast<std::ptrdiff_t>(b_.size()), static_cast<std::ptrdiff_t>(a_.size()) - shift))};
  }

  void collect(bool only_near) {
    const auto na = static_cast<std::ptrdiff_t>(a_.size());
    const auto nb = static_cast<std::ptrdiff_t>(b_.size());
    std::size_t fewest_misfits = SIZE_MAX;
    // From the right-aligned guess outwards, so that its misfit is the one reported among equals.
    const std::ptrdiff_t guess = na - nb;
    for (std::ptrdiff_t distance = 0; distance < na + nb && !out_of_budget_; ++distance) {
      for (const std::ptrdiff_t shift : {guess + distance, guess - distance}) {
        if (shift <= -nb || shift >= na || (distance == 0 && shift != guess)) continue;
        if (!only_near || may_be_near(shift)) consider(shift, fewest_misfits);
        if (distance == 0) break;
      }
    }
  }

  /// Checks one shift: signatures, then times.
  void consider(std::ptrdiff_t shift, std::size_t& fewest_misfits) {
    const auto [first, end] = common_range(shift);
    const std::size_t n = end - first;
    OrderAlignment candidate;
    candidate.shift = shift;
    samples_.clear();
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
        samples_.push_back({b.end_ns, b.end_ns - a.end_ns});
      }
    }
    out_of_budget_ = comparisons_ > kMaxComparisons;
    if (candidate.odd.size() > allowed_odd(n) || samples_.empty()) {
      note_misfit(shift, candidate.odd, n, "differ in kind, type or size", fewest_misfits);
      return;
    }
    candidate.clock = fit_clock(samples_);
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
    const OrderedOp& a = in_a(i, candidate.shift);
    if (timing_ == PairTiming::SendFirst) {
      // A send may end long before its receive, so the ends of such pairs are a poor clock.
      ClockFit clock = candidate.clock;
      if (prior_) clock = {prior_->offset_ns, 0, 0, static_cast<double>(prior_->uncertainty_ns)};
      return agree_in_time(a, on_reference_clock(b_[i], clock), clock.spread_ns, timing_);
    }
    const OrderedOp b = on_reference_clock(b_[i], candidate.clock);
    if (!agree_in_time(a, b, candidate.clock.spread_ns, timing_)) return false;
    if (!is_barrier_like(b.signature.kind)) return true;
    // The ends of a missing collective's neighbours agree far better one position away.
    const std::int64_t off = std::abs(b.end_ns - a.end_ns);
    if (off < kNeighbourFloorNs) return true;
    for (const std::ptrdiff_t step : {-1, 1}) {
      const std::ptrdiff_t j = static_cast<std::ptrdiff_t>(i) + candidate.shift + step;
      if (j < 0 || j >= static_cast<std::ptrdiff_t>(a_.size())) continue;
      const OrderedOp& neighbour = a_[static_cast<std::size_t>(j)];
      const std::int64_t there = std::abs(b.end_ns - neighbour.end_ns);
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
  OrderResult pick(std::vector<OrderAlignment>& candidates) const {
    keep_best(candidates, [](const OrderAlignment& c) {
      return c.pairs > 1 ? c.clock.spread_ns : INFINITY;  // one pair has no spread
    });
    if (candidates.size() > 1 && prior_) {
      keep_best(candidates, [&](const OrderAlignment& c) {
        return std::abs(static_cast<double>(c.clock.offset_ns - prior_->offset_ns));
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
  std::vector<ClockSample> samples_;
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

OrderedOp on_reference_clock(const OrderedOp& op, const ClockFit& clock) {
  OrderedOp moved = op;
  moved.start_ns -= clock.at(op.end_ns);
  moved.end_ns -= clock.at(op.end_ns);
  return moved;
}

bool agree_in_time(const OrderedOp& a, const OrderedOp& b, double spread_ns, PairTiming timing) {
  const auto slack =
      static_cast<std::int64_t>(std::min(kMaxSlackNs, kMinSlackNs + kSlackSpreads * spread_ns));
  if (timing == PairTiming::SendFirst) return b.end_ns + slack >= a.start_ns;
  const bool must_overlap = is_barrier_like(a.signature.kind) && is_barrier_like(b.signature.kind);
  const std::int64_t gap = std::max(a.start_ns, b.start_ns) - std::min(a.end_ns, b.end_ns);
  if (!must_overlap) return gap <= kLooseSlackNs;
  const std::int64_t shorter = std::min(a.end_ns - a.start_ns, b.end_ns - b.start_ns);
  return gap <= slack && std::abs(a.end_ns - b.end_ns) <= kEndNoiseNs + shorter / kEndNoiseShare;
}

OrderResult align_order(std::span<const OrderedOp> a, std::span<const OrderedOp> b,
                        const std::optional<ClockPrior>& prior, PairTiming timing) {
  return Search(a, b, prior, timing).run();
}

}  // namespace prism
