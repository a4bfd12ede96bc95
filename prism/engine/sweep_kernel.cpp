// SPDX-License-Identifier: Apache-2.0
// The only file that knows about vectors. Highway includes it once per instruction set; what follows HWY_ONCE
// is compiled once.
//
// A block's 32 lanes are kVectors registers of doubles. Philox runs with one counter per 64-bit lane, since a
// 32 x 32 -> 64 bit multiplication takes the low halves of such lanes and gives whole ones: 8 counters make
// the block's 32 words, and word w of counter i is lane 8*w + i, so words never have to be moved (layout:
// prism/stats/random.hpp). The running maximum stays in registers from the first predecessor to the store.
#include "prism/engine/sweep_kernel.hpp"

#include <cstddef>

#include "prism/stats/normal_table.hpp"

// Targets that add nothing here, or whose vectors have no size at compile time.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "prism/engine/sweep_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace prism {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::uint32_t kCounters = 8;                                   // Philox counters of a block
constexpr std::uint32_t kWidth = HWY_MIN(kCounters, HWY_LANES(double));  // lanes of a register
constexpr std::uint32_t kVectors = kLanes / kWidth;                      // registers of a block
constexpr std::uint32_t kCounterVectors = kCounters / kWidth;  // registers of one word of all counters
constexpr std::uint32_t kRounds = 10;

using Real = hn::CappedTag<double, kCounters>;
using Wide = hn::Rebind<std::uint64_t, Real>;
using Index = hn::Rebind<std::int64_t, Real>;
using Row = hn::Rebind<std::int32_t, Real>;
using Reals = hn::Vec<Real>;
using Words = hn::Vec<Wide>;

/// 64-bit product of the low halves of each lane.
HWY_INLINE Words multiply_low(Words a, Words b) {
#if HWY_TARGET == HWY_SCALAR  // one lane has no even and odd halves
  return hn::Set(Wide(), (hn::GetLane(a) & 0xFFFFFFFFU) * (hn::GetLane(b) & 0xFFFFFFFFU));
#else
  const hn::Repartition<std::uint32_t, Wide> halves;
  return hn::MulEven(hn::BitCast(halves, a), hn::BitCast(halves, b));
#endif
}
HWY_INLINE Words high_half(Words a) {
  return hn::ShiftRight<32>(a);
}
HWY_INLINE Words broadcast(std::uint64_t value) {
  return hn::Set(Wide(), value);
}

HWY_INLINE Reals gather(const double* HWY_RESTRICT pool, Words index) {
  return hn::GatherIndex(Real(), pool, hn::BitCast(Index(), index));
}
HWY_INLINE hn::Vec<Index> row_index(const std::int32_t* HWY_RESTRICT row) {
  return hn::PromoteTo(Index(), hn::LoadU(Row(), row));
}

/// Arithmetic for portable_math.inc.
struct Lanes {
  using V = Reals;
  using B = Words;
  static HWY_INLINE V set(double x) { return hn::Set(Real(), x); }
  static HWY_INLINE V add(V a, V b) { return hn::Add(a, b); }
  static HWY_INLINE V sub(V a, V b) { return hn::Sub(a, b); }
  static HWY_INLINE V mul(V a, V b) { return hn::Mul(a, b); }
  static HWY_INLINE V div(V a, V b) { return hn::Div(a, b); }
  static HWY_INLINE V sqrt(V a) { return hn::Sqrt(a); }
  static HWY_INLINE V min(V a, V b) { return hn::Min(a, b); }
  static HWY_INLINE V less(V a, V b, V x, V y) { return hn::IfThenElse(hn::Lt(a, b), x, y); }
  static HWY_INLINE B bits(V a) { return hn::BitCast(Wide(), a); }
  static HWY_INLINE V real(B a) { return hn::BitCast(Real(), a); }
  static HWY_INLINE B set_bits(std::uint64_t a) { return broadcast(a); }
  static HWY_INLINE B add_bits(B a, B b) { return hn::Add(a, b); }
  static HWY_INLINE B and_bits(B a, B b) { return hn::And(a, b); }
  static HWY_INLINE B or_bits(B a, B b) { return hn::Or(a, b); }
  static HWY_INLINE B shift_left52(B a) { return hn::ShiftLeft<52>(a); }
  static HWY_INLINE B shift_right52(B a) { return hn::ShiftRight<52>(a); }
};

#include "prism/stats/portable_math.inc"

/// normal_from_word of the low halves (the high halves are rubbish).
HWY_INLINE Reals normal_from_words(const double* HWY_RESTRICT table, Words words) {
  constexpr std::uint64_t kLow = 0xFFFFFFFFU;
  constexpr std::uint64_t kRest = (std::uint64_t{1} << 49) - 1;
  constexpr std::uint64_t kOne = 0x3FF0000000000000U;
  const Words low = hn::And(words, broadcast(kLow));
  const Words upper = hn::ShiftRight<31>(low);  // 1 in the upper half
  const Words flipped = hn::Xor(low, hn::And(hn::Sub(hn::Zero(Wide()), upper), broadcast(kLow)));
  const Words odd = hn::Or(hn::ShiftLeft<1>(flipped), broadcast(1));
  const Words bits =
      hn::BitCast(Wide(), hn::Sub(hn::BitCast(Real(), hn::Or(odd, broadcast(0x4330000000000000U))),
                                  hn::Set(Real(), 4503599627370496.0)));
  const Words segment = hn::Sub(hn::ShiftRight<49>(bits), broadcast(kOne >> 49));
  const Reals m = hn::Sub(hn::BitCast(Real(), hn::Or(hn::And(bits, broadcast(kRest)), broadcast(kOne))),
                          hn::Set(Real(), 1.0));
  constexpr std::size_t kSegments = NormalTable::kSegments;
  Reals z = gather(table + 3 * kSegments, segment);
  z = hn::Add(hn::Mul(z, m), gather(table + 2 * kSegments, segment));
  z = hn::Add(hn::Mul(z, m), gather(table + kSegments, segment));
  z = hn::Add(hn::Mul(z, m), gather(table, segment));
  return hn::BitCast(Real(), hn::Xor(hn::BitCast(Wide(), z), hn::ShiftLeft<63>(upper)));
}

HWY_INLINE double* slot(const SweepArgs& args, std::uint32_t number) {
  double* base = (number & kCarried) != 0 ? args.carried : args.scratch;
  return base + static_cast<std::uint64_t>(number & ~kCarried) * kLanes;
}

/// Which of the groups of `size` replicas, `stride` apart, the swept replica belongs to.
HWY_INLINE std::uint32_t group_of(const SweepArgs& args, std::uint32_t size, std::uint32_t stride) {
  if (size * stride == 1) return args.replica;
  return args.replica / (size * stride) * stride + args.replica % stride;
}

HWY_INLINE double* meeting_block(const SweepArgs& args, std::uint32_t number) {
  const Meeting& meeting = args.meetings[number];
  return args.met +
         static_cast<std::uint64_t>(meeting.first + group_of(args, meeting.size, meeting.stride)) * kLanes;
}

/// A block of lanes in registers.
struct Block {
  Reals v[kVectors];

  HWY_INLINE void load(const double* HWY_RESTRICT from) {
    for (std::uint32_t i = 0; i < kVectors; ++i) v[i] = hn::Load(Real(), from + i * kWidth);
  }
  HWY_INLINE void zero() {
    for (std::uint32_t i = 0; i < kVectors; ++i) v[i] = hn::Zero(Real());
  }
  HWY_INLINE void raise(const double* HWY_RESTRICT from) {
    for (std::uint32_t i = 0; i < kVectors; ++i) v[i] = hn::Max(v[i], hn::Load(Real(), from + i * kWidth));
  }
  HWY_INLINE void store(double* HWY_RESTRICT to) const {
    for (std::uint32_t i = 0; i < kVectors; ++i) hn::Store(v[i], Real(), to + i * kWidth);
  }
  /// to = max(to, this).
  HWY_INLINE void store_raised(double* HWY_RESTRICT to) const {
    for (std::uint32_t i = 0; i < kVectors; ++i) {
      hn::Store(hn::Max(v[i], hn::Load(Real(), to + i * kWidth)), Real(), to + i * kWidth);
    }
  }
};

/// Round keys and counters of a block, the same for all nodes.
struct Philox {
  Words key0[kRounds];
  Words key1[kRounds];
  Words counter[kCounterVectors];

  HWY_INLINE Philox(std::uint32_t seed, std::uint32_t purpose, std::uint32_t block) {
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      key0[round] = broadcast(seed);
      key1[round] = broadcast(purpose);
      seed += 0x9E3779B9U;
      purpose += 0xBB67AE85U;
    }
    for (std::uint32_t h = 0; h < kCounterVectors; ++h) {
      counter[h] = hn::Iota(Wide(), static_cast<std::uint64_t>(kCounters) * block + h * kWidth);
    }
  }

  /// Four words in the low halves of c (the high halves hold rubbish that no later step reads).
  HWY_INLINE void run(Words* HWY_RESTRICT c) const {
    const Words multiplier0 = broadcast(0xD2511F53U);
    const Words multiplier1 = broadcast(0xCD9E8D57U);
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      const Words product0 = multiply_low(c[0], multiplier0);
      const Words product1 = multiply_low(c[2], multiplier1);
      c[0] = hn::Xor(hn::Xor(high_half(product1), c[1]), key0[round]);
      c[2] = hn::Xor(hn::Xor(high_half(product0), c[3]), key1[round]);
      c[1] = product1;
      c[3] = product0;
    }
  }
};

/// Adds a random value of the pool; with `kInStep` of the row's step, with `kScaled` times the factor row.
template <bool kInStep, bool kScaled>
HWY_INLINE void add_random(const SweepArgs& args, const Instruction& in, const Philox& philox,
                           const double* HWY_RESTRICT pool, const std::int32_t* HWY_RESTRICT row,
                           const double* HWY_RESTRICT factor, Block& time) {
  const std::uint32_t replica = group_of(args, in.share_size, in.share_stride) + in.replica_offset;
  const Words size = broadcast(in.pool_size);
  for (std::uint32_t h = 0; h < kCounterVectors; ++h) {
    Words c[4] = {broadcast(in.draw_id & 0xFFFFFFFFU), broadcast(in.draw_id >> 32), broadcast(replica),
                  philox.counter[h]};
    philox.run(c);
    for (std::uint32_t word = 0; word < 4; ++word) {
      Words index = high_half(multiply_low(c[word], size));
      if constexpr (kInStep) {
        const auto base = row_index(row + word * kCounters + h * kWidth);
        index = hn::Add(index, hn::BitCast(Wide(), base));
      }
      Reals& lane_times = time.v[word * kCounterVectors + h];
      Reals value = gather(pool, index);
      if constexpr (kScaled) {
        value = hn::Mul(value, hn::LoadU(Real(), factor + word * kCounters + h * kWidth));
      }
      lane_times = hn::Add(lane_times, value);
    }
  }
}

/// Adds a composed duration; `kNarrow`: sigma is so small that exponents stay near zero.
template <Draw kDraw, bool kNarrow = false>
HWY_INLINE void add_composed(const SweepArgs& args, const Instruction& in, const Philox& philox,
                             const double* HWY_RESTRICT factor, Block& time) {
  const Reals base =
      hn::Set(Real(), args.bases[in.base + static_cast<std::uint64_t>(args.replica) * in.base_stride]);
  if constexpr (kDraw == Draw::Base) {
    for (std::uint32_t i = 0; i < kVectors; ++i) {
      time.v[i] = hn::Add(time.v[i], hn::Mul(base, hn::LoadU(Real(), factor + i * kWidth)));
    }
    return;
  }
  const std::uint32_t replica = group_of(args, in.share_size, in.share_stride) + in.replica_offset;
  const double* HWY_RESTRICT pool = args.pools + in.pool;
  const Words size = broadcast(in.pool_size);
  const Reals sigma = hn::Set(Real(), in.sigma);
  const Reals half_square = hn::Set(Real(), in.sigma * in.sigma * 0.5);
  for (std::uint32_t h = 0; h < kCounterVectors; ++h) {
    Words c[4] = {broadcast(in.draw_id & 0xFFFFFFFFU), broadcast(in.draw_id >> 32), broadcast(replica),
                  philox.counter[h]};
    philox.run(c);
    for (std::uint32_t word = 0; word < 4; ++word) {
      Reals own;
      if constexpr (kDraw == Draw::BasePool) {
        own = gather(pool, high_half(multiply_low(c[word], size)));
      } else {
        const Reals z = normal_from_words(args.normal, c[word]);
        const Reals exponent = hn::Sub(hn::Mul(sigma, z), half_square);
        own = kNarrow ? portable_exp_near_zero<Lanes>(exponent) : portable_exp<Lanes>(exponent);
      }
      const Reals scaled = hn::Mul(base, hn::LoadU(Real(), factor + word * kCounters + h * kWidth));
      Reals& lane_times = time.v[word * kCounterVectors + h];
      lane_times = hn::Add(lane_times, hn::Mul(own, scaled));
    }
  }
}

HWY_INLINE void add_drawn(const SweepArgs& args, const Instruction& in, const Philox& philox, Block& time) {
  const double* HWY_RESTRICT pool =
      args.pools + in.pool + static_cast<std::uint64_t>(args.pool_replica) * in.pool_stride;
  const std::int32_t* HWY_RESTRICT row = args.rows + static_cast<std::uint64_t>(in.row) * kLanes;
  const double* HWY_RESTRICT factor = args.factors + static_cast<std::uint64_t>(in.factor) * kLanes;
  switch (in.draw) {
    case Draw::None:
      return;
    case Draw::Table:
      for (std::uint32_t i = 0; i < kVectors; ++i) {
        time.v[i] = hn::Add(time.v[i], hn::GatherIndex(Real(), pool, row_index(row + i * kWidth)));
      }
      return;
    case Draw::TableScaled:
      for (std::uint32_t i = 0; i < kVectors; ++i) {
        const Reals value = hn::GatherIndex(Real(), pool, row_index(row + i * kWidth));
        time.v[i] = hn::Add(time.v[i], hn::Mul(value, hn::LoadU(Real(), factor + i * kWidth)));
      }
      return;
    case Draw::Random:
      add_random<false, false>(args, in, philox, pool, row, factor, time);
      return;
    case Draw::RandomScaled:
      add_random<false, true>(args, in, philox, pool, row, factor, time);
      return;
    case Draw::RandomInStep:
      add_random<true, false>(args, in, philox, pool, row, factor, time);
      return;
    case Draw::RandomInStepScaled:
      add_random<true, true>(args, in, philox, pool, row, factor, time);
      return;
    case Draw::Base:
      add_composed<Draw::Base>(args, in, philox, factor, time);
      return;
    case Draw::BasePool:
      add_composed<Draw::BasePool>(args, in, philox, factor, time);
      return;
    case Draw::BaseLognormal:
      // |z| < 6.5 for 32-bit words; ln(2) / 2 is 0.3466.
      if (6.5 * in.sigma + 0.5 * in.sigma * in.sigma < 0.34) {
        add_composed<Draw::BaseLognormal, true>(args, in, philox, factor, time);
      } else {
        add_composed<Draw::BaseLognormal>(args, in, philox, factor, time);
      }
      return;
  }
}

void sweep(const SweepArgs& args) {
  const Philox philox(args.seed, args.purpose, args.block);
  Block time;
  for (const Instruction* at = args.begin; at != args.end; ++at) {
    const Instruction& in = *at;
    if (in.action == Action::Depart) {
      time.load(meeting_block(args, in.meeting));
    } else if (in.input_count == 0) {
      time.zero();
    } else {
      const std::uint32_t* HWY_RESTRICT inputs = args.inputs + in.first_input;
      time.load(slot(args, inputs[0]));
      for (std::uint32_t i = 1; i < in.input_count; ++i) time.raise(slot(args, inputs[i]));
    }
    if (in.action == Action::Arrive) {
      time.store_raised(meeting_block(args, in.meeting));
      continue;
    }
    add_drawn(args, in, philox, time);
    time.store(slot(args, in.out));
    if (in.ends_step) time.store_raised(args.step_end);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace prism
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace prism {

SweepFunction sweep_kernel(SimdLevel level) {
  [[maybe_unused]] const auto runs = [](std::int64_t target) {
    return (hwy::SupportedTargets() & target) != 0;
  };
  switch (level) {
    case SimdLevel::Avx512:
#if HWY_TARGETS & HWY_AVX3
      if (runs(HWY_AVX3)) return &N_AVX3::sweep;
#endif
      return nullptr;
    case SimdLevel::Avx2:
#if HWY_TARGETS & HWY_AVX2
      if (runs(HWY_AVX2)) return &N_AVX2::sweep;
#endif
      return nullptr;
    case SimdLevel::Sse4:
#if HWY_TARGETS & HWY_SSE4
      if (runs(HWY_SSE4)) return &N_SSE4::sweep;
#endif
      return nullptr;
    case SimdLevel::Portable:
      break;
  }
  return &HWY_STATIC_DISPATCH(sweep);
}

SimdLevel best_simd_level() {
  for (const SimdLevel level : {SimdLevel::Avx512, SimdLevel::Avx2, SimdLevel::Sse4}) {
    if (sweep_kernel(level) != nullptr) return level;
  }
  return SimdLevel::Portable;
}

const char* simd_level_name(SimdLevel level) {
  switch (level) {
    case SimdLevel::Avx512:
      return "AVX-512";
    case SimdLevel::Avx2:
      return "AVX2";
    case SimdLevel::Sse4:
      return "SSE4";
    case SimdLevel::Portable:
      break;
  }
  return "portable";
}

}  // namespace prism
#endif  // HWY_ONCE
