// SPDX-License-Identifier: Apache-2.0
#include "prism/io/csv.hpp"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "prism/io/test_dir.hpp"

namespace prism {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Row = std::vector<std::string>;

/// The header and all records.
std::vector<Row> read_rows(std::string_view text) {
  CsvReader reader(text, "a.csv");
  std::vector<Row> rows = {reader.header()};
  while (reader.next()) rows.emplace_back(reader.fields().begin(), reader.fields().end());
  return rows;
}

std::string read_error(std::string_view text) {
  return thrown<InputError>([&] { (void)read_rows(text); });
}

TEST(CsvReader, ReadsPlainRows) {
  EXPECT_THAT(read_rows("a,b\n1,2\n3,4\n"), ElementsAre(Row{"a", "b"}, Row{"1", "2"}, Row{"3", "4"}));
  EXPECT_THAT(read_rows("a,b\r\n1,\r\n,4\r\n"), ElementsAre(Row{"a", "b"}, Row{"1", ""}, Row{"", "4"}));
}

TEST(CsvReader, LastLineNeedsNoNewline) {
  EXPECT_THAT(read_rows("a,b\n1,2"), ElementsAre(Row{"a", "b"}, Row{"1", "2"}));
  EXPECT_THAT(read_rows("a,b\n1,"), ElementsAre(Row{"a", "b"}, Row{"1", ""}));
  EXPECT_THAT(read_rows("a,b\n1,2\r"), ElementsAre(Row{"a", "b"}, Row{"1", "2"}));
  EXPECT_THAT(read_rows("a,b\n1,\"2\""), ElementsAre(Row{"a", "b"}, Row{"1", "2"}));
  EXPECT_THAT(read_rows("a,b\n\"1\","), ElementsAre(Row{"a", "b"}, Row{"1", ""}));
  EXPECT_THAT(read_rows("a"), ElementsAre(Row{"a"}));
}

TEST(CsvReader, ByteOrderMarkIsTakenOff) {
  EXPECT_THAT(read_rows("\xef\xbb\xbf"
                        "a,b\n"),
              ElementsAre(Row{"a", "b"}));
  EXPECT_THAT(read_rows("\xef\xbb\xbf\"a\",b\n"), ElementsAre(Row{"a", "b"}));
}

TEST(CsvReader, EmptyLinesAreSkipped) {
  EXPECT_THAT(read_rows("\n\r\na,b\n\n\r\n1,2\n\n"), ElementsAre(Row{"a", "b"}, Row{"1", "2"}));
}

TEST(CsvReader, QuotedFieldsHoldAnything) {
  EXPECT_THAT(read_rows("a,\"b,c\"\r\n\"say \"\"x\"\"\",\"two\r\nlines\"\r\n\"\",\"\"\"\"\r\n5,6\r\n"),
              ElementsAre(Row{"a", "b,c"}, Row{"say \"x\"", "two\r\nlines"}, Row{"", "\""}, Row{"5", "6"}));
}

TEST(CsvReader, QuoteInsideAnUnquotedFieldIsText) {
  CsvReader reader("a,b\n5\" disk,x\"\"y\n", "a.csv");
  ASSERT_TRUE(reader.next());
  EXPECT_THAT(reader.fields(), ElementsAre("5\" disk", "x\"\"y"));
  EXPECT_FALSE(reader.malformed());
}

TEST(CsvReader, LineIsWhereTheRecordStarts) {
  CsvReader reader("a,b\n\n1,\"x\n\ny\"\n3,4\n\"5\",\"\"\"\n\"\n7,8", "a.csv");
  std::vector<std::uint64_t> lines = {reader.line()};
  while (reader.next()) lines.push_back(reader.line());
  EXPECT_THAT(lines, ElementsAre(1, 3, 6, 7, 9));
  EXPECT_EQ(reader.place().text(), "a.csv:9");
}

TEST(CsvReader, RecordsOfAnotherLengthAreDelivered) {
  EXPECT_THAT(read_rows("a,b\n1\n1,2,3\n"), ElementsAre(Row{"a", "b"}, Row{"1"}, Row{"1", "2", "3"}));
}

TEST(CsvReader, ColumnsAreFoundByName) {
  const CsvReader reader("step,rank,step\n", "a.csv");
  EXPECT_EQ(reader.column("step"), 0U);
  EXPECT_EQ(reader.column("rank"), 1U);
  EXPECT_EQ(reader.column("Rank"), std::nullopt);
}

TEST(CsvReader, AfterTheEndThereAreNoFields) {
  CsvReader reader("a\n1\n", "a.csv");
  EXPECT_TRUE(reader.next());
  EXPECT_FALSE(reader.next());
  EXPECT_TRUE(reader.fields().empty());
  EXPECT_FALSE(reader.next());
}

TEST(CsvReader, UnclosedQuoteEndsWithItsLine) {
  CsvReader reader("a,b\n1,\"open, \"\"x\"\"\r\n3,4\n", "a.csv");
  ASSERT_TRUE(reader.next());
  EXPECT_TRUE(reader.malformed());
  EXPECT_EQ(reader.line(), 2U);
  EXPECT_THAT(reader.fields(), ElementsAre("1", "open, \"\"x\"\""));
  ASSERT_TRUE(reader.next());
  EXPECT_FALSE(reader.malformed());
  EXPECT_EQ(reader.line(), 3U);
  EXPECT_THAT(reader.fields(), ElementsAre("3", "4"));
  EXPECT_FALSE(reader.next());
}

TEST(CsvReader, UnclosedQuoteAtTheVeryEndIsMalformed) {
  for (const std::string_view text : {"a\n\"", "a\n\"x", "a\n\"x\"\"", "a\n\"x\n"}) {
    CsvReader reader(text, "a.csv");
    ASSERT_TRUE(reader.next()) << text;
    EXPECT_TRUE(reader.malformed()) << text;
    EXPECT_FALSE(reader.next()) << text;
  }
}

TEST(CsvReader, TextAfterAClosingQuoteIsKeptAndMalformed) {
  CsvReader reader("a,b\n\"x\"y,2\n\"1\"\r\n", "a.csv");
  ASSERT_TRUE(reader.next());
  EXPECT_TRUE(reader.malformed());
  EXPECT_THAT(reader.fields(), ElementsAre("xy", "2"));
  ASSERT_TRUE(reader.next());
  EXPECT_FALSE(reader.malformed());
}

TEST(CsvReader, WithoutUsableHeaderThrows) {
  for (const std::string_view text : {"", "\n\r\n\n", "\xef\xbb\xbf"}) {
    EXPECT_THAT(read_error(text), HasSubstr("a.csv: has no header line\n  fix: "));
  }
  EXPECT_THAT(read_error("\n\"a,b\n1,2\n"), HasSubstr("a.csv:2: the header has a quote that is not closed"));
}

/// Letters that matter to CSV, often; any others, sometimes.
rc::Gen<std::string> any_field() {
  return rc::gen::container<std::string>(rc::gen::weightedOneOf<char>(
      {{3, rc::gen::element(',', '"', '\r', '\n', ' ', 'a', '\xef', '\xbb', '\xbf')},
       {1, rc::gen::arbitrary<char>()}}));
}

RC_GTEST_PROP(CsvProperty, WriteThenReadIsTheIdentity, ()) {
  const auto columns = *rc::gen::inRange<std::size_t>(1, 5);
  const auto rows =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<Row>>(rc::gen::container<Row>(columns, any_field())));
  std::string text;
  for (const Row& row : rows) text += csv_row(row);
  RC_ASSERT(read_rows(text) == rows);
  text.pop_back();
  RC_ASSERT(read_rows(text) == rows);
}

RC_GTEST_PROP(CsvProperty, AnyTextIsReadToItsEnd, ()) {
  const std::string text = *any_field();
  try {
    CsvReader reader(text, "a.csv");
    std::uint64_t line = reader.line();
    while (reader.next()) {
      RC_ASSERT(!reader.fields().empty());
      RC_ASSERT(reader.line() > line);
      line = reader.line();
    }
  } catch (const InputError&) {
    // No header, or a broken one.
  }
}

TEST(ParseInt, TakesTheWholeField) {
  EXPECT_EQ(parse_int("42"), 42);
  EXPECT_EQ(parse_int(" -7\t"), -7);
  EXPECT_EQ(parse_int("+8"), 8);
  EXPECT_EQ(parse_int("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(parse_int("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
  for (const std::string_view wrong :
       {"", " ", "+", "-", "+-1", "++1", "1 2", "1.0", "1e3", "0x10", "x", "9223372036854775808", "1\n"}) {
    EXPECT_EQ(parse_int(wrong), std::nullopt) << "\"" << wrong << "\"";
  }
}

TEST(ParseDouble, TakesTheWholeField) {
  EXPECT_EQ(parse_double("1.5"), 1.5);
  EXPECT_EQ(parse_double(" +2e3 "), 2000.0);
  EXPECT_EQ(parse_double("-.5"), -0.5);
  EXPECT_EQ(parse_double("5."), 5.0);
  EXPECT_TRUE(std::isnan(parse_double("nan").value_or(0)));
  EXPECT_EQ(parse_double("-inf"), -std::numeric_limits<double>::infinity());
  for (const std::string_view wrong : {"", " ", "+", "+-1", "1,5", "1.5x", "0x10", "1e", "1e999", "."}) {
    EXPECT_EQ(parse_double(wrong), std::nullopt) << "\"" << wrong << "\"";
  }
}

TEST(CsvNumber, IsShort) {
  EXPECT_EQ(csv_number(0.1), "0.1");
  EXPECT_EQ(csv_number(1000), "1000");
  EXPECT_EQ(csv_number(-2.2250738585072014e-308), "-2.2250738585072014e-308");
}

RC_GTEST_PROP(CsvProperty, NumbersAreReadBackExactly, (double value)) {
  RC_ASSERT(parse_double(csv_number(value)) == value);
}

}  // namespace
}  // namespace prism
