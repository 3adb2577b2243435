// conversation_store.h: conversations: metadata and items, to which responses add what is said.
// Threads: as DataStore; functions take the opened database. Fails: not_found with code "conversation_not_found"; as
//          Database.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "server/store/database.h"

namespace espalier::server {

// A conversation as the API tells it: {"id", "object", "created_at", "metadata"}.
Result<Json> load_conversation(Database& data, std::string_view id, std::string_view owner);
Result<Json> create_conversation(Database& data, std::string_view owner, const Json& metadata, const Json& items);
Result<Json> update_conversation(Database& data, std::string_view id, std::string_view owner, const Json& metadata);
Result<> delete_conversation(Database& data, std::string_view id, std::string_view owner);
Result<> add_conversation_items(Database& data, std::string_view id, std::string_view owner, const Json& items);
Result<> delete_conversation_item(Database& data, std::string_view id, std::string_view owner, std::string_view item);
// What its responses keep of their tokens, oldest first (kept_tokens.h).
Result<std::vector<std::string>> kept_in_conversation(Database& data, std::string_view id, std::string_view owner);

}  // namespace espalier::server
