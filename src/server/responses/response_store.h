// response_store.h: stored responses: their items, what they go on from, and how they ended.
//
// A response belongs to the key that made it; to others it is not there. Ids of items may be used again: the newest
// counts.
// Threads: as DataStore; functions take the opened database. Fails: not_found with code "response_not_found"; as Database.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "server/store/database.h"

namespace espalier::server {

// One response as it is stored.
struct StoredResponse {
  std::string id, owner, status;
  std::string previous, conversation;  // "": none
  Json body;                           // the response, without its output
  Json input = Json::array(), output = Json::array();
  std::string request;  // of one that runs in the background: its body
  std::string events, kept;
};

// Which parts of it a reader wants beside the body.
struct ResponseParts {
  bool input = false, output = true, events = false;
};

Result<StoredResponse> load_response(Database& data, std::string_view id, std::string_view owner,
                                     const ResponseParts& parts = {});
// Adds it, items and all. In a conversation its items become part of that.
Result<> store_response(Database& data, const StoredResponse& response);
// One that ran in the background has ended. False: it was cancelled or deleted meanwhile, and stays so.
Result<bool> end_response(Database& data, const StoredResponse& response);
Result<> delete_response(Database& data, std::string_view id, std::string_view owner);
// Of one that has not ended; `body` as it is told from then on.
Result<bool> cancel_response(Database& data, std::string_view id, const Json& body);
// Those that a server which ended was making: ids, owners and requests.
Result<std::vector<StoredResponse>> unfinished_responses(Database& data);

// What was said up to a response, oldest first: inputs and outputs of it and of all that it goes on from.
// bad_request when it has not ended, when more than `most` responses stand before it.
struct History {
  Json items = Json::array();
  std::vector<std::string> kept;  // by response
};
Result<History> history_of(Database& data, std::string_view id, std::string_view owner, int most);

Result<std::vector<Json>> load_items(Database& data, std::string_view parent, int part);
// The item that a reference names.
Result<Json> find_item(Database& data, std::string_view id, std::string_view owner);
Result<> add_items(Database& data, std::string_view parent, int part, std::string_view owner, const Json& items);

}  // namespace espalier::server
