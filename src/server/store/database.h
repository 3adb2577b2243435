// database.h: one SQLite database and the statements on it.
//
// Opened so that only this process uses it, and so that what was committed stays whatever happens to the process or the
// machine (write-ahead log, synced at every commit). An open transaction that is dropped is taken back.
// Units:   bytes of UTF-8 or, as Blob, of anything.
// Threads: one at a time (DataStore sees to that).
// Fails:   unavailable, code "storage_unavailable" (it cannot be written, or another process has it) or "storage_full";
//          bad_file when it is no database of ours. Messages name the folder and --data-dir.
// Source:  SQLite's C interface.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "espalier/error.h"

struct sqlite3;
struct sqlite3_stmt;

namespace espalier::server {

// Bytes that are no text.
struct Blob {
  std::string_view bytes;
};

// A statement under way; its rows come one by one.
class Statement {
 public:
  Result<bool> next();  // true: a row is there
  std::int64_t integer(int column) const;
  std::string text(int column) const;  // "" for null; of a blob its bytes
  bool is_null(int column) const;

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  Statement(class Database& database, sqlite3_stmt* statement) : database_(&database), statement_(statement) {}
  void bind(int place, std::int64_t value);
  void bind(int place, std::string_view text);
  void bind(int place, Blob blob);
  void bind(int place, std::nullptr_t);

  class Database* database_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

// An open database.
class Database {
 public:
  // `folder` holds the file; `most_bytes`: it does not grow beyond.
  static Result<Database> open(const std::string& folder, std::int64_t most_bytes);

  template <class... Values>
  Result<Statement> query(std::string_view sql, const Values&... values) {
    ESP_TRY(Statement statement, prepare(sql));
    int place = 0;
    (statement.bind(++place, plain(values)), ...);
    return statement;
  }
  // How many rows it changed.
  template <class... Values>
  Result<std::int64_t> run(std::string_view sql, const Values&... values) {
    ESP_TRY(Statement statement, query(sql, values...));
    ESP_CHECK(statement.next());
    return changes();
  }
  Result<> script(const char* sql);  // several statements without values
  Error error() const;               // of the last call that failed

 private:
  struct Close {
    void operator()(sqlite3* connection) const;
  };
  Database(std::string folder, sqlite3* connection) : folder_(std::move(folder)), connection_(connection) {}
  Result<Statement> prepare(std::string_view sql);
  Result<> begin_use(std::int64_t most_bytes);
  std::int64_t changes() const;

  template <class Value>
  static auto plain(const Value& value) {
    if constexpr (std::is_integral_v<Value>)
      return static_cast<std::int64_t>(value);
    else if constexpr (std::is_convertible_v<Value, std::string_view>)
      return std::string_view(value);
    else
      return value;
  }

  std::string folder_;
  std::unique_ptr<sqlite3, Close> connection_;
};

// Statements that hold together or not at all: commit() makes them last.
class Transaction {
 public:
  static Result<Transaction> begin(Database& database);
  Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  Result<> commit();

 private:
  explicit Transaction(Database& database) : database_(&database) {}
  Database* database_;  // null: it has ended
};

}  // namespace espalier::server
