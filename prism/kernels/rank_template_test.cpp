// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/rank_template.hpp"

#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trace_builder.hpp"

namespace prism {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::int64_t kUs = 1'000;

/// The template of all steps of one rank, with names for its vertices.
class Made {
 public:
  explicit Made(TraceBuilder& b) {
    std::vector<RankTrace> traces;
    traces.push_back(b.finish());
    ImportReport report;
    job_ = record_ranks(std::move(traces), {}, report);
    std::vector<std::size_t> all(job_.ranks[0].steps.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    template_ = make_rank_template(job_.ranks[0], all);
  }

  [[nodiscard]] const RankTemplate& of() const { return template_; }
  /// Ops of a stream in the template's order, with the steps that ran them: "a 01".
  [[nodiscard]] std::vector<std::string> ops(std::uint32_t stream) const {
    std::vector<std::string> result;
    for (std::uint32_t v = 0; v < template_.vertices.size(); ++v) {
      if (template_.vertices[v].kind == VertexKind::GpuOp && template_.vertices[v].lane == stream)
        result.push_back(name(v) + " " + ran_in(v));
    }
    return result;
  }
  [[nodiscard]] std::vector<std::string> edges(DependencyKind kind) const {
    std::vector<std::string> result;
    for (const TemplateEdge& edge : template_.edges) {
      if (edge.kind == kind) result.push_back(name(edge.before) + " -> " + name(edge.after));
    }
    return result;
  }

 private:
  [[nodiscard]] std::string ran_in(std::uint32_t vertex) const {
    std::string steps;
    for (std::size_t k = 0; k < template_.step_count; ++k) {
      if (template_.at(vertex, k) != kAbsent) steps += std::to_string(k);
    }
    return steps;
  }
  [[nodiscard]] std::string name(std::uint32_t vertex) const {
    const RankTrace& trace = job_.traces[0];
    const VertexKind kind = template_.vertices[vertex].kind;
    if (kind == VertexKind::StreamStart) return "stream";
    if (kind == VertexKind::ThreadStart) return "thread";
    for (std::size_t k = 0; k < template_.step_count; ++k) {
      const std::uint32_t at = template_.at(vertex, k);
      if (at == kAbsent) continue;
      if (kind == VertexKind::GpuOp) return trace.name(trace.gpu_ops[at].name);
      return trace.name(trace.calls[at].name) + (kind == VertexKind::CallEnd ? "!" : "");
    }
    return "nothing";
  }

  KernelRecording job_;
  RankTemplate template_;
};

void step(TraceBuilder& b, int number) {
  b.annotation("ProfilerStep#" + std::to_string(number), 1'000 * number * kUs, 1'000 * kUs);
}

void launch(TraceBuilder& b, const std::string& name, std::int64_t call_us, std::int64_t start_us,
            std::int64_t length_us, std::uint64_t stream = 7) {
  b.launch(name, call_us * kUs, start_us * kUs, length_us * kUs, stream);
}

TEST(RankTemplate, HoldsTheOpsOfAllStepsEachInItsPlace) {
  TraceBuilder b(0);
  for (int k = 0; k < 3; ++k) {
    const std::int64_t t = 1'000 * k;
    step(b, k);
    launch(b, "a", t + 10, t + 20, 5);
    if (k == 1) launch(b, "logged", t + 15, t + 26, 5);
    launch(b, "b", t + 20, t + 32, 5);
    if (k == 2) launch(b, "a", t + 25, t + 40, 5);
  }
  const Made made(b);
  EXPECT_THAT(made.ops(0), ElementsAre("a 012", "logged 1", "b 012", "a 2"));
  std::vector<std::uint32_t> occurrences;
  for (const TemplateVertex& v : made.of().vertices) {
    if (v.kind == VertexKind::GpuOp) occurrences.push_back(v.occurrence);
  }
  EXPECT_THAT(occurrences, ElementsAre(0, 0, 0, 1));  // the second a
  // Steps 0 and 2 ran b after a without what others ran between them.
  EXPECT_THAT(made.edges(DependencyKind::Stream),
              ElementsAre("stream -> a", "a -> logged", "a -> b", "logged -> b", "b -> a"));
}

TEST(RankTemplate, CallsAreToldByWhatTheyLaunch) {
  TraceBuilder b(0);
  for (int k = 0; k < 2; ++k) {
    const std::int64_t t = 1'000 * k;
    step(b, k);
    // Both are calls of one name, in another order on the host than on their streams.
    launch(b, k == 0 ? "a" : "b", t + 10, t + 20, 5, k == 0 ? 7 : 8);
    launch(b, k == 0 ? "b" : "a", t + 15, t + 26, 5, k == 0 ? 8 : 7);
  }
  const Made made(b);
  EXPECT_THAT(made.ops(0), ElementsAre("a 01"));
  EXPECT_THAT(made.ops(1), ElementsAre("b 01"));
  std::size_t calls = 0;
  for (const TemplateVertex& v : made.of().vertices) calls += v.kind == VertexKind::CallBegin;
  EXPECT_EQ(calls, 3U);  // one of the two is at two places
}

TEST(RankTemplate, ACallHasAnEndIfItBlocksInSomeStep) {
  TraceBuilder b(0);
  for (int k = 0; k < 2; ++k) {
    const std::int64_t t = 1'000 * k;
    step(b, k);
    launch(b, "a", t + 10, t + 20, k == 0 ? 50 : 5);
    b.call(HostCallKind::DeviceSync, "sync", (t + 40) * kUs, 33 * kUs);  // nothing to wait for in step 1
    launch(b, "b", t + 80, t + 90, 5);
  }
  const Made made(b);
  EXPECT_THAT(made.edges(DependencyKind::HostWait), ElementsAre("a -> sync!"));
  EXPECT_THAT(made.edges(DependencyKind::Host), Contains("sync! -> cudaLaunchKernel"));
}

/// "late" starts at `start_us` of its step, "other" ends at `end_us`: a residual dependency if that is just before.
void late_step(TraceBuilder& b, int number, std::int64_t end_us, std::int64_t start_us) {
  const std::int64_t t = 1'000 * number;
  step(b, number);
  launch(b, "other", t + 5, t + 30, end_us - 30, 8);
  launch(b, "late", t + 20, t + start_us, 5);
}

TEST(RankTemplate, InferredEdgesNeedHalfOfTheSteps) {
  for (const int steps_with : {1, 2}) {
    TraceBuilder b(0);
    // A step in which "other" ends long before says neither yes nor no.
    for (int k = 0; k < 4; ++k) late_step(b, k, k < steps_with ? 128 : 60, 130);
    const Made made(b);
    EXPECT_EQ(made.edges(DependencyKind::Residual).size(), steps_with == 2 ? 1U : 0U);
    EXPECT_EQ(made.of().unsupported, steps_with == 2 ? 0U : 1U);
  }
}

TEST(RankTemplate, AnEdgeThatTheTimesOfAnotherStepForbidGoes) {
  TraceBuilder b(0);
  late_step(b, 0, 128, 130);
  late_step(b, 1, 128, 130);
  late_step(b, 2, 128, 40);  // starts while "other" runs
  const Made made(b);
  EXPECT_THAT(made.edges(DependencyKind::Residual), IsEmpty());
  EXPECT_EQ(made.of().contradicted, 1U);
}

TEST(RankTemplate, WaitingForWorkOfAnEarlierStepIsWaitingForItsStream) {
  TraceBuilder b(0);
  for (int k = 0; k < 3; ++k) {
    const std::int64_t t = 1'000 * k;
    step(b, k);
    launch(b, "first", t + 5, t + 115, 5);          // late, right after what the step before left running
    launch(b, "long", t + 990, t + 1'000, 113, 8);  // ends in the next step
  }
  const Made made(b);
  EXPECT_THAT(made.edges(DependencyKind::Residual), ElementsAre("stream -> first"));
}

}  // namespace
}  // namespace prism
