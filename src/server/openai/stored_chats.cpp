#include "server/openai/stored_chats.h"

#include <fmt/format.h>

#include "base/json/json_fields.h"
#include "server/responses/response_body.h"
#include "server/routes/handler.h"
#include "server/routes/routes.h"
#include "server/store/page_query.h"

namespace espalier::server {
namespace {

// What is told of the question; null where it said nothing.
constexpr const char* kAsked[] = {"temperature", "top_p", "presence_penalty", "frequency_penalty",
                                  "seed",        "tools", "tool_choice",      "response_format",
                                  "max_tokens",  "stop",  "reasoning_effort", "max_completion_tokens"};

Error no_chat(std::string_view id) {
  return {Error::Kind::not_found, fmt::format("there is no stored chat completion {}", in_quotes(id, 80)),
          "completion_id", "completion_not_found"};
}

// Of the asking key: the answer, or the messages.
Result<Json> load(Call& call, Database& data, std::string_view column) {
  const std::string_view id = call.http.path_value("id");
  ESP_TRY(Statement row, data.query(fmt::format("SELECT {} FROM chats WHERE id = ? AND owner = ?", column), id,
                                    call.service.keys->owner(call.http)));
  ESP_TRY(const bool there, row.next());
  if (!there) return no_chat(id);
  return parse_json(row.text(0));
}

Result<net::HttpResponse> get(Call& call) {
  ESP_TRY(auto data, call.service.data.open());
  ESP_TRY(const Json chat, load(call, *data, "body"));
  return json_answer(chat);
}

Result<net::HttpResponse> update(Call& call) {
  ESP_TRY(const Json metadata, read_metadata(call.body));
  ESP_TRY(auto data, call.service.data.open());
  ESP_TRY(Json chat, load(call, *data, "body"));
  chat["metadata"] = metadata;
  ESP_CHECK(data->run("UPDATE chats SET body = ? WHERE id = ?", json_text(chat), call.http.path_value("id")));
  return json_answer(chat);
}

Result<net::HttpResponse> remove(Call& call) {
  const std::string id(call.http.path_value("id"));
  ESP_TRY(auto data, call.service.data.open());
  ESP_TRY(const std::int64_t removed,
          data->run("DELETE FROM chats WHERE id = ? AND owner = ?", id, call.service.keys->owner(call.http)));
  if (removed == 0) return no_chat(id);
  return json_answer({{"object", "chat.completion.deleted"}, {"id", id}, {"deleted", true}});
}

Result<PageQuery> read_chat_page(const net::HttpRequest& http) {
  ESP_TRY(PageQuery query, read_page_query(http, 20, 100));
  if (const std::string* order = http.query_value("order"); order == nullptr || order->empty()) query.ascending = true;
  return query;
}

Result<net::HttpResponse> messages_of(Call& call) {
  ESP_TRY(const PageQuery query, read_chat_page(call.http));
  ESP_TRY(auto data, call.service.data.open());
  ESP_TRY(const Json messages, load(call, *data, "messages"));
  std::vector<Json> all;
  for (const Json& message : messages) {
    all.push_back(message);
    if (all.back().is_object()) all.back()["id"] = fmt::format("{}-{}", call.http.path_value("id"), all.size() - 1);
  }
  ESP_TRY(const Json page, page_of(std::move(all), query));
  return json_answer(page);
}

// metadata[NAME]=VALUE and model=NAME.
bool is_wanted(const Json& chat, const net::HttpRequest& http) {
  for (const auto& [name, value] : http.query) {
    if (name == "model" && chat.value("model", "") != value) return false;
    if (!name.starts_with("metadata[") || !name.ends_with("]")) continue;
    const Json* metadata = find_field(chat, "metadata");
    const std::string key = name.substr(9, name.size() - 10);
    if (metadata == nullptr || !metadata->is_object() || metadata->value(key, Json()) != Json(value)) return false;
  }
  return true;
}

Result<net::HttpResponse> list(Call& call) {
  ESP_TRY(const PageQuery query, read_chat_page(call.http));
  ESP_TRY(auto data, call.service.data.open());
  ESP_TRY(Statement rows,
          data->query("SELECT body FROM chats WHERE owner = ? ORDER BY rowid", call.service.keys->owner(call.http)));
  std::vector<Json> all;
  for (;;) {
    ESP_TRY(const bool there, rows.next());
    if (!there) break;
    ESP_TRY(Json chat, parse_json(rows.text(0)));
    if (is_wanted(chat, call.http)) all.push_back(std::move(chat));
  }
  ESP_TRY(const Json page, page_of(std::move(all), query));
  return json_answer(page);
}

}  // namespace

Result<ChatToStore> chat_to_store(const Json& body, std::string owner) {
  ChatToStore chat{std::move(owner), Json::object(), Json::array()};
  ESP_TRY(chat.asked["metadata"], read_metadata(body));
  for (const char* name : kAsked) {
    const Json* value = find_field(body, name);
    chat.asked[name] = value == nullptr ? Json() : *value;
  }
  if (const Json* messages = find_field(body, "messages")) chat.messages = *messages;
  return chat;
}

StoredChatReply::StoredChatReply(Service& service, ChatToStore chat, std::unique_ptr<Reply> told,
                                 std::unique_ptr<Reply> whole)
    : service_(service), chat_(std::move(chat)), told_(std::move(told)), whole_(std::move(whole)) {}

void StoredChatReply::add(int prompt, TextEvent event, std::string& out) {
  std::string nothing;
  whole_->add(prompt, event, nothing);
  told_->add(prompt, std::move(event), out);
}

Result<> StoredChatReply::conclude() {
  std::string text;
  whole_->finish(text);
  ESP_TRY(Json body, parse_json(text));
  for (const auto& [name, value] : chat_.asked.items())
    if (name == "metadata" || find_field(body, name) == nullptr) body[name] = value;
  ESP_TRY(auto data, service_.data.open());
  ESP_CHECK(data->run("INSERT OR REPLACE INTO chats(id, owner, created, body, messages) VALUES(?, ?, ?, ?, ?)",
                      body.value("id", ""), chat_.owner, seconds_now(), json_text(body), json_text(chat_.messages)));
  return told_->conclude();
}

Result<> add_stored_chat_routes(net::Router& router, Service& service) {
  using net::Method;
  constexpr Dialect dialect = Dialect::openai_chat;
  const std::string all = "/v1/chat/completions", one = all + "/{id}";
  ESP_CHECK(router.add(Method::get, all, keeping_any(service, dialect, list)));
  ESP_CHECK(router.add(Method::get, one, keeping_any(service, dialect, get)));
  ESP_CHECK(router.add(Method::post, one, keeping(service, dialect, update)));
  ESP_CHECK(router.add(Method::del, one, keeping_any(service, dialect, remove)));
  return router.add(Method::get, one + "/messages", keeping_any(service, dialect, messages_of));
}

}  // namespace espalier::server
