// SPDX-License-Identifier: Apache-2.0
// SQLite databases: profiler exports that we read, model files that we write and read.
//
// A file that we read may be hostile or damaged: it is opened read-only, its schema is not trusted, its views
// and triggers do not run, and every error is an InputError with the file. Errors while writing are
// std::runtime_error.
//
//   Database database = Database::open("report.sqlite");
//   Statement kernels = database.prepare("SELECT start, end FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE deviceId =
//   ?1"); kernels.bind_int(1, device); while (kernels.step()) use(kernels.column_int(0),
//   kernels.column_int(1));
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

struct sqlite3;
struct sqlite3_stmt;

namespace prism {

/// Whether a file that starts with these bytes (16 are needed) is a SQLite database.
[[nodiscard]] bool is_sqlite(std::string_view first_bytes);

enum class SqlType { Integer, Real, Text, Blob, Null };

/// A prepared statement; must not be used after its database is gone. Errors are thrown as Database says.
class Statement {
 public:
  /// Binds a value to parameter `index`, from 1; values are copied and stay bound after reset().
  void bind_int(int index, std::int64_t value);
  void bind_double(int index, double value);
  void bind_text(int index, std::string_view value);
  void bind_blob(int index, std::string_view value);
  void bind_null(int index);

  /// Runs to the next row; false when there is none. Call reset() before running it again.
  bool step();

  /// Makes the statement ready to run from the start.
  void reset();

  /// Number of columns of a row.
  [[nodiscard]] int column_count() const;

  /// Type of the value in column `index`, from 0; SQLite does not tie it to the declared type.
  [[nodiscard]] SqlType column_type(int index) const;
  [[nodiscard]] bool is_null(int index) const { return column_type(index) == SqlType::Null; }

  /// The value in column `index`, from 0, of the row that step() found; of another type: converted as SQLite
  /// does (NULL and text that is no number become 0, NULL the empty string).
  [[nodiscard]] std::int64_t column_int(int index) const;
  [[nodiscard]] double column_double(int index) const;
  [[nodiscard]] std::string column_text(int index) const;
  [[nodiscard]] std::string column_blob(int index) const;

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };

  Statement(sqlite3_stmt* handle, std::string file) : handle_(handle), file_(std::move(file)) {}
  void check(int code) const;

  std::unique_ptr<sqlite3_stmt, Finalize> handle_;
  std::string file_;
};

/// An open database file. Reading throws InputError with the file, writing std::runtime_error.
class Database {
 public:
  /// Opens an existing database for reading; with the guards against hostile files of this file's head.
  ///
  /// Throws InputError if it does not exist, must not be read, or is not a SQLite database, is damaged or cut
  /// short.
  static Database open(const std::filesystem::path& path);

  /// Creates a database in a file that does not exist or is empty (AtomicFile::temporary()).
  ///
  /// Nothing is flushed to disk until the file is closed and AtomicFile::commit() is called. Throws
  /// std::runtime_error.
  static Database create(const std::filesystem::path& path);

  /// Runs statements separated by ';', ignoring their rows.
  void exec(const std::string& sql);

  /// Compiles one statement.
  [[nodiscard]] Statement prepare(std::string_view sql);

  /// The file as named by the caller.
  [[nodiscard]] const std::string& file() const { return file_; }

 private:
  friend class Transaction;
  struct Close {
    void operator()(sqlite3* database) const;
  };

  Database(const std::filesystem::path& path, int flags);
  void check(int code) const;

  std::string file_;
  std::unique_ptr<sqlite3, Close> handle_;
};

/// Many writes as one, which is also far faster; undone at the end of the scope unless committed.
class Transaction {
 public:
  explicit Transaction(Database& database);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  /// Keeps the writes; at most once. Throws std::runtime_error.
  void commit();

 private:
  Database& database_;
  bool committed_ = false;
};

}  // namespace prism
