// SPDX-License-Identifier: Apache-2.0
#include "prism/io/sqlite.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "prism/io/atomic_file.hpp"
#include "prism/io/test_dir.hpp"
#include "prism/trace/error.hpp"

namespace prism {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A database with 200 rows over some ten pages.
std::filesystem::path sample(const TestDir& dir) {
  std::filesystem::path path = dir.path("sample.db");
  Database database = Database::create(path);
  Transaction transaction(database);
  database.exec(
      "CREATE TABLE op(id INTEGER PRIMARY KEY, name TEXT, duration REAL); CREATE INDEX n ON op(name)");
  Statement insert = database.prepare("INSERT INTO op VALUES(?1, ?2, ?3)");
  for (int id = 0; id < 200; ++id) {
    insert.bind_int(1, id);
    insert.bind_text(2, std::string(100, 'k') + std::to_string(id));
    insert.bind_double(3, id / 2.0);
    EXPECT_FALSE(insert.step());
    insert.reset();
  }
  transaction.commit();
  return path;
}

std::int64_t read_all(const std::filesystem::path& path) {
  Database database = Database::open(path);
  Statement rows = database.prepare("SELECT id, name, duration FROM op WHERE name > 'a' ORDER BY name");
  std::int64_t count = 0;
  while (rows.step()) count += rows.column_text(1).empty() ? 0 : 1;
  return count;
}

std::string read_error(const std::filesystem::path& path) {
  return thrown<InputError>([&] { (void)read_all(path); });
}

TEST(Sqlite, IsKnownByItsFirstBytes) {
  const TestDir dir;
  (void)sample(dir);
  EXPECT_TRUE(is_sqlite(dir.content("sample.db")));
  EXPECT_FALSE(is_sqlite("SQLite format 3"));
  EXPECT_FALSE(is_sqlite(""));
}

TEST(Sqlite, ValuesOfEveryTypeComeBack) {
  const TestDir dir;
  const std::string blob("\0\xff\x01\0", 4);
  const std::string text("a\0b\xc3\xa9", 5);
  {
    Database database = Database::create(dir.path("a.db"));
    database.exec("CREATE TABLE t(i, d, t, b, n, et, eb)");
    Statement insert = database.prepare("INSERT INTO t VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)");
    insert.bind_int(1, std::numeric_limits<std::int64_t>::min());
    insert.bind_double(2, 0.1);
    insert.bind_text(3, text);
    insert.bind_blob(4, blob);
    insert.bind_null(5);
    insert.bind_text(6, {});
    insert.bind_blob(7, {});
    EXPECT_FALSE(insert.step());
  }
  Database database = Database::open(dir.path("a.db"));
  Statement row = database.prepare("SELECT * FROM t");
  ASSERT_TRUE(row.step());
  ASSERT_EQ(row.column_count(), 7);
  constexpr std::array kTypes = {SqlType::Integer, SqlType::Real, SqlType::Text, SqlType::Blob,
                                 SqlType::Null,    SqlType::Text, SqlType::Blob};
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(row.column_type(i), kTypes[static_cast<std::size_t>(i)]) << "column " << i;
  }
  EXPECT_EQ(row.column_int(0), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(row.column_double(1), 0.1);
  EXPECT_EQ(row.column_text(2), text);
  EXPECT_EQ(row.column_blob(3), blob);
  EXPECT_TRUE(row.is_null(4));
  EXPECT_EQ(row.column_text(4), "");
  EXPECT_EQ(row.column_text(5), "");
  EXPECT_EQ(row.column_blob(6), "");
  EXPECT_FALSE(row.step());
}

RC_GTEST_PROP(SqliteProperty, BlobsComeBack, (const std::string& bytes)) {
  const TestDir dir;
  const std::filesystem::path path = dir.path("a.db");
  {
    Database database = Database::create(path);
    database.exec("CREATE TABLE t(b BLOB)");
    Statement insert = database.prepare("INSERT INTO t VALUES(?1)");
    insert.bind_blob(1, bytes);
    RC_ASSERT(!insert.step());
  }
  Database database = Database::open(path);
  Statement row = database.prepare("SELECT b FROM t");
  RC_ASSERT(row.step());
  RC_ASSERT(row.column_blob(0) == bytes);
}

TEST(Sqlite, ParametersStayBoundAfterReset) {
  const TestDir dir;
  Database database = Database::open(sample(dir));
  Statement query = database.prepare("SELECT duration FROM op WHERE id = ?1");
  query.bind_int(1, 7);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(query.step());
    EXPECT_EQ(query.column_double(0), 3.5);
    query.reset();
  }
  query.bind_int(1, 1000);
  EXPECT_FALSE(query.step());
}

TEST(Sqlite, TransactionIsUndoneUnlessCommitted) {
  const TestDir dir;
  Database database = Database::create(dir.path("a.db"));
  database.exec("CREATE TABLE t(x)");
  {
    const Transaction undone(database);
    database.exec("INSERT INTO t VALUES(1)");
  }
  {
    Transaction kept(database);
    database.exec("INSERT INTO t VALUES(2)");
    kept.commit();
  }
  Statement rows = database.prepare("SELECT x FROM t");
  ASSERT_TRUE(rows.step());
  EXPECT_EQ(rows.column_int(0), 2);
  EXPECT_FALSE(rows.step());
}

TEST(Sqlite, IsWrittenIntoAnAtomicFile) {
  const TestDir dir;
  AtomicFile file(dir.path("a.db"));
  {
    Database database = Database::create(file.temporary());
    database.exec("CREATE TABLE op(id, name, duration); INSERT INTO op VALUES(1, 'x', 2)");
  }
  file.commit();
  EXPECT_EQ(read_all(dir.path("a.db")), 1);
  EXPECT_THAT(dir.names(), ElementsAre("a.db"));
}

TEST(Sqlite, UnusableFilesAreNamedWithAFix) {
  const TestDir dir;
  EXPECT_THAT(read_error(dir.path("none.db")), HasSubstr("none.db: does not exist\n  fix: "));
  EXPECT_THAT(read_error(dir.path()), HasSubstr("is a directory"));
  EXPECT_THAT(read_error(dir.file("empty.db", "")), HasSubstr("empty.db: is empty"));
  EXPECT_THAT(read_error(dir.file("text.db", "rank,step\n1,2\n")),
              HasSubstr("text.db: is not a SQLite database\n  fix: "));
  const std::string garbage =
      std::string("SQLite format 3\0", 16) + std::string("\x10\0", 2) + std::string(8192 - 18, 'x');
  EXPECT_THAT(read_error(dir.file("garbage.db", garbage)),
              HasSubstr("garbage.db: file is not a database\n  fix: "));
}

TEST(Sqlite, CutDatabaseIsFound) {
  const TestDir dir;
  const std::filesystem::path path = sample(dir);
  EXPECT_EQ(read_all(path), 200);
  const std::string whole = dir.content("sample.db");
  ASSERT_GT(whole.size(), 5 * 4096U);
  for (std::size_t size = 16; size < whole.size(); size += 499) {
    SCOPED_TRACE("cut at byte " + std::to_string(size) + " of " + std::to_string(whole.size()));
    const std::string message = read_error(dir.file("cut.db", whole.substr(0, size)));
    EXPECT_THAT(message, AllOf(HasSubstr("cut.db: "), HasSubstr("fix: ")));
  }
}

TEST(Sqlite, DamagedPagesThrowOrAreHarmless) {
  const TestDir dir;
  (void)sample(dir);
  const std::string whole = dir.content("sample.db");
  for (std::size_t at = 16; at < whole.size(); at += 37) {
    std::string damaged = whole;
    for (std::size_t i = at; i < std::min(at + 8, whole.size()); ++i)
      damaged[i] = static_cast<char>(~damaged[i]);
    const std::filesystem::path path = dir.file("damaged.db", damaged);
    try {
      EXPECT_LE(read_all(path), 200) << "damaged at byte " << at;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("damaged.db: ")) << "damaged at byte " << at;
    }
  }
}

TEST(Sqlite, MissingTableIsAnInputErrorWhenReading) {
  const TestDir dir;
  Database database = Database::open(sample(dir));
  EXPECT_THAT(thrown<InputError>([&] { (void)database.prepare("SELECT * FROM kernel"); }),
              AllOf(HasSubstr("sample.db: no such table: kernel"), HasSubstr("fix: ")));
}

TEST(Sqlite, DatabaseForReadingCannotBeChanged) {
  const TestDir dir;
  Database database = Database::open(sample(dir));
  EXPECT_THAT(thrown<InputError>([&] { database.exec("DELETE FROM op"); }), HasSubstr("readonly"));
}

TEST(Sqlite, ViewsOfAFileDoNotRun) {
  const TestDir dir;
  Database::create(dir.path("a.db")).exec("CREATE TABLE t(x); CREATE VIEW op AS SELECT x FROM t");
  Database database = Database::open(dir.path("a.db"));
  EXPECT_THAT(thrown<InputError>([&] { (void)database.prepare("SELECT * FROM op"); }), HasSubstr("view"));
}

TEST(Sqlite, ErrorsWhileWritingAreNotInputErrors) {
  const TestDir dir;
  const auto written = [](auto&& action) {
    const std::string as_input = thrown<InputError>(action);
    EXPECT_THAT(as_input, HasSubstr("(another exception)"));
    return thrown<std::runtime_error>(action);
  };
  EXPECT_THAT(written([&] { (void)Database::create(dir.path("none") / "a.db"); }), HasSubstr("none/a.db: "));
  EXPECT_THAT(written([&] { (void)Database::create(dir.file("full", "x")); }),
              HasSubstr("full: exists and is not empty"));
  Database database = Database::create(dir.path("a.db"));
  EXPECT_THAT(written([&] { database.exec("INSERT INTO none VALUES(1)"); }), HasSubstr("no such table"));
  database.exec("CREATE TABLE t(x UNIQUE); INSERT INTO t VALUES(1)");
  Statement insert = database.prepare("INSERT INTO t VALUES(1)");
  EXPECT_THAT(written([&] {
                insert.reset();
                (void)insert.step();
              }),
              HasSubstr("UNIQUE"));
}

}  // namespace
}  // namespace prism
