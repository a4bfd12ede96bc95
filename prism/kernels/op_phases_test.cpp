// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/op_phases.hpp"

#include <gtest/gtest.h>

#include "tests/trace_builder.hpp"

namespace prism {
namespace {

constexpr std::int64_t kUs = 1'000;

/// Place of the kernel of that name. The main thread is "1", its step lasts from 0 to 1 ms.
OpPlace place_of(TraceBuilder b, const std::string& kernel) {
  b.annotation("ProfilerStep#1", 0, 1'000 * kUs);
  const RankTrace trace = b.finish();
  const Launches launches = find_launches(trace);
  const auto places = find_op_places(trace, launches, find_communication(trace, launches));
  for (std::size_t i = 0; i < trace.gpu_ops.size(); ++i) {
    if (trace.name(trace.gpu_ops[i].name) == kernel) return places[i];
  }
  ADD_FAILURE() << "no kernel " << kernel;
  return {};
}

TEST(OpPhases, AnOperatorOfTheMainThreadIsForward) {
  TraceBuilder b(0);
  b.cpu_op("aten::mm", 100 * kUs, 20 * kUs);
  b.launch("gemm", 110 * kUs, 120 * kUs, kUs);
  b.launch("bare", 150 * kUs, 160 * kUs, kUs);
  EXPECT_EQ(place_of(b, "gemm").phase, Phase::Forward);
  EXPECT_EQ(place_of(b, "bare").phase, Phase::Unknown);
}

TEST(OpPhases, AutogradsThreadAndItsOperatorsAreBackward) {
  TraceBuilder b(0);
  b.cpu_op("autograd::engine::evaluate_function: MmBackward0", 100 * kUs, 20 * kUs, "2");
  b.launch("inside", 110 * kUs, 120 * kUs, kUs, 7, "2");
  b.launch("beside", 150 * kUs, 160 * kUs, kUs, 7, "2");
  b.cpu_op("MmBackward0", 200 * kUs, 20 * kUs);
  b.launch("on the main thread", 210 * kUs, 220 * kUs, kUs);
  b.launch("on another thread", 250 * kUs, 260 * kUs, kUs, 7, "3");
  EXPECT_EQ(place_of(b, "inside").phase, Phase::Backward);
  EXPECT_EQ(place_of(b, "beside").phase, Phase::Backward);
  EXPECT_EQ(place_of(b, "on the main thread").phase, Phase::Backward);
  EXPECT_EQ(place_of(b, "on another thread").phase, Phase::Unknown);
}

TEST(OpPhases, AnnotationsDecideInnerOnesFirst) {
  TraceBuilder b(0);
  b.annotation("Forward pass", 100 * kUs, 100 * kUs);
  b.annotation("Optimizer.step#Adam.step", 120 * kUs, 20 * kUs);
  b.cpu_op("aten::add", 100 * kUs, 100 * kUs);
  b.launch("adam", 130 * kUs, 140 * kUs, kUs);
  b.launch("gemm", 150 * kUs, 160 * kUs, kUs);
  EXPECT_EQ(place_of(b, "adam").phase, Phase::Optimizer);
  EXPECT_EQ(place_of(b, "gemm").phase, Phase::Forward);
}

TEST(OpPhases, ARangeAroundBothPassesSaysNeither) {
  TraceBuilder b(0);
  b.annotation("forward-backward", 100 * kUs, 100 * kUs);
  b.cpu_op("aten::mm", 120 * kUs, 10 * kUs);
  b.cpu_op("MmBackward0", 140 * kUs, 10 * kUs);
  b.launch("gemm", 121 * kUs, 130 * kUs, kUs);
  b.launch("gradient", 141 * kUs, 150 * kUs, kUs);
  EXPECT_EQ(place_of(b, "gemm").phase, Phase::Forward);
  EXPECT_EQ(place_of(b, "gradient").phase, Phase::Backward);
}

TEST(OpPhases, MicrobatchAndStageComeFromTheirOwnAnnotations) {
  TraceBuilder b(0);
  b.annotation("pp_rank 2", 100 * kUs, 300 * kUs);
  b.annotation("forward microbatch 3", 110 * kUs, 100 * kUs);
  b.annotation("embedding 7", 120 * kUs, 20 * kUs);  // ends in "mb", almost
  b.launch("gemm", 125 * kUs, 130 * kUs, kUs);
  b.launch("after", 250 * kUs, 260 * kUs, kUs);
  const OpPlace place = place_of(b, "gemm");
  EXPECT_EQ(place.phase, Phase::Forward);
  EXPECT_EQ(place.microbatch, 3);
  EXPECT_EQ(place.stage, 2);
  EXPECT_EQ(place_of(b, "after").microbatch, -1);
  EXPECT_EQ(place_of(b, "after").stage, 2);
}

TEST(OpPhases, WordsAndNumbersAreFoundAsFrameworksWriteThem) {
  for (const char* text :
       {"microbatch 4", "micro_batch=4", "micro-batch: 4", "mb4", "Backward MB_4", "mb#4 of 8"}) {
    TraceBuilder b(0);
    b.annotation(text, 100 * kUs, 100 * kUs);
    b.launch("k", 110 * kUs, 120 * kUs, kUs);
    EXPECT_EQ(place_of(b, "k").microbatch, 4) << text;
  }
  for (const char* text : {"microbatch", "mb -", "climb 4", "mb 99999999999999"}) {
    TraceBuilder b(0);
    b.annotation(text, 100 * kUs, 100 * kUs);
    b.launch("k", 110 * kUs, 120 * kUs, kUs);
    EXPECT_EQ(place_of(b, "k").microbatch, -1) << text;
  }
}

TEST(OpPhases, CommunicationIsAPhaseOfItsOwn) {
  TraceBuilder b(0);
  b.annotation("Optimizer.step#Adam.step", 100 * kUs, 100 * kUs);
  b.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 110 * kUs, 120 * kUs, kUs);
  EXPECT_EQ(place_of(b, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)").phase, Phase::Communication);
}

}  // namespace
}  // namespace prism
