#include "server/files/file_store.h"

#include <fmt/format.h>

#include "server/answer/call_id.h"
#include "server/store/data_store.h"

namespace espalier::server {
namespace {

constexpr std::size_t kChunkBytes = 4 << 20;
constexpr const char* kColumns = "SELECT id, bytes, created, expires, filename, purpose FROM files ";

Error no_file(std::string_view id) {
  return {Error::Kind::not_found, fmt::format("there is no file {}", in_quotes(id, 80)), "file_id", "file_not_found"};
}

Json file_of(const Statement& row) {
  Json file = {{"id", row.text(0)}, {"object", "file"}, {"bytes", row.integer(1)}, {"created_at", row.integer(2)}};
  file["expires_at"] = row.is_null(3) ? Json(nullptr) : Json(row.integer(3));
  file["filename"] = row.text(4);
  file["purpose"] = row.text(5);
  file["status"] = "processed";
  return file;
}

Result<> forget_expired(Database& data) {
  const std::int64_t now = seconds_now();
  {
    ESP_TRY(Statement row, data.query("SELECT 1 FROM files WHERE expires < ? LIMIT 1", now));
    ESP_TRY(const bool some, row.next());
    if (!some) return success();
  }
  ESP_TRY(Transaction all, Transaction::begin(data));
  ESP_CHECK(data.run("DELETE FROM chunks WHERE file IN (SELECT id FROM files WHERE expires < ?)", now));
  ESP_CHECK(data.run("DELETE FROM files WHERE expires < ?", now));
  return all.commit();
}

}  // namespace

Result<Json> add_file(Database& data, const NewFile& file) {
  ESP_CHECK(forget_expired(data));
  const std::string id = new_call_id("file-");
  const std::int64_t now = seconds_now();
  ESP_TRY(Transaction all, Transaction::begin(data));
  ESP_CHECK(data.run(
      "INSERT INTO files(id, owner, created, expires, bytes, filename, purpose) VALUES(?, ?, ?, NULLIF(?, "
      "0), ?, ?, ?)",
      id, file.owner, now, file.seconds ? now + *file.seconds : 0, file.content.size(), file.filename, file.purpose));
  for (std::size_t at = 0, chunk = 0; at < file.content.size(); at += kChunkBytes, ++chunk) {
    ESP_CHECK(data.run("INSERT INTO chunks(file, position, data) VALUES(?, ?, ?)", id, chunk,
                       Blob{file.content.substr(at, kChunkBytes)}));
  }
  ESP_CHECK(all.commit());
  return load_file(data, id, file.owner);
}

Result<Json> load_file(Database& data, std::string_view id, std::string_view owner) {
  ESP_CHECK(forget_expired(data));
  ESP_TRY(Statement row, data.query(std::string(kColumns) + "WHERE id = ? AND owner = ?", id, owner));
  ESP_TRY(const bool there, row.next());
  if (!there) return no_file(id);
  return file_of(row);
}

Result<std::vector<Json>> list_files(Database& data, std::string_view owner, std::string_view purpose) {
  ESP_CHECK(forget_expired(data));
  ESP_TRY(Statement rows, data.query(std::string(kColumns) + "WHERE owner = ?1 AND (?2 = '' OR purpose = ?2) ORDER BY "
                                                             "created, rowid",
                                     owner, purpose));
  std::vector<Json> files;
  for (;;) {
    ESP_TRY(const bool there, rows.next());
    if (!there) return files;
    files.push_back(file_of(rows));
  }
}

Result<std::string> file_content(Database& data, std::string_view id, std::string_view owner) {
  ESP_TRY(const Json file, load_file(data, id, owner));
  ESP_TRY(Statement rows, data.query("SELECT data FROM chunks WHERE file = ? ORDER BY position", id));
  std::string content;
  content.reserve(file["bytes"].get<std::size_t>());
  for (;;) {
    ESP_TRY(const bool there, rows.next());
    if (!there) return content;
    content += rows.text(0);
  }
}

Result<> delete_file(Database& data, std::string_view id, std::string_view owner) {
  ESP_TRY(Transaction all, Transaction::begin(data));
  ESP_TRY(const auto changed, data.run("DELETE FROM files WHERE id = ? AND owner = ?", id, owner));
  if (changed == 0) return no_file(id);
  ESP_CHECK(data.run("DELETE FROM chunks WHERE file = ?", id));
  return all.commit();
}

}  // namespace espalier::server
