// SPDX-License-Identifier: Apache-2.0
#include "prism/io/sqlite.hpp"

#include <array>
#include <cassert>
#include <new>
#include <stdexcept>
#include <system_error>

#include <sqlite3.h>

#include "prism/io/bytes.hpp"
#include "prism/trace/error.hpp"

namespace prism {

namespace {

constexpr std::string_view kMagic("SQLite format 3\0", 16);

std::string likely_fix(int code) {
  switch (code & 0xff) {
    case SQLITE_NOTADB:
      return "give a SQLite file";
    case SQLITE_CORRUPT:
      return "export or copy the file again; it is incomplete or damaged";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return "wait until the program that writes it has finished";
    case SQLITE_CANTOPEN:
      return "copy the file to a directory that you may write to";
    case SQLITE_ERROR:
      return "the tables are not those expected; export the file again with a supported version";
    default:
      return {};
  }
}

[[noreturn]] void fail(sqlite3* database, int code, const std::string& file) {
  if (code == SQLITE_NOMEM) throw std::bad_alloc();
  const std::string problem = database ? sqlite3_errmsg(database) : sqlite3_errstr(code);
  const bool writing = database && sqlite3_db_readonly(database, "main") == 0;
  if (writing) throw std::runtime_error(file + ": " + problem);
  throw InputError({file, {}, {}}, problem, likely_fix(code));
}

/// Of a database that starts with `head`; 0 if that is too short. Stored in bytes 16 and 17, where 1 stands
/// for 65536.
std::size_t page_size(std::string_view head) {
  if (head.size() < kMagic.size() + 2) return 0;
  const auto byte = [&](std::size_t at) { return std::size_t{static_cast<unsigned char>(head[at])}; };
  const std::size_t stored = byte(16) << 8 | byte(17);
  return stored == 1 ? 65536 : stored;
}

struct Limit {
  int id;
  int value;
};

/// What sqlite.org/security.html advises for files from elsewhere, without the limits that a trace could
/// meet.
void distrust(sqlite3* database) {
  sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  constexpr std::array<Limit, 6> kLimits = {{{SQLITE_LIMIT_SQL_LENGTH, 100'000},
                                             {SQLITE_LIMIT_EXPR_DEPTH, 100},
                                             {SQLITE_LIMIT_VDBE_OP, 25'000},
                                             {SQLITE_LIMIT_ATTACHED, 0},
                                             {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 50},
                                             {SQLITE_LIMIT_TRIGGER_DEPTH, 10}}};
  for (const Limit& limit : kLimits) sqlite3_limit(database, limit.id, limit.value);
}

}  // namespace

bool is_sqlite(std::string_view first_bytes) {
  return first_bytes.starts_with(kMagic);
}

void Statement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

void Statement::check(int code) const {
  if (code != SQLITE_OK) fail(sqlite3_db_handle(handle_.get()), code, file_);
}

void Statement::bind_int(int index, std::int64_t value) {
  check(sqlite3_bind_int64(handle_.get(), index, value));
}

void Statement::bind_double(int index, double value) {
  check(sqlite3_bind_double(handle_.get(), index, value));
}

// SQLite takes a null pointer for NULL, and an empty view may have one.
void Statement::bind_text(int index, std::string_view value) {
  const char* const text = value.empty() ? "" : value.data();
  check(sqlite3_bind_text64(handle_.get(), index, text, value.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
}

void Statement::bind_blob(int index, std::string_view value) {
  const char* const bytes = value.empty() ? "" : value.data();
  check(sqlite3_bind_blob64(handle_.get(), index, bytes, value.size(), SQLITE_TRANSIENT));
}

void Statement::bind_null(int index) {
  check(sqlite3_bind_null(handle_.get(), index));
}

bool Statement::step() {
  const int code = sqlite3_step(handle_.get());
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) check(code);
  return false;
}

// An error that sqlite3_reset repeats was thrown by step().
void Statement::reset() {
  sqlite3_reset(handle_.get());
}

int Statement::column_count() const {
  return sqlite3_column_count(handle_.get());
}

SqlType Statement::column_type(int index) const {
  switch (sqlite3_column_type(handle_.get(), index)) {
    case SQLITE_INTEGER:
      return SqlType::Integer;
    case SQLITE_FLOAT:
      return SqlType::Real;
    case SQLITE_TEXT:
      return SqlType::Text;
    case SQLITE_BLOB:
      return SqlType::Blob;
    default:
      return SqlType::Null;
  }
}

std::int64_t Statement::column_int(int index) const {
  return sqlite3_column_int64(handle_.get(), index);
}

double Statement::column_double(int index) const {
  return sqlite3_column_double(handle_.get(), index);
}

std::string Statement::column_text(int index) const {
  // The size must be asked for after the text, which may convert the value.
  const unsigned char* const text = sqlite3_column_text(handle_.get(), index);
  const int size = sqlite3_column_bytes(handle_.get(), index);
  if (!text) return {};
  return {reinterpret_cast<const char*>(text), static_cast<std::size_t>(size)};
}

std::string Statement::column_blob(int index) const {
  const void* const bytes = sqlite3_column_blob(handle_.get(), index);
  const int size = sqlite3_column_bytes(handle_.get(), index);
  if (!bytes) return {};
  return {static_cast<const char*>(bytes), static_cast<std::size_t>(size)};
}

void Database::Close::operator()(sqlite3* database) const {
  sqlite3_close_v2(database);
}

Database::Database(const std::filesystem::path& path, int flags) : file_(path.string()) {
  // Absolute, since SQLite gives names such as ":memory:" and "file:..." a meaning.
  const std::string absolute = std::filesystem::absolute(path).string();
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(absolute.c_str(), &handle, flags, nullptr);
  handle_.reset(handle);
  const bool creating = (flags & SQLITE_OPEN_CREATE) != 0;
  if (code != SQLITE_OK && code != SQLITE_NOMEM && creating) {
    throw std::runtime_error(file_ + ": " + sqlite3_errmsg(handle));
  }
  check(code);
}

void Database::check(int code) const {
  if (code != SQLITE_OK) fail(handle_.get(), code, file_);
}

Database Database::open(const std::filesystem::path& path) {
  const std::string head = read_first_bytes(path, kMagic.size() + 2);
  if (!is_sqlite(head)) {
    throw InputError({path.string(), {}, {}}, "is not a SQLite database", likely_fix(SQLITE_NOTADB));
  }
  // SQLite itself finds whole pages missing, but reads a page that is cut as if it ended with zeros.
  const std::size_t page_bytes = page_size(head);
  if (page_bytes == 0 || std::filesystem::file_size(path) % page_bytes != 0) {
    throw InputError({path.string(), {}, {}}, "SQLite database is cut short", likely_fix(SQLITE_CORRUPT));
  }
  Database database(path, SQLITE_OPEN_READONLY);
  distrust(database.handle_.get());
  // Counting the schema makes SQLite read the file's header, so that damage is found here.
  database.exec(
      "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA mmap_size=0;"
      "SELECT count(*) FROM sqlite_schema");
  return database;
}

Database Database::create(const std::filesystem::path& path) {
  std::error_code absent;
  const std::uintmax_t size = std::filesystem::file_size(path, absent);
  if (!absent && size > 0) throw std::runtime_error(path.string() + ": exists and is not empty");
  Database database(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  // AtomicFile makes the whole file appear or not, so SQLite need not; rolling back still works.
  database.exec("PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF");
  return database;
}

void Database::exec(const std::string& sql) {
  check(sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr));
}

Statement Database::prepare(std::string_view sql) {
  sqlite3_stmt* handle = nullptr;
  const int code =
      sqlite3_prepare_v2(handle_.get(), sql.data(), static_cast<int>(sql.size()), &handle, nullptr);
  Statement statement(handle, file_);
  check(code);
  return statement;
}

Transaction::Transaction(Database& database) : database_(database) {
  database_.exec("BEGIN");
}

Transaction::~Transaction() {
  if (!committed_) sqlite3_exec(database_.handle_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
}

void Transaction::commit() {
  assert(!committed_);
  database_.exec("COMMIT");
  committed_ = true;
}

}  // namespace prism
