// SPDX-License-Identifier: Apache-2.0
// The dependency rules of Lin et al. on a pipeline small enough to be drawn.
#include "prism/model/op_graph.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "prism/model/posting_edges.hpp"
#include "tests/made_job/made_job.hpp"

namespace prism {
namespace {

using Lines = std::set<std::string>;

/// "a.F0": stage a, b, ...; forward 0.
std::string short_name(const TemplateOp& op) {
  static const std::map<OpType, std::string> names = {{OpType::ForwardCompute, "F"},
                                                      {OpType::BackwardCompute, "B"},
                                                      {OpType::ForwardSend, "FS"},
                                                      {OpType::ForwardRecv, "FR"},
                                                      {OpType::BackwardSend, "BS"},
                                                      {OpType::BackwardRecv, "BR"},
                                                      {OpType::ParamsAllGather, "AG"},
                                                      {OpType::GradsReduceScatter, "RS"},
                                                      {OpType::SeparateGradsAllReduce, "SG"},
                                                      {OpType::LayernormGradsAllReduce, "LN"},
                                                      {OpType::EmbeddingGradsAllReduce, "EM"},
                                                      {OpType::OptimizerClipMainGrad, "CL"},
                                                      {OpType::Optimizer, "OP"},
                                                      {OpType::Gc, "GC"}};
  return std::string(1, static_cast<char>('a' + op.stage)) + "." + names.at(op.type) + std::to_string(op.seq);
}

/// "a.F0 -> a.F1" of every dependency.
Lines edges_of(const RecordedJob& job, const OpGraph& graph) {
  Lines edges;
  for (std::size_t i = 0; i < job.ops.size(); ++i) {
    for (const OpId before : graph.depends_on[OpId(i)]) {
      edges.insert(short_name(job.ops[before]) + " -> " + short_name(job.ops[OpId(i)]));
    }
  }
  EXPECT_EQ(edges.size(), graph.edge_count()) << "an edge is there twice";
  return edges;
}

/// "a.FS0 + b.FR0", and "..." behind it if the group joins all replicas.
Lines groups_of(const RecordedJob& job, const OpGraph& graph) {
  Lines groups;
  for (const OpGroup& group : graph.groups) {
    std::string text;
    for (const OpId op : group.members) text += (text.empty() ? "" : " + ") + short_name(job.ops[op]);
    groups.insert(text + (group.spans_replicas ? " ..." : ""));
  }
  return groups;
}

/// The edges of chains "x -> y -> z", one a line.
Lines parse_chains(const std::string& text) {
  Lines edges;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string before;
    for (std::string word; words >> word;) {
      if (word == "->") continue;
      if (!before.empty()) edges.insert(before + " -> " + word);
      before = word;
    }
  }
  return edges;
}

std::string join(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

struct Built {
  RecordedJob job;
  OpGraph graph;
  ImportReport report;
};

Built built(const OpTimeline& timeline) {
  Built result;
  result.job = align(timeline, result.report);
  result.graph = build_op_graph(result.job, result.report);
  return result;
}

//   stage a:  AG  F0 F1 ......... B0 F2 ...... B1 ...... B2 GC LN EM RS CL OP
//                 | \  \          ^   \        ^         ^
//                 FS0  FS1        BR0  FS2     BR1       BR2
//                   \    \       /       \    /         /
//                   FR0   FR1  BS0       FR2 BS1      BS2
//                      \    \  ^           \ ^        ^
//   stage b:  AG ...... F0  B0  F1 ....... B1 F2 .... B2 GC LN EM RS CL OP
TEST(OpGraph, TinyPipelineHasExactlyTheseEdges) {
  const auto [job, graph, report] =
      built(make_job({.dp = 2, .pp = 2, .microbatches = 3, .steps = 2}).timeline);
  EXPECT_EQ(join(edges_of(job, graph)), join(parse_chains(R"(
    a.F0 -> a.F1 -> a.B0 -> a.F2 -> a.B1 -> a.B2
    b.F0 -> b.B0 -> b.F1 -> b.B1 -> b.F2 -> b.B2

    a.AG0 -> a.F0
    b.AG0 -> b.F0

    a.F0 -> a.FS0
    a.F1 -> a.FS1
    a.F2 -> a.FS2
    a.FS0 -> a.FS1 -> a.FS2

    b.FR0 -> b.F0 -> b.FR1 -> b.F1 -> b.FR2 -> b.F2
    b.FR0 -> b.FR1 -> b.FR2

    b.B0 -> b.BS0
    b.B1 -> b.BS1
    b.B2 -> b.BS2
    b.BS0 -> b.BS1 -> b.BS2

    a.BR0 -> a.B0 -> a.BR1 -> a.B1 -> a.BR2 -> a.B2
    a.BR0 -> a.BR1 -> a.BR2
    a.F0 -> a.BR0

    a.AG0 -> a.RS0
    b.AG0 -> b.RS0
    a.B2 -> a.GC0 -> a.LN0 -> a.EM0 -> a.RS0 -> a.CL0 -> a.OP0
    b.B2 -> b.GC0 -> b.LN0 -> b.EM0 -> b.RS0 -> b.CL0 -> b.OP0
  )")));
  EXPECT_EQ(groups_of(job, graph), (Lines{"a.FS0 + b.FR0", "a.FS1 + b.FR1", "a.FS2 + b.FR2", "a.BR0 + b.BS0",
                                          "a.BR1 + b.BS1", "a.BR2 + b.BS2", "a.AG0 ...", "b.AG0 ...",
                                          "a.RS0 ...", "b.RS0 ...", "a.EM0 + b.EM0", "a.CL0 + b.CL0 ..."}));
  EXPECT_TRUE(report.entries().empty());
}

TEST(OpGraph, LocalOpsBelongToNoGroupAndEveryTransferToOne) {
  const auto [job, graph, report] =
      built(make_job({.dp = 2, .pp = 3, .microbatches = 4, .steps = 2}).timeline);
  std::set<OpId> grouped;
  for (std::size_t g = 0; g < graph.groups.size(); ++g) {
    for (const OpId op : graph.groups[GroupId(g)].members) {
      EXPECT_EQ(graph.group_of[op], std::optional(GroupId(g)));
      EXPECT_TRUE(grouped.insert(op).second) << short_name(job.ops[op]) << " is in two groups";
    }
  }
  for (std::size_t i = 0; i < job.ops.size(); ++i) {
    EXPECT_EQ(grouped.contains(OpId(i)), is_communication(job.ops[OpId(i)].type))
        << short_name(job.ops[OpId(i)]);
  }
}

// Overlapped: gradients leave after the last backward of their chunk, and the tail waits for them.
TEST(OpGraph, OverlappedReductionFollowsTheLastBackward) {
  const auto [job, graph, report] = built(
      make_job({.dp = 2, .pp = 2, .microbatches = 3, .overlapped_reduction = true, .steps = 2}).timeline);
  const Lines edges = edges_of(job, graph);
  for (const char* edge : {"a.B2 -> a.RS0", "a.AG0 -> a.RS0", "a.RS0 -> a.LN0", "a.B2 -> a.GC0",
                           "a.GC0 -> a.LN0", "a.EM0 -> a.SG0", "a.SG0 -> a.CL0"}) {
    EXPECT_TRUE(edges.contains(edge)) << edge;
  }
  EXPECT_FALSE(edges.contains("a.EM0 -> a.RS0"));
  EXPECT_TRUE(groups_of(job, graph).contains("b.SG0 ..."));
}

// A lone rank of a job without data parallelism: the compute chain and its tail, nothing else.
TEST(OpGraph, OneRankIsAChain) {
  const auto [job, graph, report] =
      built(make_job({.dp = 1, .pp = 1, .microbatches = 2, .steps = 2}).timeline);
  EXPECT_EQ(join(edges_of(job, graph)), join(parse_chains("a.F0 -> a.B0 -> a.F1 -> a.B1 -> a.GC0 -> a.LN0 -> "
                                                          "a.CL0 -> a.OP0")));
}

// Virtual pipeline with two chunks on two ranks: transfers at the ends of the pipeline move nothing and have
// no partner; all others do.
TEST(OpGraph, TransfersBeyondTheVirtualPipelineHaveNoPartner) {
  const auto [job, graph, report] = built(make_job({.dp = 1,
                                                    .pp = 2,
                                                    .microbatches = 2,
                                                    .chunks = 2,
                                                    .schedule = PipelineSchedule::Interleaved,
                                                    .steps = 2})
                                              .timeline);
  std::size_t alone = 0;
  for (const OpGroup& group : graph.groups) {
    const OpType type = job.ops[group.members.front()].type;
    if (!is_send(type) && !is_recv(type)) continue;
    alone += group.members.size() == 1;
    if (group.members.size() == 2) {
      EXPECT_NE(job.ops[group.members[0]].stage, job.ops[group.members[1]].stage);
      EXPECT_NE(is_send(job.ops[group.members[0]].type), is_send(job.ops[group.members[1]].type));
    }
  }
  // Of each microbatch: the receive before model chunk 0, the send after chunk 3, and the same backwards.
  EXPECT_EQ(alone, 2 * 4U);
  EXPECT_TRUE(report.entries().empty());
}

TEST(OpGraph, MissingTransfersAreReportedAndTheRestRuns) {
  OpTimeline timeline = make_job({.dp = 1, .pp = 3, .microbatches = 3, .steps = 2}).timeline;
  std::erase_if(timeline.records, [](const OpRecord& r) {
    return r.type == OpType::ForwardRecv && r.stage == 1 && r.seq == 1;
  });
  for (OpRecord& r : timeline.records) {
    if (r.type == OpType::ForwardRecv && r.stage == 1 && r.seq == 2) r.seq = 1;
  }
  const auto [job, graph, report] = built(timeline);
  ASSERT_EQ(report.entries().size(), 2U);
  EXPECT_EQ(report.entries()[0].reason,
            "sends or receives do not match the computes of their stage one to one");
  EXPECT_EQ(report.entries()[0].places[0], "2 forward-recv for 3 computes of stage 1");
  EXPECT_EQ(report.entries()[1].reason,
            "sends and receives between two stages differ in number; the rest run alone");
}

TEST(OpGraph, AddedDependencyIsNewOnce) {
  OpGraph graph;
  graph.depends_on = IdVector<OpId, std::vector<OpId>>(4);
  EXPECT_TRUE(graph.add_dependency(OpId(3), OpId(2)));
  EXPECT_TRUE(graph.add_dependency(OpId(3), OpId(0)));
  EXPECT_FALSE(graph.add_dependency(OpId(3), OpId(2)));
  EXPECT_EQ(graph.depends_on[OpId(3)], (std::vector{OpId(0), OpId(2)}));
}

// In the made job a receive is posted when the compute before it has ended. Of those edges the rules know
// a.F0 -> a.BR0 and, on stage b, F0 -> FR1 and so on; the compute just before is mostly another one.
TEST(PostingEdges, AreAddedWhereTheTimesAgree) {
  auto [job, graph, report] = built(make_job({.dp = 2, .pp = 2, .microbatches = 3, .steps = 4}).timeline);
  const Lines before = edges_of(job, graph);
  const auto inferences = add_posting_edges(job, graph);
  Lines added = edges_of(job, graph);
  for (const std::string& edge : before) added.erase(edge);
  EXPECT_EQ(join(added), join(parse_chains("a.F1 -> a.BR0\na.F2 -> a.BR1\nb.B0 -> b.FR1\nb.B1 -> b.FR2")));
  ASSERT_EQ(inferences.size(), 4U);
  EXPECT_TRUE(std::ranges::count(
                  inferences, Inference{"posting edge",
                                        "forward-compute 1 of stage 0 -> backward-recv 0 of stage 0"}) == 1);
}

// 1 of 20 (step, replica) pairs may disagree by more than 200 us, 2 may not.
TEST(PostingEdges, NeedNineteenOfTwenty) {
  for (const int early : {1, 2}) {
    OpTimeline timeline = make_job({.dp = 2, .pp = 2, .microbatches = 3, .steps = 10}).timeline;
    for (OpRecord& r : timeline.records) {
      const bool hit = r.type == OpType::ForwardRecv && r.seq == 1 && r.dp_rank == 0 && r.step < 20 + early;
      if (!hit) continue;
      r.start -= Nanos(300'000);
      r.duration += Nanos(300'000);
    }
    auto [job, graph, report] = built(timeline);
    const auto inferences = add_posting_edges(job, graph);
    EXPECT_EQ(std::ranges::count(
                  inferences,
                  Inference{"posting edge", "backward-compute 0 of stage 1 -> forward-recv 1 of stage 1"}),
              early == 1 ? 1 : 0);
  }
}

}  // namespace
}  // namespace prism
