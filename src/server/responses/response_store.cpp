#include "server/responses/response_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/store/data_store.h"

namespace espalier::server {
namespace {

constexpr int kInputPart = 0, kOutputPart = 1;

Error no_response(std::string_view id) {
  return {Error::Kind::not_found, fmt::format("there is no response {}", in_quotes(id, 80)), "response_id",
          "response_not_found"};
}

// What we wrote ourselves; should the file be damaged, it is an empty object.
Json stored_json(const std::string& text) {
  auto parsed = parse_json(text);
  return parsed.ok() ? std::move(parsed).value() : Json::object();
}

Json listed_items(std::vector<Json> items) {
  Json list = Json::array();
  for (Json& item : items) list.push_back(std::move(item));
  return list;
}

Result<> insert_row(Database& data, const StoredResponse& r) {
  ESP_TRY(Statement row, data.query("INSERT INTO responses(id, owner, created, status, previous, conversation, body, "
                                    "request, events, kept) VALUES(?, ?, ?, ?, ?, ?, ?, NULLIF(?, ''), NULLIF(?, ''), "
                                    "NULLIF(?, ''))",
                                    r.id, r.owner, seconds_now(), r.status, r.previous, r.conversation,
                                    json_text(r.body), r.request, r.events, r.kept));
  ESP_CHECK(row.next());
  return success();
}

// What was said in a response becomes part of its conversation, unless that was deleted meanwhile.
Result<> extend_conversation(Database& data, const StoredResponse& r) {
  if (r.conversation.empty()) return success();
  {
    ESP_TRY(Statement row,
            data.query("SELECT 1 FROM conversations WHERE id = ? AND owner = ?", r.conversation, r.owner));
    ESP_TRY(const bool there, row.next());
    if (!there) return success();
  }
  ESP_CHECK(add_items(data, r.conversation, kInputPart, r.owner, r.input));
  return add_items(data, r.conversation, kInputPart, r.owner, r.output);
}

bool has_ended(std::string_view status) {
  return status != "queued" && status != "in_progress";
}

}  // namespace

Result<std::vector<Json>> load_items(Database& data, std::string_view parent, int part) {
  ESP_TRY(Statement rows,
          data.query("SELECT body FROM items WHERE parent = ? AND part = ? ORDER BY position", parent, part));
  std::vector<Json> items;
  for (;;) {
    ESP_TRY(const bool there, rows.next());
    if (!there) return items;
    items.push_back(stored_json(rows.text(0)));
  }
}

Result<> add_items(Database& data, std::string_view parent, int part, std::string_view owner, const Json& items) {
  std::int64_t position = 0;
  {
    ESP_TRY(Statement last,
            data.query("SELECT COALESCE(MAX(position) + 1, 0) FROM items WHERE parent = ? AND part = ?", parent, part));
    ESP_TRY(const bool there, last.next());
    if (there) position = last.integer(0);
  }
  for (const Json& item : items) {
    ESP_CHECK(data.run("INSERT INTO items(parent, part, position, id, owner, body) VALUES(?, ?, ?, ?, ?, ?)", parent,
                       part, position++, item.value("id", ""), owner, json_text(item)));
  }
  return success();
}

Result<Json> find_item(Database& data, std::string_view id, std::string_view owner) {
  ESP_TRY(Statement row, data.query("SELECT items.body FROM items LEFT JOIN responses ON responses.id = items.parent "
                                    "WHERE items.id = ? AND items.owner = ? ORDER BY responses.created DESC LIMIT 1",
                                    id, owner));
  ESP_TRY(const bool there, row.next());
  if (there) return stored_json(row.text(0));
  return Error{Error::Kind::not_found, fmt::format("there is no item {}", in_quotes(id, 80)), "input",
               "item_not_found"};
}

Result<StoredResponse> load_response(Database& data, std::string_view id, std::string_view owner,
                                     const ResponseParts& parts) {
  StoredResponse out;
  {
    ESP_TRY(Statement row, data.query("SELECT status, previous, conversation, body, request, kept FROM responses WHERE "
                                      "id = ? AND owner = ?",
                                      id, owner));
    ESP_TRY(const bool there, row.next());
    if (!there) return no_response(id);
    out.id = id;
    out.owner = owner;
    out.status = row.text(0);
    out.previous = row.text(1);
    out.conversation = row.text(2);
    out.body = stored_json(row.text(3));
    out.request = row.text(4);
    out.kept = row.text(5);
  }
  if (parts.events) {
    ESP_TRY(Statement row, data.query("SELECT events FROM responses WHERE id = ?", id));
    ESP_TRY(const bool there, row.next());
    if (there) out.events = row.text(0);
  }
  if (parts.input) {
    ESP_TRY(auto items, load_items(data, id, kInputPart));
    out.input = listed_items(std::move(items));
  }
  if (parts.output) {
    ESP_TRY(auto items, load_items(data, id, kOutputPart));
    out.output = listed_items(std::move(items));
  }
  return out;
}

Result<> store_response(Database& data, const StoredResponse& r) {
  ESP_TRY(Transaction all, Transaction::begin(data));
  ESP_CHECK(insert_row(data, r));
  ESP_CHECK(add_items(data, r.id, kInputPart, r.owner, r.input));
  ESP_CHECK(add_items(data, r.id, kOutputPart, r.owner, r.output));
  if (has_ended(r.status)) ESP_CHECK(extend_conversation(data, r));
  return all.commit();
}

Result<bool> end_response(Database& data, const StoredResponse& r) {
  ESP_TRY(Transaction all, Transaction::begin(data));
  ESP_TRY(const auto changed,
          data.run("UPDATE responses SET status = ?, body = ?, events = NULLIF(?, ''), kept = NULLIF(?, ''), request = "
                   "NULL WHERE id = ? AND request IS NOT NULL",
                   r.status, json_text(r.body), r.events, r.kept, r.id));
  if (changed == 0) return false;
  ESP_CHECK(add_items(data, r.id, kOutputPart, r.owner, r.output));
  ESP_CHECK(extend_conversation(data, r));
  ESP_CHECK(all.commit());
  return true;
}

Result<bool> cancel_response(Database& data, std::string_view id, const Json& body) {
  ESP_TRY(const auto changed,
          data.run("UPDATE responses SET status = 'cancelled', body = ?, request = NULL WHERE id = ? "
                   "AND request IS NOT NULL",
                   json_text(body), id));
  return changed > 0;
}

Result<> delete_response(Database& data, std::string_view id, std::string_view owner) {
  ESP_TRY(Transaction all, Transaction::begin(data));
  ESP_TRY(const auto changed, data.run("DELETE FROM responses WHERE id = ? AND owner = ?", id, owner));
  if (changed == 0) return no_response(id);
  ESP_CHECK(data.run("DELETE FROM items WHERE parent = ?", id));
  return all.commit();
}

Result<std::vector<StoredResponse>> unfinished_responses(Database& data) {
  ESP_TRY(Statement rows,
          data.query("SELECT id, owner, request, body FROM responses WHERE request IS NOT NULL ORDER BY "
                     "created, rowid"));
  std::vector<StoredResponse> all;
  for (;;) {
    ESP_TRY(const bool there, rows.next());
    if (!there) return all;
    StoredResponse& each = all.emplace_back();
    each.id = rows.text(0);
    each.owner = rows.text(1);
    each.request = rows.text(2);
    each.body = stored_json(rows.text(3));
  }
}

Result<History> history_of(Database& data, std::string_view id, std::string_view owner, int most) {
  std::vector<StoredResponse> turns;
  for (std::string next(id); !next.empty();) {
    if (turns.size() >= static_cast<std::size_t>(most)) {
      return bad_request(fmt::format("more than {} responses stand before this one (--max-messages)", most),
                         "previous_response_id");
    }
    auto turn = load_response(data, next, owner, {.input = true, .output = true, .events = false});
    if (!turn) {
      Error error = std::move(turn).error();
      error.field = "previous_response_id";
      if (error.kind == Error::Kind::not_found) error.code = "previous_response_not_found";
      return error;
    }
    if (!has_ended(turn->status))
      return bad_request(fmt::format("the response {} has not ended yet; wait for it", in_quotes(next, 80)),
                         "previous_response_id");
    next = turn->previous;
    turns.push_back(std::move(turn).value());
  }
  History history;
  for (auto turn = turns.rbegin(); turn != turns.rend(); ++turn) {
    for (Json* part : {&turn->input, &turn->output})
      for (Json& item : *part) history.items.push_back(std::move(item));
    history.kept.push_back(std::move(turn->kept));
  }
  return history;
}

}  // namespace espalier::server
