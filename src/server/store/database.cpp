#include "server/store/database.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace espalier::server {
namespace {

constexpr const char* kFileName = "espalier.db";
constexpr int kSchemaVersion = 1;

// responses: body is the answer without its output; request: of one that runs in the background, to run it again;
// events: of a streamed one, as they were sent; kept: its tokens (responses/kept_tokens.h).
// items: what a response was given (part 0) and gave (part 1), and what a conversation holds (part 0).
// chats: stored chat completions, with the messages that they answer.
// batch_results: lines of the output (ok 1) and error (ok 0) files of a batch under way.
constexpr const char* kSchema = R"(
CREATE TABLE IF NOT EXISTS responses(id TEXT PRIMARY KEY, owner TEXT NOT NULL, created INTEGER NOT NULL,
  status TEXT NOT NULL, previous TEXT, conversation TEXT, body TEXT NOT NULL, request TEXT, events TEXT, kept TEXT);
CREATE INDEX IF NOT EXISTS unfinished_responses ON responses(created) WHERE request IS NOT NULL;
CREATE TABLE IF NOT EXISTS items(parent TEXT NOT NULL, part INTEGER NOT NULL, position INTEGER NOT NULL,
  id TEXT NOT NULL, owner TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY(parent, part, position)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS items_by_id ON items(id);
CREATE INDEX IF NOT EXISTS responses_of_conversation ON responses(conversation) WHERE conversation <> '';
CREATE TABLE IF NOT EXISTS conversations(id TEXT PRIMARY KEY, owner TEXT NOT NULL, created INTEGER NOT NULL,
  metadata TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS chats(id TEXT PRIMARY KEY, owner TEXT NOT NULL, created INTEGER NOT NULL, body TEXT NOT NULL,
  messages TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS chats_by_owner ON chats(owner);
CREATE TABLE IF NOT EXISTS files(id TEXT PRIMARY KEY, owner TEXT NOT NULL, created INTEGER NOT NULL, expires INTEGER,
  bytes INTEGER NOT NULL, filename TEXT NOT NULL, purpose TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS files_by_owner ON files(owner, created);
CREATE TABLE IF NOT EXISTS chunks(file TEXT NOT NULL, position INTEGER NOT NULL, data BLOB NOT NULL,
  PRIMARY KEY(file, position));
CREATE TABLE IF NOT EXISTS batches(id TEXT PRIMARY KEY, owner TEXT NOT NULL, created INTEGER NOT NULL,
  status TEXT NOT NULL, body TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS batches_by_owner ON batches(owner, created);
CREATE TABLE IF NOT EXISTS batch_results(batch TEXT NOT NULL, line INTEGER NOT NULL, ok INTEGER NOT NULL,
  text TEXT NOT NULL, PRIMARY KEY(batch, line)) WITHOUT ROWID;
)";

Error folder_error(const std::string& folder, std::string_view why) {
  return {Error::Kind::unavailable,
          fmt::format("the data folder {} cannot be written ({}); name another one with --data-dir, or send \"store\": "
                      "false",
                      folder, why),
          {},
          "storage_unavailable"};
}

}  // namespace

void Statement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}
void Database::Close::operator()(sqlite3* connection) const {
  sqlite3_close_v2(connection);
}

Result<bool> Statement::next() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return database_->error();
}

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::string Statement::text(int column) const {
  const void* data = sqlite3_column_blob(statement_.get(), column);
  const int bytes = sqlite3_column_bytes(statement_.get(), column);
  return data == nullptr ? std::string() : std::string(static_cast<const char*>(data), static_cast<std::size_t>(bytes));
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

void Statement::bind(int place, std::int64_t value) {
  sqlite3_bind_int64(statement_.get(), place, value);
}
void Statement::bind(int place, std::string_view text) {
  const char* data = text.data() == nullptr ? "" : text.data();
  sqlite3_bind_text64(statement_.get(), place, data, text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
}
void Statement::bind(int place, Blob blob) {
  const char* data = blob.bytes.data() == nullptr ? "" : blob.bytes.data();
  sqlite3_bind_blob64(statement_.get(), place, data, blob.bytes.size(), SQLITE_TRANSIENT);
}
void Statement::bind(int place, std::nullptr_t) {
  sqlite3_bind_null(statement_.get(), place);
}

Result<Database> Database::open(const std::string& folder, std::int64_t most_bytes) {
  std::error_code failed;
  const std::filesystem::path path(folder);
  if (!std::filesystem::is_directory(path, failed)) {
    std::filesystem::create_directories(path, failed);
    if (failed) return folder_error(folder, failed.message());
    std::filesystem::permissions(path, std::filesystem::perms::owner_all, failed);  // what users say is theirs
  }
  sqlite3* connection = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;
  const int code = sqlite3_open_v2((path / kFileName).c_str(), &connection, flags, nullptr);
  Database database(folder, connection);  // also of a failed call: it has to be closed
  if (code != SQLITE_OK) return folder_error(folder, sqlite3_errstr(code));
  ESP_CHECK(database.begin_use(most_bytes));
  return database;
}

// In exclusive mode the lock lasts as long as the process, whose end, however it comes, gives it back.
Result<> Database::begin_use(std::int64_t most_bytes) {
  ESP_CHECK(
      script("PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA fullfsync=ON; "
             "BEGIN IMMEDIATE"));
  std::int64_t version = 0, page_bytes = 4096;
  {
    ESP_TRY(Statement asked, query("PRAGMA user_version"));
    ESP_TRY(const bool there, asked.next());
    if (there) version = asked.integer(0);
  }
  if (version > kSchemaVersion) {
    return bad_file(
        fmt::format("the data folder {} was written by a newer version of this program; name another one "
                    "with --data-dir",
                    folder_));
  }
  ESP_CHECK(script(kSchema));
  ESP_CHECK(script(fmt::format("PRAGMA user_version={}; COMMIT", kSchemaVersion).c_str()));
  {
    ESP_TRY(Statement asked, query("PRAGMA page_size"));
    ESP_TRY(const bool there, asked.next());
    if (there) page_bytes = std::max<std::int64_t>(asked.integer(0), 512);
  }
  return script(fmt::format("PRAGMA max_page_count={}", std::max<std::int64_t>(most_bytes / page_bytes, 1)).c_str());
}

Result<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(connection_.get(), sql.data(), static_cast<int>(sql.size()), &statement, nullptr) != SQLITE_OK)
    return error();
  return Statement(*this, statement);
}

Result<> Database::script(const char* sql) {
  if (sqlite3_exec(connection_.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK) return error();
  return success();
}

std::int64_t Database::changes() const {
  return sqlite3_changes64(connection_.get());
}

Error Database::error() const {
  switch (sqlite3_errcode(connection_.get()) & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return folder_error(folder_, "another server uses it");
    case SQLITE_FULL:
      return {Error::Kind::unavailable,
              fmt::format("the data folder {} is full; delete stored responses or files, or give more room with "
                          "--max-data",
                          folder_),
              {},
              "storage_full"};
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return bad_file(fmt::format("{}/{} is not a database of this program ({}); name another folder with --data-dir",
                                  folder_, kFileName, sqlite3_errmsg(connection_.get())));
    case SQLITE_NOMEM:
      return {Error::Kind::out_of_memory, "not enough memory for what is stored", {}, {}};
    case SQLITE_TOOBIG:
      return {Error::Kind::too_large, "it is too large to be stored", {}, {}};
    case SQLITE_ERROR:
    case SQLITE_MISUSE:
    case SQLITE_CONSTRAINT:
      return internal_error(fmt::format("the data base refused a statement: {}", sqlite3_errmsg(connection_.get())));
    default:
      return folder_error(folder_, sqlite3_errmsg(connection_.get()));
  }
}

Result<Transaction> Transaction::begin(Database& database) {
  ESP_CHECK(database.script("BEGIN IMMEDIATE"));
  return Transaction(database);
}

Transaction::~Transaction() {
  if (database_ != nullptr) (void)database_->script("ROLLBACK");
}

Result<> Transaction::commit() {
  ESP_CHECK(database_->script("COMMIT"));
  database_ = nullptr;
  return success();
}

}  // namespace espalier::server
