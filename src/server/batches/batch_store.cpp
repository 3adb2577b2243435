#include "server/batches/batch_store.h"

#include <fmt/format.h>

#include "server/answer/call_id.h"
#include "server/store/data_store.h"

namespace espalier::server {
namespace {

Error no_batch(std::string_view id) {
  return {Error::Kind::not_found, fmt::format("there is no batch {}", in_quotes(id, 80)), "batch_id",
          "batch_not_found"};
}

Json batch_of(const std::string& text) {
  auto parsed = parse_json(text);
  return parsed.ok() ? std::move(parsed).value() : Json::object();
}

Result<> save_batch(Database& data, const Json& batch) {
  ESP_CHECK(data.run("UPDATE batches SET status = ?, body = ? WHERE id = ?", batch.value("status", ""),
                     json_text(batch), batch.value("id", "")));
  return success();
}

// Of the lines that went well, or of the others; "" when there is none.
Result<std::string> file_of_results(Database& data, std::string_view id, std::string_view owner, bool ok) {
  std::int64_t lines = 0, bytes = 0;
  {
    ESP_TRY(Statement row, data.query("SELECT COUNT(*), SUM(LENGTH(CAST(text AS BLOB)) + 1) FROM batch_results WHERE "
                                      "batch = ? AND ok = ?",
                                      id, ok));
    ESP_TRY(const bool there, row.next());
    if (there) lines = row.integer(0), bytes = row.integer(1);
  }
  if (lines == 0) return std::string();
  const std::string file = new_call_id("file-");
  ESP_CHECK(
      data.run("INSERT INTO files(id, owner, created, bytes, filename, purpose) VALUES(?, ?, ?, ?, ?, "
               "'batch_output')",
               file, owner, seconds_now(), bytes, fmt::format("{}_{}.jsonl", id, ok ? "output" : "error")));
  ESP_CHECK(
      data.run("INSERT INTO chunks(file, position, data) SELECT ?, line, CAST(text || char(10) AS BLOB) FROM "
               "batch_results WHERE batch = ? AND ok = ?",
               file, id, ok));
  return file;
}

}  // namespace

Result<> add_batch(Database& data, std::string_view owner, const Json& batch) {
  ESP_CHECK(data.run("INSERT INTO batches(id, owner, created, status, body) VALUES(?, ?, ?, ?, ?)",
                     batch.value("id", ""), owner, seconds_now(), batch.value("status", ""), json_text(batch)));
  return success();
}

Result<Json> load_batch(Database& data, std::string_view id, std::string_view owner) {
  ESP_TRY(Statement row, data.query("SELECT body FROM batches WHERE id = ? AND owner = ?", id, owner));
  ESP_TRY(const bool there, row.next());
  if (!there) return no_batch(id);
  return batch_of(row.text(0));
}

Result<std::vector<Json>> list_batches(Database& data, std::string_view owner) {
  ESP_TRY(Statement rows, data.query("SELECT body FROM batches WHERE owner = ? ORDER BY created, rowid", owner));
  std::vector<Json> batches;
  for (;;) {
    ESP_TRY(const bool there, rows.next());
    if (!there) return batches;
    batches.push_back(batch_of(rows.text(0)));
  }
}

Result<std::vector<OpenBatch>> open_batches(Database& data, int most) {
  ESP_TRY(Statement rows,
          data.query("SELECT id, owner, body FROM batches WHERE status IN ('validating', 'in_progress', 'finalizing', "
                     "'cancelling') ORDER BY created, rowid LIMIT ?",
                     most));
  std::vector<OpenBatch> batches;
  for (;;) {
    ESP_TRY(const bool there, rows.next());
    if (!there) return batches;
    batches.push_back({rows.text(0), rows.text(1), batch_of(rows.text(2))});
  }
}

Result<Json> set_batch_status(Database& data, std::string_view id, std::string_view owner, std::string_view status,
                              std::size_t total) {
  ESP_TRY(Json batch, load_batch(data, id, owner));
  batch["status"] = status;
  batch[fmt::format("{}_at", status)] = seconds_now();
  if (total > 0) batch["request_counts"]["total"] = total;
  ESP_CHECK(save_batch(data, batch));
  return batch;
}

Result<> fail_batch(Database& data, std::string_view id, std::string_view owner,
                    const std::vector<BatchFault>& faults) {
  ESP_TRY(Json batch, load_batch(data, id, owner));
  Json list = Json::array();
  for (const BatchFault& fault : faults) {
    Json told = {{"code", fault.code}, {"message", fault.message}};
    told["param"] = fault.param.empty() ? Json(nullptr) : Json(fault.param);
    told["line"] = fault.line == 0 ? Json(nullptr) : Json(fault.line);
    list.push_back(std::move(told));
  }
  batch["status"] = "failed";
  batch["failed_at"] = seconds_now();
  batch["errors"] = {{"object", "list"}, {"data", std::move(list)}};
  return save_batch(data, batch);
}

Result<std::string> add_results(Database& data, std::string_view id, std::string_view owner,
                                const std::vector<BatchResult>& results) {
  ESP_TRY(Json batch, load_batch(data, id, owner));
  if (results.empty()) return batch.value("status", "");
  ESP_TRY(Transaction all, Transaction::begin(data));
  for (const BatchResult& result : results) {
    ESP_TRY(const auto added, data.run("INSERT OR IGNORE INTO batch_results(batch, line, ok, text) VALUES(?, ?, ?, ?)",
                                       id, result.line, result.ok, result.text));
    Json& count = batch["request_counts"][result.ok ? "completed" : "failed"];
    count = count.get<std::int64_t>() + added;
  }
  ESP_CHECK(save_batch(data, batch));
  ESP_CHECK(all.commit());
  return batch.value("status", "");
}

Result<std::set<std::size_t>> lines_done(Database& data, std::string_view id) {
  ESP_TRY(Statement rows, data.query("SELECT line FROM batch_results WHERE batch = ?", id));
  std::set<std::size_t> lines;
  for (;;) {
    ESP_TRY(const bool there, rows.next());
    if (!there) return lines;
    lines.insert(static_cast<std::size_t>(rows.integer(0)));
  }
}

Result<> close_batch(Database& data, std::string_view id, std::string_view owner, std::string_view status) {
  ESP_TRY(Json batch, load_batch(data, id, owner));
  ESP_TRY(Transaction all, Transaction::begin(data));
  for (const bool ok : {true, false}) {
    ESP_TRY(const std::string file, file_of_results(data, id, owner, ok));
    if (!file.empty()) batch[ok ? "output_file_id" : "error_file_id"] = file;
  }
  ESP_CHECK(data.run("DELETE FROM batch_results WHERE batch = ?", id));
  batch["finalizing_at"] = batch[fmt::format("{}_at", status)] = seconds_now();
  batch["status"] = status;
  ESP_CHECK(save_batch(data, batch));
  return all.commit();
}

}  // namespace espalier::server
