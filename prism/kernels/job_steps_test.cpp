// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/job_steps.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prism/trace/error.hpp"
#include "tests/trace_builder.hpp"

namespace prism {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::int64_t kUs = 1'000;

/// A rank with steps of 100 us in which one kernel runs from 50 us after the begin to 60 us (first number), 61 us, ...
RankTrace rank_with(int rank, const std::vector<int>& numbers, std::int64_t clock_us = 0) {
  TraceBuilder b(rank);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::int64_t start = clock_us + 100 * numbers[i];
    b.annotation("ProfilerStep#" + std::to_string(numbers[i]), start * kUs, 100 * kUs);
    b.launch("k", (start + 40 - rank) * kUs, (start + 50) * kUs, (10 + numbers[i]) * kUs);
  }
  return b.finish();
}

struct Found {
  JobSteps steps;
  ImportReport report;

  explicit Found(std::vector<RankTrace> traces) {
    const KernelRecording job = record_ranks(std::move(traces), {}, report);
    report = {};
    steps = find_job_steps(job, report);
  }
};

std::string refusal(std::vector<RankTrace> traces) {
  try {
    const Found found(std::move(traces));
    return "not refused";
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST(JobSteps, OnlyStepsOfAllRanksCountAndTheOthersAreReported) {
  std::vector<RankTrace> traces;
  traces.push_back(rank_with(0, {1, 2, 3}));
  traces.push_back(rank_with(1, {2, 3, 4}));
  const Found found(std::move(traces));
  EXPECT_THAT(found.steps.numbers, ElementsAre(2, 3));
  EXPECT_THAT(found.steps.chosen[0], ElementsAre(1, 2));
  EXPECT_THAT(found.steps.chosen[1], ElementsAre(0, 1));
  ASSERT_THAT(found.report.entries(), SizeIs(1));
  EXPECT_EQ(found.report.entries()[0].count, 2U);
  EXPECT_THAT(found.report.entries()[0].places, ElementsAre("step 1", "step 4"));
}

TEST(JobSteps, AStepLastsFromTheLastEndBeforeItToItsOwnOverAllRanks) {
  std::vector<RankTrace> traces;
  traces.push_back(rank_with(0, {1, 2, 3}));
  traces.push_back(rank_with(1, {1, 2, 3}));
  traces[1].gpu_ops[1].duration_ns += 5 * kUs;  // rank 1 ends step 2 later
  const Found found(std::move(traces));
  // Ends: 161, 262 + 5 and 363 us; step 1 begins with the host.
  EXPECT_THAT(found.steps.begin_ns, ElementsAre(100 * kUs, 161 * kUs, 267 * kUs));
  EXPECT_THAT(found.steps.end_ns, ElementsAre(161 * kUs, 267 * kUs, 363 * kUs));
  EXPECT_EQ(found.steps.lead_ns, 0);  // no host was ahead
}

TEST(JobSteps, TheLeadIsTheLongestTimeThatAHostWasAhead) {
  TraceBuilder b(0);
  for (int k = 0; k < 2; ++k) {
    b.annotation("ProfilerStep#" + std::to_string(k), 100 * k * kUs, 100 * kUs);
    b.launch("k", (100 * k + 30) * kUs, (300 * k + 50) * kUs, 250 * kUs);  // ends at 300 and 600
  }
  std::vector<RankTrace> traces;
  traces.push_back(b.finish());
  const Found found(std::move(traces));
  EXPECT_THAT(found.steps.begin_ns, ElementsAre(0, 300 * kUs));
  EXPECT_EQ(found.steps.lead_ns, 200 * kUs);  // the host began step 1 at 100
}

TEST(JobSteps, ANumberThatOccursTwiceIsToldByItsOccurrence) {
  std::vector<RankTrace> traces;
  for (int rank = 0; rank < 2; ++rank) {
    TraceBuilder b(rank);
    for (const std::int64_t start : {1'000, 9'000}) {
      b.annotation("ProfilerStep#5", start * kUs, 100 * kUs);
      b.launch("k", (start + 10) * kUs, (start + 20) * kUs, 10 * kUs);
    }
    traces.push_back(b.finish());
  }
  const Found found(std::move(traces));
  EXPECT_THAT(found.steps.numbers, ElementsAre(5, 5));
  EXPECT_THAT(found.steps.begin_ns, ElementsAre(1'000 * kUs, 9'000 * kUs));
  EXPECT_THAT(found.report.entries(), IsEmpty());
}

TEST(JobSteps, AStepThatEndsBeforeItBeginsIsLeftOut) {
  std::vector<RankTrace> traces;
  traces.push_back(rank_with(0, {1, 2}));
  traces[0].gpu_ops[0].start_ns = 80 * kUs;  // 60 us before its launch, 20 us before the step
  traces[0].gpu_ops[0].duration_ns = 10 * kUs;
  const Found found(std::move(traces));
  EXPECT_THAT(found.steps.numbers, ElementsAre(2));
  ASSERT_THAT(found.report.entries(), SizeIs(1));
  EXPECT_EQ(found.report.entries()[0].severity, Severity::DataLoss);
}

TEST(JobSteps, WhatLeavesNoStepIsRefusedWithTheReason) {
  std::vector<RankTrace> apart;
  apart.push_back(rank_with(0, {1, 2}));
  apart.push_back(rank_with(1, {3, 4}));
  EXPECT_THAT(refusal(std::move(apart)), HasSubstr("share no complete step"));

  std::vector<RankTrace> host_only;
  host_only.push_back(rank_with(0, {1, 2}));
  host_only.push_back(rank_with(1, {1, 2}));
  host_only[1].gpu_ops.clear();
  EXPECT_THAT(refusal(std::move(host_only)),
              AllOf(HasSubstr("rank1.json"), HasSubstr("ProfilerActivity.CUDA")));

  std::vector<RankTrace> outside;
  TraceBuilder b(0);
  b.annotation("ProfilerStep#1", 0, 10 * kUs);
  b.launch("k", 50 * kUs, 60 * kUs, 10 * kUs);
  outside.push_back(b.finish());
  EXPECT_THAT(refusal(std::move(outside)), HasSubstr("outside all step annotations"));
}

}  // namespace
}  // namespace prism
