#include "server/responses/conversation_store.h"

#include <fmt/format.h>

#include "server/answer/call_id.h"
#include "server/responses/response_store.h"
#include "server/store/data_store.h"

namespace espalier::server {
namespace {

Error no_conversation(std::string_view id) {
  return {Error::Kind::not_found, fmt::format("there is no conversation {}", in_quotes(id, 80)), "conversation",
          "conversation_not_found"};
}

}  // namespace

Result<Json> load_conversation(Database& data, std::string_view id, std::string_view owner) {
  ESP_TRY(Statement row,
          data.query("SELECT created, metadata FROM conversations WHERE id = ? AND owner = ?", id, owner));
  ESP_TRY(const bool there, row.next());
  if (!there) return no_conversation(id);
  auto metadata = parse_json(row.text(1));
  Json out = {{"id", id}, {"object", "conversation"}, {"created_at", row.integer(0)}};
  out["metadata"] = metadata.ok() ? std::move(metadata).value() : Json::object();
  return out;
}

Result<Json> create_conversation(Database& data, std::string_view owner, const Json& metadata, const Json& items) {
  const std::string id = new_call_id("conv_");
  ESP_TRY(Transaction all, Transaction::begin(data));
  ESP_CHECK(data.run("INSERT INTO conversations(id, owner, created, metadata) VALUES(?, ?, ?, ?)", id, owner,
                     seconds_now(), json_text(metadata)));
  ESP_CHECK(add_items(data, id, 0, owner, items));
  ESP_CHECK(all.commit());
  return load_conversation(data, id, owner);
}

Result<Json> update_conversation(Database& data, std::string_view id, std::string_view owner, const Json& metadata) {
  ESP_TRY(const auto changed,
          data.run("UPDATE conversations SET metadata = ? WHERE id = ? AND owner = ?", json_text(metadata), id, owner));
  if (changed == 0) return no_conversation(id);
  return load_conversation(data, id, owner);
}

Result<> delete_conversation(Database& data, std::string_view id, std::string_view owner) {
  ESP_TRY(Transaction all, Transaction::begin(data));
  ESP_TRY(const auto changed, data.run("DELETE FROM conversations WHERE id = ? AND owner = ?", id, owner));
  if (changed == 0) return no_conversation(id);
  ESP_CHECK(data.run("DELETE FROM items WHERE parent = ?", id));
  return all.commit();
}

Result<> add_conversation_items(Database& data, std::string_view id, std::string_view owner, const Json& items) {
  ESP_TRY(Transaction all, Transaction::begin(data));
  ESP_CHECK(load_conversation(data, id, owner));
  ESP_CHECK(add_items(data, id, 0, owner, items));
  return all.commit();
}

Result<> delete_conversation_item(Database& data, std::string_view id, std::string_view owner, std::string_view item) {
  ESP_CHECK(load_conversation(data, id, owner));
  ESP_TRY(const auto changed, data.run("DELETE FROM items WHERE parent = ? AND id = ?", id, item));
  if (changed > 0) return success();
  return Error{Error::Kind::not_found, fmt::format("the conversation has no item {}", in_quotes(item, 80)), "item_id",
               "item_not_found"};
}

Result<std::vector<std::string>> kept_in_conversation(Database& data, std::string_view id, std::string_view owner) {
  ESP_TRY(Statement rows,
          data.query("SELECT kept FROM responses WHERE conversation = ? AND conversation <> '' AND owner = ? ORDER BY "
                     "rowid",
                     id, owner));
  std::vector<std::string> kept;
  for (;;) {
    ESP_TRY(const bool there, rows.next());
    if (!there) return kept;
    kept.push_back(rows.text(0));
  }
}

}  // namespace espalier::server
