// SPDX-License-Identifier: Apache-2.0
// Two checks of one kind: the generator against hand-computed step times, and the model against the
// generator's truth for schedules that no recorded trace at hand has.
#include "tests/made_job/made_job.hpp"

#include <map>
#include <memory>
#include <stdexcept>
#include <tuple>

#include <gtest/gtest.h>

#include "prism/analysis/replay.hpp"
#include "prism/ingest/job_meta.hpp"
#include "prism/ingest/op_timeline_csv.hpp"
#include "prism/model/build_step_model.hpp"
#include "prism/model/clocks.hpp"
#include "prism/model/op_graph.hpp"
#include "prism/model/split_times.hpp"

namespace prism {
namespace {

/// No noise, no communication, nothing but forward and backward.
MadeJobSpec bare(int pp, int microbatches) {
  return {.dp = 1,
          .pp = pp,
          .microbatches = microbatches,
          .steps = 2,
          .forward_s = 0.1,
          .backward_s = 0.2,
          .p2p_s = 0,
          .allgather_s = 0,
          .reducescatter_s = 0,
          .embedding_s = 0,
          .clip_s = 0,
          .optimizer_s = 0,
          .layernorm_s = 0,
          .other_cv = 0};
}

TEST(MadeJob, OneFOneBTakesTheKnownMakespan) {
  for (const int pp : {1, 2, 4, 7}) {
    for (const int microbatches : {1, 3, 8}) {
      const double expected = (microbatches + pp - 1) * (0.1 + 0.2);
      for (const double time : make_job(bare(pp, microbatches)).step_times_s)
        EXPECT_NEAR(time, expected, 1e-12);
    }
  }
}

TEST(MadeJob, GPipeTakesTheKnownMakespan) {
  MadeJobSpec spec = bare(4, 6);
  spec.schedule = PipelineSchedule::GPipe;
  EXPECT_NEAR(make_job(spec).step_times_s[0], (6 + 4 - 1) * (0.1 + 0.2), 1e-12);
}

// Narayanan et al. 2021: with v chunks the pipeline's bubble is v times smaller.
TEST(MadeJob, InterleavedScheduleShrinksTheBubble) {
  for (const int chunks : {2, 3}) {
    MadeJobSpec spec = bare(4, 8);
    spec.chunks = chunks;
    spec.schedule = PipelineSchedule::Interleaved;
    // Calls that move nothing take 5 us each.
    EXPECT_NEAR(make_job(spec).step_times_s[0], (8 + 3.0 / chunks) * (0.1 + 0.2), 1e-3);
  }
}

// One microbatch through two stages passes everything one after the other.
TEST(MadeJob, OneMicrobatchIsTheSumOfItsParts) {
  MadeJobSpec spec{.dp = 2,
                   .pp = 2,
                   .microbatches = 1,
                   .steps = 1,
                   .forward_s = 0.1,
                   .backward_s = 0.2,
                   .last_stage_factor = 1.5,
                   .p2p_s = 0.001,
                   .allgather_s = 0.02,
                   .reducescatter_s = 0.05,
                   .embedding_s = 0.003,
                   .clip_s = 0.004,
                   .optimizer_s = 0.04,
                   .layernorm_s = 0.0001,
                   .other_cv = 0};
  const double compute = (0.1 + 0.2) * (1 + 1.5);
  const double tail = 0.0001 + 0.003 + 0.05 + 0.004 + 0.04;
  EXPECT_NEAR(make_job(spec).step_times_s[0], 0.02 + compute + 2 * 0.001 + tail, 1e-12);

  // The last stage reduces while the first still runs backward; its own backward is what counts, then the
  // short reduction of what is outside the buckets.
  spec.overlapped_reduction = true;
  EXPECT_NEAR(make_job(spec).step_times_s[0], 0.02 + compute + 2 * 0.001 + tail + 0.005, 1e-12);
}

TEST(MadeJob, SlowRankDelaysTheStepByItsOwnShare) {
  MadeJobSpec spec = bare(4, 8);
  spec.dp = 3;
  spec.slow_rank = SlowRank{.dp_rank = 1, .stage = 0, .factor = 1.5};
  // It works without a pause but for its first backward: 3 forwards and 3 backwards of the others lie before
  // that, of which its own 3 warm-up forwards hide a part.
  const double pause = 3 * (0.1 + 0.2) - 3 * 1.5 * 0.1;
  EXPECT_NEAR(make_job(spec).step_times_s[0], 8 * 1.5 * (0.1 + 0.2) + pause, 1e-12);
}

TEST(MadeJob, DependsOnItsSeedAlone) {
  MadeJobSpec spec{.step_sd = 0.02, .content_sd = 0.1, .residual_sd = 0.01, .reduce_delay_s = 0.01};
  const std::string once = to_csv(make_job(spec).timeline);
  EXPECT_EQ(once, to_csv(make_job(spec).timeline));
  spec.seed = 2;
  EXPECT_NE(once, to_csv(make_job(spec).timeline));
}

TEST(MadeJob, StepsLieInWindows) {
  const MadeJob job = make_job({.steps = 5, .first_step = 10, .windows = 2, .window_hole = 150});
  std::map<int, int> rows;
  for (const OpRecord& r : job.timeline.records) ++rows[r.step];
  ASSERT_EQ(rows.size(), 5U);
  std::vector<int> steps;
  for (const auto& [step, count] : rows) steps.push_back(step);
  EXPECT_EQ(steps, (std::vector<int>{10, 11, 12, 163, 164}));
}

TEST(MadeJob, RefusesWhatDoesNotFit) {
  EXPECT_THROW(make_job({.dp = 0}), std::invalid_argument);
  EXPECT_THROW(make_job({.chunks = 2}), std::invalid_argument);
  EXPECT_THROW(make_job({.microbatches = 6, .chunks = 2, .schedule = PipelineSchedule::Interleaved}),
               std::invalid_argument);
}

TEST(MadeJob, MetadataReadsBack) {
  ImportReport report;
  const JobMeta meta =
      parse_job_meta(meta_yaml({.name = "x", .dp = 3, .pp = 2, .tp = 4, .dsp = 2}), "m", report);
  EXPECT_TRUE(report.entries().empty());
  EXPECT_EQ(meta.trial_name, "x");
  EXPECT_EQ(meta.dp_size, 3);
  EXPECT_EQ(meta.pp_size, 2);
  EXPECT_EQ(meta.tp_size, 4);
  EXPECT_EQ(meta.dsp_size, 2);
  EXPECT_EQ(meta.vpp_size, 1);
  EXPECT_EQ(meta.world_size, 48);
}

struct Variant {
  std::string name;
  MadeJobSpec spec;
};

/// All kinds of noise, large enough that a wrong dependency moves step times by more than the tolerances.
MadeJobSpec noisy(MadeJobSpec spec) {
  spec.steps = 12;
  spec.last_stage_factor = 1.2;
  spec.step_sd = 0.02;
  spec.rank_sd = 0.02;
  spec.content_sd = 0.1;
  spec.residual_sd = 0.02;
  spec.p2p_s = 0.003;
  spec.other_cv = 0.2;
  spec.transfer_jitter_s = 20e-6;
  spec.start_delay_s = 0.004;
  spec.forward_delay_s = 0.02;
  spec.reduce_delay_s = 0.015;
  return spec;
}

std::vector<Variant> variants() {
  using enum PipelineSchedule;
  return {
      {"OneFOneB", noisy({})},
      {"GPipe", noisy({.schedule = GPipe})},
      {"InterleavedTwoChunks", noisy({.chunks = 2, .schedule = Interleaved})},
      {"InterleavedThreeChunksTwoStages",
       noisy({.pp = 2, .microbatches = 6, .chunks = 3, .schedule = Interleaved})},
      {"InterleavedOneGroup", noisy({.microbatches = 4, .chunks = 2, .schedule = Interleaved})},
      {"Overlapped", noisy({.overlapped_reduction = true})},
      {"OverlappedInterleaved", noisy({.chunks = 2, .schedule = Interleaved, .overlapped_reduction = true})},
      {"OverlappedGPipe", noisy({.schedule = GPipe, .overlapped_reduction = true})},
      {"LossBarrier", noisy({.dp = 4, .loss_barrier = true})},
      {"OneStage", noisy({.dp = 4, .pp = 1})},
      {"TwoStages", noisy({.pp = 2})},
      {"OneReplica", noisy({.dp = 1})},
      {"OneReplicaSplitSequences", noisy({.dp = 1, .dsp = 2})},
      {"FewerMicrobatchesThanStages", noisy({.microbatches = 2})},
      {"OneMicrobatch", noisy({.microbatches = 1})},
      {"TensorParallel", noisy({.tp = 4})},
      {"OnlyOneRank", noisy({.dp = 1, .pp = 1})},
  };
}

class MadeJobModel : public ::testing::TestWithParam<Variant> {
 protected:
  MadeJob made_ = make_job(GetParam().spec);
  ImportReport report_;

  std::shared_ptr<const RecordedJob> aligned() {
    OpTimeline timeline = parse_op_timeline(to_csv(made_.timeline), "made.csv", report_);
    timeline.meta = parse_job_meta(meta_yaml(GetParam().spec), "made.yaml", report_);
    return std::make_shared<const RecordedJob>(align(timeline, report_));
  }

  void expect_replayed(LaunchDelays delays, double tolerance) {
    const StepModel model = build_step_model(aligned(), delays, report_);
    const ReplayResult result = replay(model, {});
    ASSERT_EQ(result.steps.size(), made_.step_times_s.size());
    for (std::size_t k = 0; k < result.steps.size(); ++k) {
      EXPECT_NEAR(result.steps[k].replayed_ns / 1e9 / made_.step_times_s[k], 1, tolerance) << "step " << k;
    }
    EXPECT_LT(result.discrepancy(), tolerance);
    for (const ImportEntry& entry : model.report.entries())
      ADD_FAILURE() << entry.reason << ": " << entry.places[0];
  }
};

TEST_P(MadeJobModel, CsvReadsBackTheSame) {
  const std::string text = to_csv(made_.timeline);
  const OpTimeline read = parse_op_timeline(text, "made.csv", report_);
  EXPECT_TRUE(report_.entries().empty());
  ASSERT_EQ(read.records.size(), made_.timeline.records.size());
  for (std::size_t i = 0; i < read.records.size(); ++i) {
    const OpRecord& a = made_.timeline.records[i];
    const OpRecord& b = read.records[i];
    const auto fields = [](const OpRecord& r) {
      return std::tuple(r.dp_rank, r.stage, r.rank, r.step, r.type, r.seq, r.chunk, r.microbatch,
                        r.start.count(), r.duration.count(), r.line);
    };
    ASSERT_EQ(fields(a), fields(b)) << "line " << a.line;
  }
  EXPECT_EQ(to_csv(read), text);
}

TEST_P(MadeJobModel, SequenceNumbersFollowStarts) {
  std::map<std::tuple<int, int, OpType>, std::pair<int, Nanos>> last;
  for (const OpRecord& r : made_.timeline.records) {
    const auto [known, is_first] = last.try_emplace({r.step, r.rank, r.type}, r.seq, r.start);
    if (is_first) {
      EXPECT_EQ(r.seq, 0);
      continue;
    }
    EXPECT_EQ(r.seq, known->second.first + 1);
    EXPECT_GE(r.start, known->second.second);
    known->second = {r.seq, r.start};
  }
}

TEST_P(MadeJobModel, ObservedStepTimesAreTheTruth) {
  const auto job = aligned();
  const std::vector<double> observed = job->step_times_ns();
  ASSERT_EQ(observed.size(), made_.step_times_s.size());
  for (std::size_t k = 0; k < observed.size(); ++k)
    EXPECT_NEAR(observed[k] / 1e9 / made_.step_times_s[k], 1, 1e-6);
}

TEST_P(MadeJobModel, RawDelaysReplayTheTruth) {
  expect_replayed(LaunchDelays::Raw, 1e-5);
}

TEST_P(MadeJobModel, CleanDelaysReplayTheTruth) {
  expect_replayed(LaunchDelays::Clean, 0.01);
}

// Work comes out of the recorded times as it went in: the waiting of communication is found to the last
// microsecond.
TEST_P(MadeJobModel, WorkIsRecovered) {
  const auto job = aligned();
  const OpGraph graph = build_op_graph(*job, report_);
  const SplitTimes split = split_times(*job, graph, LaunchDelays::Clean, report_);
  std::map<std::tuple<int, int, OpType, int, int>, double> truth_s;
  for (std::size_t i = 0; i < made_.work_s.size(); ++i) {
    const OpRecord& r = made_.timeline.records[i];
    truth_s[{r.step, r.dp_rank, r.type, r.stage, r.seq}] = made_.work_s[i];
  }
  for (std::size_t i = 0; i < job->ops.size(); ++i) {
    const TemplateOp& op = job->ops[OpId(i)];
    for (std::size_t k = 0; k < job->step_count(); ++k) {
      for (std::size_t d = 0; d < job->replicas(); ++d) {
        const double expected = truth_s.at({job->steps[k], static_cast<int>(d), op.type, op.stage, op.seq});
        // 1 us: three times the step of a 32-bit float at 2 to 4 s.
        ASSERT_NEAR(split.work_ns[OpId(i)][k * job->replicas() + d] / 1e9, expected, 1e-6) << op_text(op);
      }
    }
  }
}

TEST_P(MadeJobModel, ClocksThatAgreeAreLeftAlone) {
  RecordedJob job = *aligned();
  const RecordedJob before = job;
  align_clocks(job, report_);
  EXPECT_TRUE(report_.entries().empty());
  EXPECT_EQ(job.start_ns, before.start_ns);
}

INSTANTIATE_TEST_SUITE_P(Variants, MadeJobModel, ::testing::ValuesIn(variants()),
                         [](const auto& variant) { return variant.param.name; });

}  // namespace
}  // namespace prism
