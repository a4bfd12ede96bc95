// SPDX-License-Identifier: Apache-2.0
// Cost models and measured costs.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prism/io/bytes.hpp"
#include "prism/io/csv.hpp"
#include "prism/plan/collective_cost.hpp"
#include "prism/plan/gpu_fleet.hpp"
#include "prism/plan/gpu_kind.hpp"
#include "prism/plan/nccl_tests.hpp"
#include "prism/trace/error.hpp"

namespace prism {
namespace {

using testing::HasSubstr;

const std::filesystem::path kFormats =
    std::filesystem::path(PRISM_SOURCE_DIR) / ".." / "shared" / "data" / "formats";

/// Ranks on so many hosts of 8 GPUs, `per_host` of each.
GroupPlace group_of(const char* gpu, std::int64_t hosts, std::int64_t per_host) {
  Cluster c;
  c.groups.push_back({*find_gpu_kind(gpu), hosts, 8});
  std::vector<Location> members;
  for (const Location& at : place_ranks(c, hosts * 8, "plan")) {
    if (at.local < per_host) members.push_back(at);
  }
  return place_group(c, members);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

TEST(GpuKinds, HaveTheirDataSheetsPeaks) {
  EXPECT_EQ(find_gpu_kind("a100")->bf16_tflops, 312);
  EXPECT_EQ(find_gpu_kind("H100")->memory_gb_per_s, 3350);
  EXPECT_NEAR(find_gpu_kind("H100")->fp8_tflops, 1979, 1);
  EXPECT_EQ(find_gpu_kind("GB300")->fp4_tflops, 15000);
  EXPECT_NEAR(find_gpu_kind("MI355X")->fp4_tflops, 10066, 1);
  EXPECT_EQ(find_gpu_kind("nothing"), nullptr);
  for (const GpuKind& gpu : gpu_kinds()) {
    EXPECT_FALSE(gpu.source.empty()) << gpu.name;
    EXPECT_FALSE(gpu.efficiency_source.empty()) << gpu.name;
    for (const EfficiencyCurve& curve : gpu.efficiency)
      EXPECT_TRUE(curve.most > 0 && curve.most < 1) << gpu.name;
    if (gpu.fp8_tflops > 0) {
      EXPECT_NEAR(gpu.fp8_tflops, 2 * gpu.bf16_tflops, 0.01 * gpu.fp8_tflops) << gpu.name;
    }
  }
}

TEST(GpuKinds, PeaksFollowFromUnitsAndClocks) {
  // Units x FLOPs of one unit in a cycle (bf16; fp8; fp4) x clock of the vendors' architecture papers. Kinds of NVIDIA from
  // Blackwell on have no published rates per unit: dense rates of the whole system over its GPUs.
  struct Unit {
    const char* name;
    double units, bf16, fp8, fp4, ghz;
  };
  for (const Unit& u : {Unit{"A100", 108, 2048, 0, 0, 1.41},
                        {"H100", 132, 4096, 8192, 0, 1.83},
                        {"MI300X", 304, 2048, 4096, 0, 2.1},
                        {"MI325X", 304, 2048, 4096, 0, 2.1},
                        {"MI355X", 256, 4096, 8192, 16384, 2.4}}) {
    const GpuKind& gpu = *find_gpu_kind(u.name);
    EXPECT_NEAR(gpu.bf16_tflops, u.units * u.bf16 * u.ghz * 1e-3, 1) << u.name;
    EXPECT_NEAR(gpu.fp8_tflops, u.units * u.fp8 * u.ghz * 1e-3, 1) << u.name;
    EXPECT_NEAR(gpu.fp4_tflops, u.units * u.fp4 * u.ghz * 1e-3, 1) << u.name;
  }
  struct System {
    const char* name;
    double gpus, fp8, fp4;  // PFLOP/s, dense
  };
  for (const System& s : {System{"B200", 8, 36, 72}, {"GB200", 72, 360, 720}, {"GB300", 72, 360, 1080}}) {
    EXPECT_DOUBLE_EQ(find_gpu_kind(s.name)->fp8_tflops, s.fp8 * 1e3 / s.gpus) << s.name;
    EXPECT_DOUBLE_EQ(find_gpu_kind(s.name)->fp4_tflops, s.fp4 * 1e3 / s.gpus) << s.name;
  }
}

TEST(KernelTime, IsTheLongestOfComputeMemoryAndLaunch) {
  const GpuKind& gpu = *find_gpu_kind("H100");
  Kernel product{.kind = KernelClass::Gemm, .flops = 1e15};
  const double large = kernel_ns(product, gpu);
  EXPECT_NEAR(large, 1e15 / (gpu.bf16_tflops * 1e12 * gpu.efficiency[0].most) * 1e9, 0.01 * large);
  product.flops = 1e6;
  EXPECT_NEAR(kernel_ns(product, gpu), 4000, 10);  // the ramp
  product.bytes = 3.35e12;
  EXPECT_NEAR(kernel_ns(product, gpu), 1e9 / 0.85, 1e6);
  EXPECT_EQ(kernel_ns({.kind = KernelClass::Memory, .bytes = 1, .launches = 10}, gpu) >= 30'000, true);
  EXPECT_EQ(kernel_ns({.fixed_ns = 7}, gpu), 7);
  Kernel fp8{.kind = KernelClass::Gemm, .precision = Precision::Fp8, .flops = 1e15};
  EXPECT_LT(kernel_ns(fp8, gpu), large);
  EXPECT_EQ(kernel_ns(fp8, *find_gpu_kind("A100")),
            kernel_ns({.kind = KernelClass::Gemm, .flops = 1e15}, *find_gpu_kind("A100")));
}

TEST(CollectiveModel, LargeMessagesFollowTheBusBandwidth) {
  constexpr double kS = 64e9;
  const GroupPlace host = group_of("A100", 1, 8);
  // busbw = factor * S / t.
  const double bus = 0.8 * 300e9;
  EXPECT_NEAR(model_collective(CollectiveOp::AllGather, kS, host).ns, kS * 7 / 8 / bus * 1e9, 1e6);
  EXPECT_NEAR(model_collective(CollectiveOp::AllReduce, kS, host).ns, kS * 2 * 7 / 8 / bus * 1e9, 1e6);
  // One rank per host: the NIC; eight: the rails together, up to what NVLink carries.
  const double nic = 0.97 * 50e9;
  EXPECT_NEAR(model_collective(CollectiveOp::ReduceScatter, kS, group_of("H100", 4, 1)).ns,
              kS * 3 / 4 / nic * 1e9, 1e7);
  EXPECT_NEAR(model_collective(CollectiveOp::ReduceScatter, kS, group_of("H100", 4, 8)).ns,
              kS * 31 / 32 / (0.8 * 450e9) * 1e9, 1e7);
  // Two hosts exchange half of what each holds.
  EXPECT_NEAR(model_collective(CollectiveOp::AllToAll, kS, group_of("H100", 2, 8)).ns, kS / 2 / nic * 1e9,
              1e7);
}

TEST(CollectiveModel, GpusWithoutASwitchReachEachPeerOverOneLink) {
  // RCCL counts 48 GB/s of each xGMI link: 48 to one peer, 144 to three, 336 to seven.
  constexpr double kS = 64e9;
  for (const std::int64_t n : {2, 4, 8}) {
    const GroupPlace group = group_of("MI300X", 1, n);
    const auto peers = static_cast<double>(n - 1);
    const double ns = kS * peers / static_cast<double>(n) / (peers * 48e9) * 1e9;
    EXPECT_NEAR(model_collective(CollectiveOp::AllGather, kS, group).ns, ns, 1e6);
    EXPECT_NEAR(model_collective(CollectiveOp::AllToAll, kS, group).ns, ns, 1e6);
    EXPECT_NEAR(model_collective(CollectiveOp::AllReduce, kS, group).ns, 2 * ns, 1e6);
  }
  EXPECT_NEAR(model_collective(CollectiveOp::SendReceive, kS, group_of("MI300X", 1, 2)).ns, kS / 48, 1e6);
}

TEST(CollectiveModel, InSwitchReductionMovesOneSharePerGpuMore) {
  // S + S/n leave each GPU: 1.25 S with four, 1.125 S with eight. Measured on H100: 245 and 275 GB/s of S.
  constexpr double kS = 64e9;
  const double four = model_collective(CollectiveOp::AllReduce, kS, group_of("H100", 1, 4)).ns;
  const double eight = model_collective(CollectiveOp::AllReduce, kS, group_of("H100", 1, 8)).ns;
  EXPECT_NEAR(four / eight, 1.25 / 1.125, 1e-3);
  EXPECT_NEAR(kS / four, 245, 3);
  EXPECT_NEAR(kS / eight, 275, 3);
}

TEST(CollectiveModel, TheDomainWithFewestRanksHoldsUpTheRest) {
  // Eight ranks on one host and two on the next: all of S enters the second over two NICs.
  Cluster c;
  c.groups.push_back({*find_gpu_kind("H100"), 2, 8});
  std::vector<Location> members = place_ranks(c, 16, "plan");
  members.resize(10);
  const GroupPlace uneven = place_group(c, members);
  EXPECT_EQ(uneven.ranks_per_domain, 8);
  EXPECT_EQ(uneven.least_per_domain, 2);
  constexpr double kS = 64e9;
  EXPECT_NEAR(model_collective(CollectiveOp::AllGather, kS, uneven).ns, kS * 9 / 10 / (2 * 0.97 * 50), 1e7);
  // The two send to eight others each, the eight to two.
  EXPECT_NEAR(model_collective(CollectiveOp::AllToAll, kS, uneven).ns, kS * 8 / 10 / (0.97 * 50), 1e7);
}

TEST(CollectiveModel, GrowsWithSizeAndWithHostsAndHasALatency) {
  for (const CollectiveOp kind : {CollectiveOp::AllReduce, CollectiveOp::AllGather, CollectiveOp::AllToAll,
                                  CollectiveOp::SendReceive}) {
    const std::int64_t per_host = kind == CollectiveOp::SendReceive ? 1 : 8;
    double before = 0;
    for (double bytes = 8; bytes < 1e11; bytes *= 3) {
      const double ns = model_collective(kind, bytes, group_of("H100", 2, per_host)).ns;
      EXPECT_GE(ns, before);
      EXPECT_GE(ns, 5000);
      before = ns;
    }
    if (kind == CollectiveOp::SendReceive) continue;
    EXPECT_LT(model_collective(kind, 1e9, group_of("H100", 1, 8)).ns,
              model_collective(kind, 1e9, group_of("H100", 2, 8)).ns);
    EXPECT_LT(model_collective(kind, 1e9, group_of("H100", 2, 8)).ns,
              model_collective(kind, 1e9, group_of("H100", 16, 8)).ns);
  }
  EXPECT_EQ(model_collective(CollectiveOp::AllReduce, 1e9, GroupPlace{}).ns, 0);
  EXPECT_EQ(model_collective(CollectiveOp::AllReduce, 1e9, group_of("H100", 1, 8)).algorithm, "nvls");
  EXPECT_THAT(model_collective(CollectiveOp::AllReduce, 8, group_of("H100", 64, 8)).algorithm,
              HasSubstr("tree LL"));
}

TEST(MeasuredCollectives, InterpolateBetweenSizesAndExtrapolateByBandwidth) {
  MeasuredCollectives m;
  for (const double other : {0.9, 1.0, 1.1}) {
    m.add({CollectiveOp::AllReduce, 16, 2, 1e6, 100e3 * other, "pair " + std::to_string(other)});
    m.add({CollectiveOp::AllReduce, 16, 2, 1e8, 10e6 * other, "pair " + std::to_string(other)});
  }
  EXPECT_DOUBLE_EQ(*m.time_ns(CollectiveOp::AllReduce, 1e6, 16, 2), 100e3);
  EXPECT_NEAR(*m.time_ns(CollectiveOp::AllReduce, 1e7, 16, 2), 1e6, 1);
  EXPECT_DOUBLE_EQ(*m.time_ns(CollectiveOp::AllReduce, 2e8, 16, 2), 20e6);
  EXPECT_DOUBLE_EQ(*m.time_ns(CollectiveOp::AllReduce, 10, 16, 2), 100e3);
  EXPECT_FALSE(m.time_ns(CollectiveOp::AllReduce, 1e6, 8, 1));
  EXPECT_FALSE(m.time_ns(CollectiveOp::AllGather, 1e6, 16, 2));
  EXPECT_THAT(m.spread(CollectiveOp::AllReduce, 1e6, 16, 2),
              testing::ElementsAre(testing::DoubleNear(0.9, 1e-9), testing::DoubleNear(1, 1e-9),
                                   testing::DoubleNear(1.1, 1e-9)));
  GroupPlace group = group_of("H100", 2, 8);
  EXPECT_EQ(collective_time(CollectiveOp::AllReduce, 1e6, group, m).algorithm, "measured");
}

// Logs of nccl-tests

constexpr const char* kLog =
    "# nccl-tests version 2.17.8\n# Collective test starting: all_gather_perf\n# Using devices\n"
    "#  Rank  0 Group  0 Pid 1 on alpha device  0 [0000:43:00] NVIDIA H100\n"
    "#  Rank  1 Group  0 Pid 2 on beta device  0 [0000:43:00] NVIDIA H100\n#\n"
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw  "
    " busbw  #wrong\n"
    "     1048576         65536     float    none      -1    52.00   20.16   10.08       0    51.00   20.56  "
    " 10.28       0\n"
    "     2097152        131072     float    none      -1    90.00   23.30   11.65       3    89.00   23.56  "
    " 11.78       0\n"
    "     4194304        262144     float    none      -1    oops\n";

TEST(NcclTests, ReadsALog) {
  MeasuredCollectives m;
  ImportReport report;
  read_nccl_tests_log(kLog, "x.log", m, report);
  ASSERT_EQ(m.points().size(), 1U);
  EXPECT_EQ(m.points()[0].kind, CollectiveOp::AllGather);
  EXPECT_EQ(m.points()[0].ranks, 2);
  EXPECT_EQ(m.points()[0].hosts, 2);
  EXPECT_EQ(m.points()[0].bytes, 1048576);
  EXPECT_EQ(m.points()[0].ns, 52'000);
  ASSERT_EQ(report.entries().size(), 2U);  // wrong results, a row that does not parse
  EXPECT_THROW(read_nccl_tests_log("hello\n", "x.log", m, report), InputError);
  EXPECT_THROW(read_nccl_tests_csv("a,b\n1,2\n", "x.csv", m, report), InputError);
}

TEST(NcclTests, ReadsOldLayoutsWhoseTitlesStandOverNothing) {
  // "redop" is printed for all-to-all, its column is empty; "error" is a deviation, not a count.
  constexpr const char* kOld =
      "# nThread 1 nGpus 2 minBytes 1\n# Using devices\n"
      "#   Rank  0 Pid 1 on localhost device  0 [0x00] A100\n#   Rank  1 Pid 1 on localhost device  1 [0x00] "
      "A100\n"
      "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  "
      "error\n"
      "           0             0   float             1.63    0.00    0.00    N/A     1.38    0.00    0.00   "
      " N/A\n"
      "     1048576         32768   float            87.42   11.99   10.50    N/A    88.90   11.79   10.32   "
      " N/A\n"
      "     2097152         32768    half     sum    89.61   23.40   20.48  4e-03    90.10   23.27   20.37  "
      "4e-03\n"
      "     4194304         32768    half     sum    96.44   43.49   38.05  3e-01    99.62   42.10   36.84  "
      "3e-01\n"
      "     8388608         32768    half     sum    0       96.44   43.49   38.05  4e-03    99.62   42.10   "
      "36.84\n";
  MeasuredCollectives m;
  ImportReport report;
  read_nccl_tests_log(kOld, "alltoall.log", m, report);
  ASSERT_EQ(m.points().size(), 2U);
  EXPECT_EQ(m.points()[0].ns, 87'420);
  EXPECT_EQ(m.points()[1].ns, 89'610);
  ASSERT_EQ(report.entries().size(), 2U);
  EXPECT_EQ(report.entries()[0].count, 1U);  // a sum that is wrong
  EXPECT_EQ(report.entries()[1].count, 1U);  // a row whose bandwidth is not that of its size and time
}

TEST(NcclTests, CountsTheRanksOfEachOfJoinedLogs) {
  MeasuredCollectives m;
  ImportReport report;
  constexpr const char* kOne =
      "# Using devices\n#   Rank  0 Pid 1 on a device  0 [0x00] A100\n#   Rank  1 Pid 1 on b device  1 "
      "[0x00] A100\n"
      "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  "
      "error\n"
      "     1048576        262144   float     sum    87.42   11.99   10.50  0e+00    88.90   11.79   10.32  "
      "0e+00\n";
  read_nccl_tests_log(std::string(kOne) + kOne, "allreduce.log", m, report);
  ASSERT_EQ(m.points().size(), 2U);
  EXPECT_EQ(m.points()[1].ranks, 2);
  EXPECT_EQ(m.points()[1].hosts, 2);
}

TEST(NcclTests, RawLogsHoldTheRowsOfTheParsedTable) {
  const auto table = kFormats / "nccl-tests" / "nccl_tests.csv.gz";
  if (!std::filesystem::exists(table)) GTEST_SKIP() << "NOT TESTED: no " << table;
  MeasuredCollectives all;
  ImportReport report;
  const std::string text = read_bytes(table);
  read_nccl_tests_csv(text, table.string(), all, report);
  EXPECT_GT(all.points().size(), 6000U);
  for (const auto& entry : std::filesystem::directory_iterator(kFormats / "nccl-tests" / "raw")) {
    MeasuredCollectives one;
    ImportReport of_log;
    read_nccl_tests_log(read_bytes(entry.path()), entry.path().string(), one, of_log);
    const std::string name = entry.path().filename().string();
    const std::string file = name.substr(name.rfind("__") + 2);
    const auto same = [](const MeasuredCollectives::Point& a, const MeasuredCollectives::Point& b) {
      return a.kind == b.kind && a.bytes == b.bytes && a.ranks == b.ranks && a.hosts == b.hosts &&
             std::abs(a.ns - b.ns) < 1;
    };
    std::size_t expected = 0;
    for (const auto& row : all.points()) {
      if (row.group != file) continue;
      ++expected;
      EXPECT_TRUE(std::ranges::any_of(one.points(), [&](const auto& p) { return same(p, row); }))
          << name << " lacks " << row.bytes << " bytes";
    }
    EXPECT_GT(expected, 0U) << name;
    EXPECT_EQ(one.points().size(), expected) << name;
    EXPECT_THAT(of_log.entries(), testing::IsEmpty()) << name;
  }
}

TEST(CollectiveModel, IsNearWhatHealthyClustersMeasured) {
  const auto table = kFormats / "nccl-tests" / "nccl_tests.csv.gz";
  if (!std::filesystem::exists(table)) GTEST_SKIP() << "NOT TESTED: no " << table;
  const std::string text = read_bytes(table);
  CsvReader csv(text, table.string());
  std::vector<double> errors;
  std::vector<double> large;
  MeasuredCollectives row;
  ImportReport report;
  while (csv.next()) {
    const auto field = [&](const char* name) { return csv.fields()[*csv.column(name)]; };
    if (field("cluster") == "example-cluster00") continue;  // unhealthy
    const std::string line = "collective,n_ranks,n_nodes,size_b,oop_time_us\n" +
                             std::string(field("collective")) + "," + std::string(field("n_ranks")) + "," +
                             std::string(field("n_nodes")) + "," + std::string(field("size_b")) + "," +
                             std::string(field("oop_time_us")) + "\n";
    MeasuredCollectives one;
    try {
      read_nccl_tests_csv(line, "row", one, report);
    } catch (const InputError&) {
      continue;
    }
    if (one.empty() || one.points()[0].bytes < 1e6) continue;
    const auto& p = one.points()[0];
    const char* gpu = field("cluster") == "azure-a100" ? "A100" : "H100";
    const double error =
        model_collective(p.kind, p.bytes, group_of(gpu, p.hosts, p.ranks / p.hosts)).ns / p.ns - 1;
    errors.push_back(std::abs(error));
    if (p.bytes > 1e9) large.push_back(std::abs(error));
  }
  ASSERT_GT(errors.size(), 500U);
  // Seen: 4.4 % over all rows from 1 MB on, 3.1 % above 1 GB.
  EXPECT_LT(median(errors), 0.06);
  EXPECT_LT(median(large), 0.05);
  std::printf("median error of %zu rows: %.1f %%, above 1 GB: %.1f %%\n", errors.size(), 100 * median(errors),
              100 * median(large));
}

TEST(MeasuredCollectives, SpreadOfNodePairsIsThatOfTheTable) {
  const auto table = kFormats / "nccl-tests" / "nccl_tests.csv.gz";
  if (!std::filesystem::exists(table)) GTEST_SKIP() << "NOT TESTED: no " << table;
  ImportReport report;
  const std::vector<double> spread = read_measured_collectives(table, report).network_spread();
  EXPECT_GT(spread.size(), 80U);  // pairs of 17 hosts
  EXPECT_LT(spread.front(), 1);
  EXPECT_GT(spread.back(), 1.05);
}

// Fleets

TEST(GpuFleet, SeparatesGpusFromRuns) {
  ImportReport report;
  const GpuFleet fleet = parse_gpu_fleet(
      "uuid,perf,exp\na,100,x\na,102,x\nb,110,x\nb,112,x\nc,100,x\nc,oops,x\na,7,y\nb,7.7,y\nc,7,y\n",
      "f.csv", report);
  ASSERT_EQ(fleet.spatial.size(), 3U);
  EXPECT_NEAR(fleet.spatial.back(), 1.1, 0.005);  // b, in both jobs
  EXPECT_EQ(fleet.temporal.size(), 4U);           // of a and b in job x
  EXPECT_EQ(fleet.runs, 8U);
  EXPECT_EQ(report.entries().size(), 1U);
  EXPECT_THROW(parse_gpu_fleet("uuid,perf\na,1\n", "f.csv", report), InputError);
  EXPECT_THROW(parse_gpu_fleet("gpu,time\na,1\n", "f.csv", report), InputError);
}

TEST(GpuFleet, ComparesOverJobsWhereEachIsOfOneGpu) {
  ImportReport report;
  const GpuFleet fleet = parse_gpu_fleet("uuid,perf,job_id\na,100,1\nb,110,2\nc,100,3\n", "f.csv", report);
  EXPECT_THAT(fleet.spatial, testing::ElementsAre(1, 1, testing::DoubleEq(1.1)));
  ASSERT_EQ(report.entries().size(), 1U);
  EXPECT_EQ(report.entries()[0].severity, Severity::Info);
}

TEST(GpuFleet, ReadsEveryTableOfMeasuredFleets) {
  const auto folder = kFormats / "gpu-variability";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "NOT TESTED: no " << folder;
  struct Table {
    const char* name;
    std::size_t gpus, runs;
    double largest;  // median of a GPU over that of the fleet, counted apart from this code
  };
  for (const Table& table : {Table{"frontera_rtx5000_pagerank", 248, 1240, 1.001},
                             {"frontera_rtx5000_resnet", 296, 1480, 1.145},
                             {"lonestar6_a100_resnet", 219, 219, 2.201},
                             {"longhorn_v100_bert", 136, 1096, 1.039},
                             {"longhorn_v100_pagerank", 172, 880, 1.004},
                             {"longhorn_v100_sgemm", 278, 7685, 1.055}}) {
    ImportReport report;
    const GpuFleet fleet = read_gpu_fleet(folder / (std::string(table.name) + ".csv.gz"), report);
    EXPECT_EQ(fleet.spatial.size(), table.gpus) << table.name;
    EXPECT_EQ(fleet.runs, table.runs) << table.name;
    EXPECT_NEAR(fleet.spatial.back(), table.largest, 0.001) << table.name;
  }
}

TEST(GpuFleet, OfTheV100ClusterIsAsPublished) {
  const auto file = kFormats / "gpu-variability" / "longhorn_v100_sgemm.csv.gz";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "NOT TESTED: no " << file;
  ImportReport report;
  const GpuFleet fleet = read_gpu_fleet(file, report);
  EXPECT_EQ(fleet.spatial.size(), 278U);
  double mean = 0;
  double squares = 0;
  for (const double f : fleet.spatial) mean += f / 278;
  for (const double f : fleet.spatial) squares += (f - mean) * (f - mean) / 278;
  EXPECT_NEAR(std::sqrt(squares) / mean, 0.016, 0.001);
  EXPECT_NEAR(fleet.spatial.back(), 1.06, 0.01);
}

}  // namespace
}  // namespace prism
