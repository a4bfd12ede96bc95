// SPDX-License-Identifier: Apache-2.0
// Simulation: many samples of a step, all replicas, in blocks of 32 lanes spread over threads.
//
// A sample's value depends on (seed, sample number) alone, so results are equal, bit for bit, for any thread
// count, block order, number of samples asked for at a time, or instruction set.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "prism/engine/draws.hpp"
#include "prism/engine/sweep_program.hpp"
#include "prism/run/control.hpp"

namespace prism {

class Simulation {
 public:
  /// Compiles the graph and binds the draws. Keeps a reference to `model`. Throws what Draws throws.
  Simulation(const StepModel& model, Sampling sampling, StepEffects effects);
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  /// Step times in nanoseconds (the model's lead taken off) of samples first .. first + count - 1 (for `recorded`: of those profiled
  /// steps).
  [[nodiscard]] std::vector<double> step_times_ns(std::uint32_t seed, std::uint32_t first,
                                                  std::uint32_t count, const RunControl& control) const;

  /// The same with a given kernel level, for tests and benchmarks. Throws std::invalid_argument if the level
  /// is missing.
  [[nodiscard]] std::vector<double> step_times_ns(std::uint32_t seed, std::uint32_t first,
                                                  std::uint32_t count, const RunControl& control,
                                                  SimdLevel level) const;

  /// Nodes evaluated per sample: template nodes with a duration times replicas.
  [[nodiscard]] std::uint64_t nodes_per_sample() const;
  [[nodiscard]] const SweepProgram& program() const { return program_; }

 private:
  struct Workspace;
  void set_base(const Node& node, Instruction& in);
  void run_block(std::uint32_t seed, std::uint32_t block, SweepFunction kernel, Workspace& work) const;

  const StepModel& model_;
  StepEffects effects_;
  Draws draws_;
  SweepProgram program_;
  std::vector<double> bases_;               // of composed durations: rows by replica, then one for each node
  std::vector<Draws::OwnUse> segment_use_;  // what differs between replicas
};

}  // namespace prism
