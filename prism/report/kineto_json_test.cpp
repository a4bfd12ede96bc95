// SPDX-License-Identifier: Apache-2.0
// The document against an independent JSON parser; reading back is tested where the reader is
// (tests/made_trace).
#include "prism/report/kineto_json.hpp"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace prism {
namespace {

using Json = nlohmann::json;

/// A launch and its kernel, with a name that needs escapes.
RankTrace small_trace() {
  RankTrace t;
  t.rank = 1;
  t.world_size = 2;
  t.backend = "nccl";
  t.gpu_name = "Made \"GPU\"";
  t.host = "host-a";
  t.base_time_ns = 1'000'000'000'000;
  t.absolute_time = true;
  t.groups = {{"0", "default_pg", 2, {0, 1}}};
  t.names = {"",  "k\\<\"a\"\n>",      "cudaLaunchKernel", "cuLaunchKernel", "ProfilerStep#3", "allreduce",
             "0", "record_param_comms"};
  t.threads = {"100/101"};
  CommRecord record;
  record.collective = NameId(5);
  record.group = NameId(6);
  record.in_elements = 0;
  record.sequence = 7;
  record.comms_id = 17446744073709551557U;
  record.members = {0, 1};
  t.comms = {record};
  t.gpu_ops = {{.start_ns = 1'000'000'007'001,
                .duration_ns = 2'050,
                .stream = 7,
                .correlation = 9,
                .device = 1,
                .name = NameId(1),
                .comm = CommId(0)}};
  t.calls = {{.start_ns = 1'000'000'000'000, .duration_ns = 5'000, .correlation = 9, .name = NameId(2)},
             {.start_ns = 1'000'000'006'000, .duration_ns = 5'000, .correlation = 10, .name = NameId(3)}};
  t.cpu_ops = {{.start_ns = 999'999'999'999, .duration_ns = 9'000, .name = NameId(7), .comm = CommId(0)}};
  t.annotations = {{.start_ns = 1'000'000'000'000, .duration_ns = 9'000, .name = NameId(4)}};
  return t;
}

std::vector<Json> events_of(const Json& document, const std::string& category) {
  std::vector<Json> found;
  for (const Json& e : document["traceEvents"]) {
    if (e.value("cat", "") == category) found.push_back(e);
  }
  return found;
}

TEST(KinetoJson, DescribesJobAndDevice) {
  const Json json = Json::parse(kineto_json(small_trace(), "rank1.json"));
  EXPECT_EQ(json["schemaVersion"], 1);
  EXPECT_EQ(json["deviceProperties"][0]["id"], 1);
  EXPECT_EQ(json["deviceProperties"][0]["name"], "Made \"GPU\"");
  EXPECT_EQ(json["distributedInfo"]["rank"], 1);
  EXPECT_EQ(json["distributedInfo"]["world_size"], 2);
  EXPECT_EQ(json["distributedInfo"]["pg_config"][0]["ranks"], (std::vector<int>{0, 1}));
  EXPECT_EQ(json["baseTimeNanoseconds"], 1'000'000'000'000);
  EXPECT_EQ(json["host_name"], "host-a");
  EXPECT_EQ(json["traceName"], "rank1.json");
}

TEST(KinetoJson, WritesTimesToTheNanosecondRelativeToTheBase) {
  const std::string text = kineto_json(small_trace(), "t");
  // The kernel: 7 us and 1 ns after the base, 2.05 us long. The operator began 1 ns before the base.
  EXPECT_NE(text.find("\"ts\": 7.001, \"dur\": 2.050"), std::string::npos) << text;
  EXPECT_NE(text.find("\"ts\": -0.001, \"dur\": 9.000"), std::string::npos) << text;

  RankTrace no_base = small_trace();
  no_base.base_time_ns.reset();
  EXPECT_NE(kineto_json(no_base, "t").find("\"ts\": 1000000007.001"), std::string::npos);
}

TEST(KinetoJson, LinksLaunchAndKernelTwice) {
  const Json json = Json::parse(kineto_json(small_trace(), "t"));
  const Json kernel = events_of(json, "kernel").at(0);
  EXPECT_EQ(kernel["name"], "k\\<\"a\"\n>");
  EXPECT_EQ(kernel["pid"], 1);
  EXPECT_EQ(kernel["tid"], 7);
  const Json launch = events_of(json, "cuda_runtime").at(0);
  EXPECT_EQ(launch["args"]["correlation"], kernel["args"]["correlation"]);
  EXPECT_EQ(launch["pid"], 100);
  EXPECT_EQ(launch["tid"], 101);
  EXPECT_EQ(events_of(json, "cuda_driver").at(0)["name"], "cuLaunchKernel");
  const auto flows = events_of(json, "ac2g");
  const auto finish = std::ranges::find_if(flows, [](const Json& f) { return f["ph"] == "f"; });
  ASSERT_NE(finish, flows.end());
  EXPECT_EQ((*finish)["id"], 9);
  EXPECT_EQ((*finish)["ts"], kernel["ts"]);
}

TEST(KinetoJson, WritesCollectivesOnRecordAndKernel) {
  const Json json = Json::parse(kineto_json(small_trace(), "t"));
  for (const Json& event : {events_of(json, "kernel").at(0), events_of(json, "cpu_op").at(0)}) {
    const Json& args = event["args"];
    EXPECT_EQ(args["Collective name"], "allreduce");
    EXPECT_EQ(args["In msg nelems"], 0);
    EXPECT_FALSE(args.contains("Out msg nelems"));
    EXPECT_EQ(args["Process Group Ranks"], "[0, 1]");
    EXPECT_EQ(args["Seq"], 7);
    EXPECT_EQ(args["Comms Id"].get<std::uint64_t>(), 17446744073709551557U);
  }
}

TEST(KinetoJson, WritesOldRecordsByPosition) {
  RankTrace t = small_trace();
  t.comms[0] = CommRecord{.group_size = 8, .sequence = 337, .group_pointer = 93825114103440U};
  Json record = events_of(Json::parse(kineto_json(t, "t")), "cpu_op").at(0)["args"];
  EXPECT_EQ(record["Concrete Inputs"], (Json{"", "337", "93825114103440", "1", "", "[]", "[]", "8"}));
  EXPECT_FALSE(record.contains("Seq"));
}

// What is not UTF-8 is replaced, not written and not thrown.
TEST(KinetoJson, IsStrictJsonWhateverTheNames) {
  RankTrace t = small_trace();
  t.names[1] = std::string("\x01\xff\0\x80", 4);
  t.threads[0] = "Spans/a \"b\"";
  const Json json = Json::parse(kineto_json(t, "a\"b"));
  EXPECT_EQ(events_of(json, "kernel").at(0)["name"].get<std::string>(),
            std::string("\x01\xef\xbf\xbd\0\xef\xbf\xbd", 8));
  EXPECT_EQ(events_of(json, "cuda_runtime").at(0)["tid"], "a \"b\"");
}

TEST(KinetoJson, ComesInPiecesThatDoNotGrowWithTheTrace) {
  RankTrace t = small_trace();
  const GpuOp op = t.gpu_ops[0];
  t.gpu_ops.resize(5000, op);
  std::size_t largest = 0;
  std::size_t total = 0;
  write_kineto_json(t, "t", [&](std::string_view piece) {
    largest = std::max(largest, piece.size());
    total += piece.size();
  });
  EXPECT_GT(total, 2'000'000U);
  EXPECT_LT(largest, 70'000U);
}

TEST(KinetoJson, EmptyTraceIsADocument) {
  const Json json = Json::parse(kineto_json(RankTrace{.names = {""}}, "empty"));
  EXPECT_FALSE(json.contains("distributedInfo"));
  EXPECT_FALSE(json.contains("baseTimeNanoseconds"));
  EXPECT_TRUE(events_of(json, "kernel").empty());
}

}  // namespace
}  // namespace prism
