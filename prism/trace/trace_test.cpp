// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "prism/trace/error.hpp"
#include "prism/trace/ids.hpp"
#include "prism/trace/import_report.hpp"
#include "prism/trace/op_type.hpp"

namespace prism {
namespace {

TEST(OpType, NamesRoundTrip) {
  for (const OpType type : all_op_types()) EXPECT_EQ(op_type_from_name(op_type_name(type)), type);
  EXPECT_FALSE(op_type_from_name("forward-compute "));
  EXPECT_FALSE(op_type_from_name(""));
}

TEST(OpType, ReplicaSpanningTypesAreCommunication) {
  for (const OpType type : all_op_types()) {
    if (spans_replicas(type)) {
      EXPECT_TRUE(is_communication(type)) << op_type_name(type);
    }
    EXPECT_FALSE(is_compute(type) && is_communication(type)) << op_type_name(type);
  }
}

TEST(ImportReport, CountsByReasonAndKeepsTheFirstPlaces) {
  ImportReport report;
  for (int line = 2; line < 12; ++line) report.add(Severity::DataLoss, "row left out", std::to_string(line));
  report.add(Severity::Repaired, "row left out", "99");
  ASSERT_EQ(report.entries().size(), 2U);
  EXPECT_EQ(report.entries()[0].count, 10U);
  EXPECT_EQ(report.entries()[0].places, (std::vector<std::string>{"2", "3", "4"}));
  EXPECT_EQ(report.entries()[1].severity, Severity::Repaired);
}

TEST(InputError, SaysWhereWhatAndHowToFix) {
  const InputError at_line({"a.csv", 12, {}}, "no column 'step'", "add it");
  EXPECT_STREQ(at_line.what(), "a.csv:12: no column 'step'\n  fix: add it");
  const InputError at_byte({"a.gz", {}, 99}, "truncated");
  EXPECT_STREQ(at_byte.what(), "a.gz at byte 99: truncated");
}

TEST(IdVector, IndexesByItsOwnId) {
  IdVector<NodeId, int> values;
  const NodeId first = values.push_back(7);
  EXPECT_EQ(values[first], 7);
  EXPECT_LT(first, NodeId(1));
}

}  // namespace
}  // namespace prism
