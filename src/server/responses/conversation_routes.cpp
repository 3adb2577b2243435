// /v1/conversations: what responses go on with and add to.
#include <fmt/format.h>

#include "base/json/json_fields.h"
#include "server/responses/conversation_store.h"
#include "server/responses/items.h"
#include "server/responses/response_body.h"
#include "server/responses/response_store.h"
#include "server/routes/handler.h"
#include "server/routes/routes.h"
#include "server/store/data_store.h"
#include "server/store/page_query.h"

namespace espalier::server {
namespace {

constexpr std::size_t kMostNewItems = 20;  // as OpenAI's

// Items of a body; a reference has to name one that is there.
Result<Json> read_new_items(Call& call) {
  const Json* given = find_field(call.body, "items");
  if (given == nullptr) return Json(Json::array());
  if (!given->is_array()) return bad_request("items must be a list", "items");
  if (given->size() > kMostNewItems)
    return bad_request(
        fmt::format("items has {} entries, but at most {} are added at once", given->size(), kMostNewItems), "items");
  ESP_TRY(Json items, read_items(*given, "items", call.service.options));
  for (Json& item : items) {
    if (item.value("type", "") != "item_reference") continue;
    ESP_TRY(auto data, call.service.data.open());
    ESP_TRY(item, find_item(*data, item.value("id", ""), call.service.keys->owner(call.http)));
  }
  return items;
}

Result<net::HttpResponse> create(Call& call) {
  ESP_TRY(const Json metadata, read_metadata(call.body));
  ESP_TRY(const Json items, read_new_items(call));
  ESP_TRY(auto data, call.service.data.open());
  ESP_TRY(const Json made, create_conversation(*data, call.service.keys->owner(call.http), metadata, items));
  return json_answer(made);
}

Result<net::HttpResponse> get(Call& call) {
  ESP_TRY(auto data, call.service.data.open());
  ESP_TRY(const Json found, load_conversation(*data, call.http.path_value("id"), call.service.keys->owner(call.http)));
  return json_answer(found);
}

Result<net::HttpResponse> update(Call& call) {
  ESP_TRY(const Json metadata, read_metadata(call.body));
  ESP_TRY(auto data, call.service.data.open());
  ESP_TRY(const Json changed,
          update_conversation(*data, call.http.path_value("id"), call.service.keys->owner(call.http), metadata));
  return json_answer(changed);
}

Result<net::HttpResponse> remove(Call& call) {
  const std::string id(call.http.path_value("id"));
  ESP_TRY(auto data, call.service.data.open());
  ESP_CHECK(delete_conversation(*data, id, call.service.keys->owner(call.http)));
  return json_answer({{"id", id}, {"object", "conversation.deleted"}, {"deleted", true}});
}

Result<net::HttpResponse> add_to(Call& call) {
  ESP_TRY(const Json items, read_new_items(call));
  if (items.empty()) return bad_request("items is missing", "items");
  ESP_TRY(auto data, call.service.data.open());
  ESP_CHECK(add_conversation_items(*data, call.http.path_value("id"), call.service.keys->owner(call.http), items));
  ESP_TRY(const Json page, page_of({items.begin(), items.end()}, {.limit = 100, .ascending = true, .after = {}}));
  return json_answer(page);
}

Result<std::vector<Json>> items_of_conversation(Call& call) {
  ESP_TRY(auto data, call.service.data.open());
  ESP_CHECK(load_conversation(*data, call.http.path_value("id"), call.service.keys->owner(call.http)));
  return load_items(*data, call.http.path_value("id"), 0);
}

Result<net::HttpResponse> list_of(Call& call) {
  ESP_TRY(const PageQuery query, read_page_query(call.http, 20, 100));
  ESP_TRY(auto items, items_of_conversation(call));
  ESP_TRY(const Json page, page_of(std::move(items), query));
  return json_answer(page);
}

Result<net::HttpResponse> get_one(Call& call) {
  const std::string_view wanted = call.http.path_value("item");
  ESP_TRY(const auto items, items_of_conversation(call));
  for (const Json& item : items)
    if (item.value("id", "") == wanted) return json_answer(item);
  return Error{Error::Kind::not_found, fmt::format("the conversation has no item {}", in_quotes(wanted, 80)), "item_id",
               "item_not_found"};
}

Result<net::HttpResponse> remove_one(Call& call) {
  const std::string owner = call.service.keys->owner(call.http);
  ESP_TRY(auto data, call.service.data.open());
  ESP_CHECK(delete_conversation_item(*data, call.http.path_value("id"), owner, call.http.path_value("item")));
  ESP_TRY(const Json left, load_conversation(*data, call.http.path_value("id"), owner));
  return json_answer(left);
}

}  // namespace

Result<> add_conversation_routes(net::Router& router, Service& service) {
  using net::Method;
  constexpr Dialect dialect = Dialect::openai;
  const std::string one = "/v1/conversations/{id}", items = one + "/items", item = items + "/{item}";
  ESP_CHECK(router.add(Method::post, "/v1/conversations", keeping(service, dialect, create)));
  ESP_CHECK(router.add(Method::get, one, keeping_any(service, dialect, get)));
  ESP_CHECK(router.add(Method::post, one, keeping(service, dialect, update)));
  ESP_CHECK(router.add(Method::del, one, keeping_any(service, dialect, remove)));
  ESP_CHECK(router.add(Method::post, items, keeping(service, dialect, add_to)));
  ESP_CHECK(router.add(Method::get, items, keeping_any(service, dialect, list_of)));
  ESP_CHECK(router.add(Method::get, item, keeping_any(service, dialect, get_one)));
  return router.add(Method::del, item, keeping_any(service, dialect, remove_one));
}

}  // namespace espalier::server
