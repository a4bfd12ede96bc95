// SPDX-License-Identifier: Apache-2.0
// The way from recorded profiler traces to the replayed step, over all real files: every complete step comes
// back, durations of one step put into another come close, and what cannot be used is refused in plain words.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prism/analysis/open_model.hpp"
#include "prism/analysis/replay.hpp"
#include "prism/trace/error.hpp"

namespace prism {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

const fs::path& data() {
  static const fs::path folder = fs::path(PRISM_SOURCE_DIR) / ".." / "shared" / "data" / "kineto";
  return folder;
}

#define NEEDS_RECORDED_TRACES() \
  if (!fs::exists(data())) GTEST_SKIP() << "NOT TESTED: no recorded traces at " << data()

/// What is asked of a recording.
struct Recorded {
  const char* path;            // below data()
  std::size_t complete_steps;  // ProfilerSteps with GPU work that the end of the trace does not cut
  double most_gpu_error = 0.03;
  double most_lags_error = 0.01;
  double most_unexplained = 1;  // of the step; single ranks with CUDA graphs explain little
};

class RecordedTraces : public ::testing::TestWithParam<Recorded> {};

TEST_P(RecordedTraces, ReplayAndAcrossSteps) {
  NEEDS_RECORDED_TRACES();
  const Recorded& recorded = GetParam();
  const StepModel model = open_model(data() / recorded.path);
  const ReplayResult result = replay(model, {});
  EXPECT_EQ(result.steps.size(), recorded.complete_steps);
  for (const ReplayedStep& step : result.steps) {
    EXPECT_GT(step.observed_ns, 0) << "step " << step.step;
    EXPECT_LT(std::abs(step.error()), 1e-6) << "step " << step.step;
  }
  ASSERT_TRUE(result.start_errors);
  EXPECT_LT(result.start_errors->p99_ns, 1e3);
  for (const CrossStep& pair : result.across_steps) {
    const auto what = [&] { return std::to_string(pair.from) + " -> " + std::to_string(pair.to); };
    EXPECT_LT(std::abs(pair.gpu_error), recorded.most_gpu_error) << what();
    EXPECT_LT(std::abs(pair.lags_error), recorded.most_lags_error) << what();
  }
  ASSERT_TRUE(result.unexplained_share);
  EXPECT_LE(*result.unexplained_share, recorded.most_unexplained);
}

INSTANTIATE_TEST_SUITE_P(
    All, RecordedTraces,
    ::testing::Values(
        Recorded{"multi/nanogpt-h100-8rank", 4, 0.03, 0.02, 0.05},
        Recorded{"multi/megatron-tp8-a100-8rank", 1, 0.03, 0.01, 0.05},
        Recorded{"nvidia/ddp-2rank-rank0-nccl-metadata.json.gz", 3},
        Recorded{"nvidia/ddp-2rank-rank1-54MB-of-json.json.gz", 5},
        Recorded{"nvidia/recsys-16rank-rank0-cuda-graphs.json.gz", 5},
        Recorded{"nvidia/b200-8rank-rank0-71-process-groups-pdl.json.gz", 1},
        Recorded{"nvidia/h100-qwen-0.5b-inference.json.gz", 1}, Recorded{"sync/alexnet-cuda-sync.json.gz", 1},
        Recorded{"sync/simple-add-cuda-sync.json.gz", 1}, Recorded{"sync/event-sync-multi-stream.json.gz", 1},
        Recorded{"sync/kineto-stream-wait-event-h100-before.json.gz", 1},
        Recorded{"amd/mi250-minitoy-rocm62.json.gz", 1},
        Recorded{"amd/mi300x-resnet-ddp-8rank-rank0.json.gz", 3}, Recorded{"amd/mi210-gpu-only.json.gz", 1},
        Recorded{"amd/mi300x-bert-small.json.gz", 1}, Recorded{"amd/torch-compile-triton.json.gz", 1},
        Recorded{"graphs/sglang-qwen3-decode-one-correlation-544-kernels.json.gz", 1},
        Recorded{"old/resnet50-2021-string-tids.json.gz", 6},
        Recorded{"old/resnet50-2021-top-level-array.json.gz", 6},
        Recorded{"old/gpu-metrics-counters-without-tid.json.gz", 1},
        Recorded{"old/resnet-rtx2080-2023-wrong-external-ids.json.gz", 1},
        Recorded{"weird/async-gpu-flows-capital-categories.json.gz", 1},
        Recorded{"weird/gpu-user-annotations-2022.json.gz", 1},

        // Thinned out by hand to one launch a step: what held its kernel up is not in the file, so the lags of 57 and
        // 49 ms can only be kept, not explained. They differ by 7.4 % of the step.
        Recorded{"weird/no-flows-few-events-base.json.gz", 2, 0.08, 0.08}),
    [](const auto& of) {
      std::string name = of.param.path;
      std::ranges::replace_if(
          name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
      return name;
    });

std::vector<fs::path> files_in(const char* folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(data() / folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

std::size_t joins(const StepModel& model) {
  return static_cast<std::size_t>(
      std::ranges::count_if(model.nodes, [](const Node& node) { return node.name.starts_with("join of "); }));
}

TEST(RecordedTraceSets, AllCollectivesOfTheStepsAreJoinedAcrossRanks) {
  NEEDS_RECORDED_TRACES();
  // Its 84 collectives are all in its one step.
  EXPECT_EQ(joins(open_model(data() / "multi/megatron-tp8-a100-8rank")), 84U);
  // 56 of 76 were launched in its four steps, 8 and 20 by turns; the 8 are among the 20.
  EXPECT_EQ(joins(open_model(data() / "multi/nanogpt-h100-8rank")), 20U);
}

TEST(RecordedTraceSets, NeitherOrderOfFilesNorThreadsChangeTheModel) {
  NEEDS_RECORDED_TRACES();
  std::vector<fs::path> files = files_in("multi/nanogpt-h100-8rank");
  OpenOptions one_thread;
  one_thread.control.threads = 1;
  const StepModel model = open_model(files, one_thread);
  std::ranges::reverse(files);
  OpenOptions three_threads;
  three_threads.control.threads = 3;
  const StepModel other = open_model(files, three_threads);
  EXPECT_EQ(model.digest, other.digest);
  EXPECT_TRUE(model.graph == other.graph);
  EXPECT_TRUE(model.pools == other.pools);
  EXPECT_TRUE(std::ranges::equal(model.nodes, other.nodes));
  EXPECT_EQ(model.observed_ns, other.observed_ns);
}

/// The text of the error that opening must end with.
std::string refusal(const std::vector<fs::path>& files) {
  try {
    const StepModel model = open_model(files);
    return "not refused: " + std::to_string(model.step_count()) + " steps";
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST(RecordedTraceSets, RanksOfDifferentJobsAreRefusedWithBothFilesAndTimes) {
  NEEDS_RECORDED_TRACES();
  EXPECT_THAT(refusal({data() / "nvidia/ddp-2rank-rank0-nccl-metadata.json.gz",
                       data() / "nvidia/ddp-2rank-rank1-54MB-of-json.json.gz"}),
              AllOf(HasSubstr("ddp-2rank-rank0"), HasSubstr("ddp-2rank-rank1"),
                    HasSubstr("2024-05-23 00:15:22"), HasSubstr("2022-11-30 04:48:09")));
}

TEST(RecordedTraceSets, TracesWithoutGpuWorkAreRefusedWithWhatToRecord) {
  NEEDS_RECORDED_TRACES();
  for (const char* file : {"weird/cpu-only-no-gpu", "weird/no-distributed-info", "weird/cupti-range-profiler",
                           "mtia/mtia-inference-rank0"}) {
    EXPECT_THAT(
        refusal({data() / (std::string(file) + ".json.gz")}),
        AllOf(HasSubstr(file), HasSubstr("no step with GPU work"), HasSubstr("ProfilerActivity.CUDA")));
  }
}

}  // namespace
}  // namespace prism
