// chat_messages.h: checks and evens out the messages of a chat body.
// Threads: pure functions. Fails: bad_request naming the message and field at fault.
#pragma once

#include <vector>

#include "base/json/json.h"
#include "server/media/media_source.h"
#include "server/server_options.h"

namespace espalier::server {

// Roles in lower case; null content becomes "", but stays null beside tool calls. Contents and arguments of tool calls
// stay as they came: the template takes them in its own form (text/chat/chat_content.h, text/chat/chat_calls.h). A picture or film
// becomes the part {"type": "image"} or {"type": "video"}, and goes to `media`, in order.
Result<Json> read_messages(const Json& value, const ServerOptions& options, std::vector<MediaSource>& media);

}  // namespace espalier::server
