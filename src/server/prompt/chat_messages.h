// chat_messages.h: checks and evens out the messages of a chat body.
// Threads: pure functions. Fails: bad_request naming the message and field at fault.
#pragma once

#include "base/json.h"
#include "server/server_options.h"

namespace espalier::server {

// Roles in lower case; text parts joined by a space (as SGLang does); null content becomes ""; arguments of tool calls
// that hold a JSON object become that object, others stay as they are (old turns may hold anything).
Result<Json> read_messages(const Json& value, const ServerOptions& options);

Result<Json> read_tools(const Json& value, const ServerOptions& options);

}  // namespace espalier::server
