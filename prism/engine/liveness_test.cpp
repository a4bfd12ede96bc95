// SPDX-License-Identifier: Apache-2.0
// How much memory a compiled sweep needs: what is alive at once, whatever the number of nodes and samples.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <string>

#include <gtest/gtest.h>

#include "prism/engine/simulate.hpp"
#include "prism/engine/sweep_program.hpp"
#include "prism/trace/error.hpp"
#include "tests/text_graph.hpp"

namespace {

std::atomic<std::size_t> lane_bytes{0};  // of all aligned allocations: the sweep's lanes, nothing else

}  // namespace

// NOLINTBEGIN(misc-new-delete-overloads): only the aligned pair is counted.
void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto align = static_cast<std::size_t>(alignment);
  const std::size_t rounded = std::max<std::size_t>((size + align - 1) / align * align, align);
  lane_bytes += rounded;
  void* memory = std::aligned_alloc(align, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
// NOLINTEND(misc-new-delete-overloads)

namespace prism {
namespace {

SweepProgram compile(const Sketch& sketch) {
  return compile_sweep(sketch.model().graph, sketch.replicas);
}

/// "a0 -> a1 -> ... -> a999".
std::string long_chain(int ops) {
  std::string text = "a0=1";
  for (int i = 1; i < ops; ++i) text += " -> a" + std::to_string(i) + "=1";
  return text;
}

TEST(Liveness, LongChainNeedsOneSlotOrTwo) {
  const SweepProgram program = compile(sketch(long_chain(1000)));
  EXPECT_EQ(program.segments(), 1U);
  EXPECT_GE(program.scratch_slots, 1U);
  EXPECT_LE(program.scratch_slots, 2U);
  EXPECT_EQ(program.carried_slots, 0U);
}

//        .-> w0 --.
//   from --> ...  --> to
//        '-> w99 -'
TEST(Liveness, FanOutAndInNeedsASlotPerBranch) {
  std::string text = "from=1 -> w0=1 -> to=1";
  for (int i = 1; i < 100; ++i) text += "; from -> w" + std::to_string(i) + "=1 -> to";
  const SweepProgram program = compile(sketch(text));
  EXPECT_GE(program.scratch_slots, 100U);
  EXPECT_LE(program.scratch_slots, 102U);
  EXPECT_EQ(program.carried_slots, 0U);
}

//   a -> meet -> b -> c
TEST(Liveness, NothingIsCarriedWhereOnlyTheMeetingCrosses) {
  const SweepProgram program = compile(sketch("a=1 -> meet=1*4 -> b=1 -> c=1", 4));
  EXPECT_EQ(program.segments(), 2U);
  EXPECT_EQ(program.carried_slots, 0U);
  EXPECT_EQ(program.meeting_blocks, 1U);
}

//   a -> b -> meet -> c       a lives across the meeting, b does not
//    '----------------^
TEST(Liveness, ValueThatCrossesAMeetingIsCarried) {
  const SweepProgram program = compile(sketch("a=1 -> b=1 -> meet=1*2/2 -> c=1; a -> c", 4));
  EXPECT_EQ(program.segments(), 2U);
  EXPECT_EQ(program.carried_slots, 1U);
  EXPECT_EQ(program.meeting_blocks, 2U);  // replicas {0, 2} and {1, 3}
}

// 200 such blocks one after the other: a carried slot is given back once its segment has passed.
TEST(Liveness, CarriedSlotsAreReused) {
  std::string text = "c0=1";
  for (int i = 0; i < 200; ++i) {
    const std::string n = std::to_string(i);
    text += "\nc" + n + " -> b" + n + "=1 -> meet" + n + "*2 -> c" + std::to_string(i + 1) + "=1\n";
    text += "c" + n + " -> c" + std::to_string(i + 1);
  }
  const SweepProgram program = compile(sketch(text, 2));
  EXPECT_EQ(program.segments(), 201U);
  EXPECT_GE(program.carried_slots, 1U);
  EXPECT_LE(program.carried_slots, 2U);
  EXPECT_LE(program.scratch_slots, 2U);
}

// Against a count of what is alive, made from the graph alone: without meetings, the sweep runs in node order
// and its slots are exactly the most finish times that are needed at once.
TEST(Liveness, ScratchSlotsAreTheMostValuesAliveAtOnce) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    const StepModel model = random_sketch(seed, {.ops = 1 + seed % 60, .replicas = 1}).model();
    std::vector<std::size_t> last_reader(model.graph.size());
    for (std::size_t i = 0; i < model.graph.size(); ++i) {
      last_reader[i] = i;
      for (const NodeId before : model.graph.predecessors(NodeId(i))) last_reader[before.value] = i;
    }
    std::size_t most = 0;
    for (std::size_t at = 0; at < model.graph.size(); ++at) {
      std::size_t alive = 1;  // the node's own finish
      for (std::size_t i = 0; i < at; ++i) alive += last_reader[i] > at;
      most = std::max(most, alive);
    }
    EXPECT_EQ(compile_sweep(model.graph, 1).scratch_slots, most) << "seed " << seed;
  }
}

// A few nodes may claim any number of replicas; the memory of a sweep is refused before it is taken.
TEST(Liveness, MoreMeetingsThanMemoryAreRefused) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += "n" + std::to_string(i) + "*2;";
  const StepModel model = sketch(text, 1 << 24).model();
  EXPECT_THROW((void)compile_sweep(model.graph, model.replicas), InputError);
}

TEST(Liveness, MemoryDoesNotDependOnTheNumberOfSamples) {
  const StepModel model = random_sketch(5, {.ops = 80, .replicas = 8, .steps = 4}).model();
  const Simulation simulation(model, Sampling::Hierarchical, estimate_step_effects(model));
  const auto bytes_for = [&](std::uint32_t samples) {
    const std::size_t before = lane_bytes;
    (void)simulation.step_times_ns(1, 0, samples, {.threads = 1});
    return lane_bytes - before;
  };
  const SweepProgram& program = simulation.program();
  const std::size_t lanes =
      program.scratch_slots + std::size_t{8} * program.carried_slots + program.meeting_blocks + 1;
  EXPECT_EQ(bytes_for(32), lanes * kLanes * sizeof(double));
  EXPECT_EQ(bytes_for(3200), bytes_for(32));
}

}  // namespace
}  // namespace prism
