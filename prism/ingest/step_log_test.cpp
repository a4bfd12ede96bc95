// SPDX-License-Identifier: Apache-2.0
#include "prism/ingest/step_log.hpp"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "prism/io/bytes.hpp"
#include "prism/trace/error.hpp"

namespace prism {
namespace {

namespace fs = std::filesystem;

struct Read {
  ImportReport report;  // filled by what comes next
  StepLog log;
  explicit Read(const std::string& text) : log(parse_step_log(text, "log", report)) {}
  [[nodiscard]] std::vector<double> ms() const {
    std::vector<double> times;
    for (const LoggedStep& step : log.steps) times.push_back(step.time_ns / 1e6);
    return times;
  }
  [[nodiscard]] std::size_t count(const std::string& reason) const {
    for (const ImportEntry& entry : report.entries()) {
      if (entry.reason == reason) return entry.count;
    }
    return 0;
  }
};

using Ms = std::vector<double>;

TEST(StepLog, ColumnsAreKnownByNameAndUnit) {
  const auto one = [](const std::string& column, const std::string& value) {
    const Read read("run," + column + ",loss\n0," + value + ",3.5\n");
    EXPECT_TRUE(read.report.entries().empty()) << column;
    return read.ms();
  };
  EXPECT_EQ(one("step_time_s", "1.5"), Ms{1500});
  EXPECT_EQ(one("Step Time (ms)", "850"), Ms{850});
  EXPECT_EQ(one("iteration_time_ms", "12"), Ms{12});
  EXPECT_EQ(one("train_step_time", "0.25"), Ms{250});
  EXPECT_EQ(one("seconds", "2"), Ms{2000});
  EXPECT_EQ(one("step_time_us", "1250"), Ms{1.25});
  EXPECT_EQ(one("duration_s", "3"), Ms{3000});
}

TEST(StepLog, UnitsThatAreNotGivenAreGuessedAndSaid) {
  const Read seconds("step,step_time\n1,1.5\n2,1.25\n");
  EXPECT_EQ(seconds.ms(), (Ms{1500, 1250}));
  EXPECT_EQ(seconds.count("unit of step times not given: taken as seconds"), 1U);
  const Read milliseconds("1500\n1250\n");
  EXPECT_EQ(milliseconds.ms(), (Ms{1500, 1250}));
  EXPECT_EQ(milliseconds.count("unit of step times not given: taken as milliseconds"), 1U);
}

TEST(StepLog, LoneColumnOfNumbersMayHaveAHeader) {
  EXPECT_EQ(Read("2\r\n3\r\n\r\n2.5\r\n").ms(), (Ms{2000, 3000, 2500}));
  EXPECT_EQ(Read("step_time_ms\n2\n3").ms(), (Ms{2, 3}));
  EXPECT_EQ(Read("whatever\n2\n3").ms(), (Ms{2000, 3000}));
  EXPECT_EQ(Read("step_time_ms\n2\n3").log.steps[1].line, 3U);
}

TEST(StepLog, BadTimesAreReportedAndLeftOut) {
  const Read read("step_time_s,x\n1,\n0,\n-1,\nnan,\ninf,\nabc,\n2,\n\"\n");
  EXPECT_EQ(read.ms(), (Ms{1000, 2000}));
  EXPECT_EQ(read.count("step time left out: not above 0"), 4U);
  EXPECT_EQ(read.count("step time left out: not a number"), 2U);
}

TEST(StepLog, MegatronLinesWithAnyPrefix) {
  const Read read(
      "vm-07-14:  iteration        1/       5 | consumed samples:  2048 | elapsed time per iteration (ms): "
      "76015.3 | "
      "learning rate: 1.200E-07 |\n"
      "(min, max) time across ranks (ms):\n    forward-backward ......: (1577.37, 1600.12)\n"
      "\x1b[32m [2026-01-16 07:00:02] iteration   2/ 5 | elapsed time per iteration (ms): 1714.5/1720.1 | "
      "\x1b[0m\n");
  EXPECT_EQ(read.ms(), (Ms{76015.3, 1714.5}));
  EXPECT_EQ(read.log.pattern, "elapsed time per iteration");
  EXPECT_EQ(read.log.averaged, 1U);
  EXPECT_EQ(read.log.steps[1].line, 4U);
  EXPECT_TRUE(read.report.entries().empty());
}

TEST(StepLog, MegatronMeansOverALogIntervalAreToldFromItsNumbers) {
  std::string text;
  for (int i = 1; i <= 5; ++i) {
    text += "iteration " + std::to_string(100 * i) + "/ 500 | elapsed time per iteration (ms): 1000.5 |\n";
  }
  EXPECT_EQ(Read(text).log.averaged, 100U);
}

TEST(StepLog, TorchtitanStepsAreDifferencesOfTimeStamps) {
  const auto line = [](const std::string& time, int step) {
    return "[rank0]:[titan] 2026-02-28 " + time + " - root - INFO - step: " + std::to_string(step) +
           "  loss:  4.5  memory: 47.52GiB(50.00%)  tps: 7,257  mfu: 42.78%\n";
  };
  const Read read(line("23:59:58,500", 1) + line("23:59:59,750", 2) + line("23:59:59,751", 2) +
                  "[titan] 2026-02-28 23:59:59,900 - root - INFO - saving a checkpoint\n"
                  "2026-03-01 00:00:02,250 - root - INFO - step: 4  loss: 4.4  tps: 7,257\n");
  EXPECT_EQ(read.ms(), (Ms{1250, 1250})) << "over midnight; the second is the mean of two";
  EXPECT_EQ(read.log.pattern, "time stamps of steps");
}

TEST(StepLog, OtherLogs) {
  EXPECT_EQ(Read("iter 10: loss 4.2, time 1234.5ms, mfu 40.1%\niter 11: loss 4.1, time 1200.25ms\n").ms(),
            (Ms{1234.5, 1200.25}));
  EXPECT_EQ(Read("epoch 1 step_time: 1.25 s lr 0.1\nstep_time=0.5s\n").ms(), (Ms{1250, 500}));
  EXPECT_EQ(
      Read(
          R"(0: :::MLLOG {"key": "tracked_stats", "value": {"train_step_time": 1.114}, "metadata": {"step": 32}})")
          .ms(),
      Ms{1114});
  EXPECT_EQ(Read("Step time: 1,234.5 ms").ms(), Ms{1234.5});
}

TEST(StepLog, WordsThatOnlyContainAKeyAreNone) {
  const Read read("last_step_timer: 5\nmy_step_time: 6\nstep_time_ms: 7\n");
  EXPECT_EQ(read.ms(), Ms{7});
}

TEST(StepLog, ThatHasNoneIsRefused) {
  for (const char* text :
       {"", "\n", "hello\nworld\n", "a,b\n1,2\n", "step_time_s,b\n", "\x1b[", "iter time", "-"}) {
    ImportReport report;
    EXPECT_THROW((void)parse_step_log(text, "log", report), InputError) << text;
  }
}

// --- published and made logs
// -----------------------------------------------------------------------------------

fs::path shared(const std::string& name) {
  return fs::path(PRISM_SOURCE_DIR) / "../shared/data/formats" / name;
}

TEST(StepLogFiles, OfOtherProgramsAreRead) {
  if (!fs::exists(shared("README.md")))
    GTEST_SKIP() << "NOT TESTED: " << shared("README.md") << " is not there";
  const Read deepspeed(read_bytes(shared("megatron/megatron_deepspeed_2node_tail.log.gz")));
  EXPECT_EQ(deepspeed.log.steps.size(), 5U);
  EXPECT_DOUBLE_EQ(deepspeed.ms().front(), 76015.3);
  const Read timers(read_bytes(shared("synthetic/megatron_timers.log")));
  EXPECT_DOUBLE_EQ(timers.ms().front(), 1727.1);
  const Read titan(read_bytes(shared("synthetic/torchtitan.log")));
  EXPECT_DOUBLE_EQ(titan.ms().front(), 1000);
  std::size_t tables = 0;
  for (const auto& entry : fs::directory_iterator(shared("mlperf/steps"))) {
    const Read table(read_bytes(entry.path()));
    EXPECT_EQ(table.log.pattern, "column step_time_s") << entry.path();
    EXPECT_GT(table.log.steps.size(), 20U) << entry.path();
    EXPECT_TRUE(table.report.entries().empty()) << entry.path();
    ++tables;
  }
  EXPECT_EQ(tables, 30U);
  const Read mllog(read_bytes(shared("mlperf/raw/v5.1_hsg_ngpu5120_llama31_405b_result_1.txt.gz")));
  EXPECT_EQ(mllog.log.pattern, "train_step_time");
  EXPECT_GT(mllog.log.steps.size(), 100U);
}

}  // namespace
}  // namespace prism
