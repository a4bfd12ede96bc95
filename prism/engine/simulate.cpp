// SPDX-License-Identifier: Apache-2.0
#include "prism/engine/simulate.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <stdexcept>

#include "prism/run/parallel.hpp"
#include "prism/stats/normal_table.hpp"
#include "prism/stats/random.hpp"

namespace prism {

namespace {

constexpr std::size_t kCacheLine = 64;

/// Allocator for vectors of lanes, so that a block of lanes starts a cache line.
template <class T>
struct LaneAllocator {
  using value_type = T;
  T* allocate(std::size_t n) {
    return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t(kCacheLine)));
  }
  void deallocate(T* pointer, std::size_t) noexcept {
    ::operator delete(pointer, std::align_val_t(kCacheLine));
  }
  friend bool operator==(const LaneAllocator&, const LaneAllocator&) { return true; }
};

template <class T>
using Lanes = std::vector<T, LaneAllocator<T>>;

constexpr std::size_t kMostKept = std::size_t{1} << 25;  // numbers: 256 MiB for each worker

}  // namespace

/// One worker's memory: allocated once, reused for all its blocks.
struct Simulation::Workspace {
  Lanes<double> scratch;
  Lanes<double> carried;
  Lanes<double> met;
  Lanes<double> step_end = Lanes<double>(kLanes);
  Draws::Block drawn;
  Lanes<double> kept;  ///< factor rows of all replicas, where they are read in more than one segment

  Workspace(const SweepProgram& program, const Draws& draws, std::uint32_t replicas)
      : scratch(std::size_t{program.scratch_slots} * kLanes),
        carried(std::size_t{program.carried_slots} * replicas * kLanes),
        met(program.meeting_blocks * kLanes) {
    drawn.rows.resize(draws.row_count() * kLanes);
    drawn.factors.resize(draws.factor_count() * kLanes);
    const std::size_t all = draws.factor_count() * replicas * kLanes;
    if (program.segments() > 1 && draws.only_composed() && all <= kMostKept) kept.resize(all);
  }
};

Simulation::Simulation(const StepModel& model, Sampling sampling, StepEffects effects)
    : model_(model),
      effects_(std::move(effects)),
      draws_(model, sampling, effects_),
      program_(compile_sweep(model.graph, model.replicas)),
      bases_(model.replica_bases_ns) {
  for (std::size_t i = 0; i < program_.instructions.size(); ++i) {
    Instruction& in = program_.instructions[i];
    const NodeId node = program_.node_of[i];
    const NodeDraw& draw = draws_.of(node);
    in.draw_id = model.nodes[node].draw_id;
    in.draw = draw.draw;
    in.pool = draw.pool;
    in.pool_stride = draw.pool_stride;
    in.pool_size = draw.pool_size;
    in.row = draw.row;
    in.factor = draw.factor;
    in.share_size = draw.share.size;
    in.share_stride = draw.share.stride;
    in.sigma = draw.sigma;
    in.replica_offset = model.nodes[node].replica_offset;
    if (is_composed(draw.draw)) set_base(model.nodes[node], in);
  }
  for (std::size_t segment = 0; segment < program_.segments(); ++segment) {
    std::vector<NodeId> drawing;
    for (std::size_t i = program_.segment_begin[segment]; i < program_.segment_begin[segment + 1]; ++i) {
      if (program_.instructions[i].action != Action::Arrive) drawing.push_back(program_.node_of[i]);
    }
    segment_use_.push_back(draws_.own_use(drawing));
  }
}

void Simulation::set_base(const Node& node, Instruction& in) {
  in.base_stride = node.base_row < 0 ? 0 : 1;
  if (node.base_row >= 0) {
    in.base = static_cast<std::uint32_t>(node.base_row) * model_.replicas;
    return;
  }
  in.base = static_cast<std::uint32_t>(bases_.size());
  bases_.push_back(node.base_ns);
}

std::uint64_t Simulation::nodes_per_sample() const {
  std::uint64_t drawn = 0;
  for (std::size_t i = 0; i < model_.nodes.size(); ++i)
    drawn += model_.nodes[NodeId(i)].kind != NodeKind::Join;
  return drawn * model_.replicas;
}

void Simulation::run_block(std::uint32_t seed, std::uint32_t block, SweepFunction kernel,
                           Workspace& work) const {
  constexpr double kBeforeAll = -std::numeric_limits<double>::infinity();
  std::ranges::fill(work.met, kBeforeAll);
  std::ranges::fill(work.step_end, kBeforeAll);
  draws_.fill_common(seed, block, work.drawn);
  SweepArgs args{.inputs = program_.inputs.data(),
                 .meetings = program_.meetings.data(),
                 .pools = model_.pools.values_ns.data(),
                 .bases = bases_.data(),
                 .normal = normal_table().c.front().data(),
                 .rows = work.drawn.rows.data(),
                 .factors = work.drawn.factors.data(),
                 .scratch = work.scratch.data(),
                 .met = work.met.data(),
                 .step_end = work.step_end.data(),
                 .block = block,
                 .seed = seed,
                 .purpose = static_cast<std::uint32_t>(Purpose::Duration)};
  const std::uint32_t pool_replicas = model_.pool_replicas();
  const std::size_t row_numbers = draws_.factor_count() * kLanes;
  for (std::uint32_t replica = 0; replica < model_.replicas && !work.kept.empty(); ++replica) {
    draws_.fill_replica(seed, block, replica, work.drawn.composed, work.kept.data() + replica * row_numbers);
  }
  for (std::size_t segment = 0; segment < program_.segments(); ++segment) {
    args.begin = program_.instructions.data() + program_.segment_begin[segment];
    args.end = program_.instructions.data() + program_.segment_begin[segment + 1];
    for (std::uint32_t replica = 0; replica < model_.replicas; ++replica) {
      const Draws::OwnUse& use = segment_use_[segment];
      if (!work.kept.empty()) {
        args.factors = work.kept.data() + replica * row_numbers;
      } else if (!use.empty()) {
        draws_.fill_own(seed, block, replica, use, work.drawn);
      }
      args.replica = replica;
      args.pool_replica = replica % pool_replicas;
      args.carried = work.carried.data() + std::size_t{replica} * program_.carried_slots * kLanes;
      kernel(args);
    }
  }
}

std::vector<double> Simulation::step_times_ns(std::uint32_t seed, std::uint32_t first, std::uint32_t count,
                                              const RunControl& control) const {
  return step_times_ns(seed, first, count, control, best_simd_level());
}

std::vector<double> Simulation::step_times_ns(std::uint32_t seed, std::uint32_t first, std::uint32_t count,
                                              const RunControl& control, SimdLevel level) const {
  const SweepFunction kernel = sweep_kernel(level);
  if (kernel == nullptr) throw std::invalid_argument("this processor cannot run the kernel level asked for");
  std::vector<double> times(count);
  if (count == 0) return times;
  const std::uint32_t first_block = first / kLanes;
  const std::uint32_t blocks = (first + count - 1) / kLanes - first_block + 1;
  std::vector<std::unique_ptr<Workspace>> workspaces(control.workers(blocks));
  parallel_for(blocks, control, [&](std::size_t item, std::size_t worker) {
    auto& work = workspaces[worker];
    if (!work) work = std::make_unique<Workspace>(program_, draws_, model_.replicas);
    const std::uint32_t block = first_block + static_cast<std::uint32_t>(item);
    run_block(seed, block, kernel, *work);
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      const std::uint32_t sample = block * kLanes + lane;
      if (sample >= first && sample - first < count)
        times[sample - first] = work->step_end[lane] - model_.lead_ns;
    }
  });
  return times;
}

}  // namespace prism
