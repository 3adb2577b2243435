// ollama_messages.h: a conversation of Ollama's /api/chat as chat templates take it.
// Threads: pure function. Fails: bad_request naming the message and field at fault.
// Source:  Ollama, docs/api.md (chat); its Python client's Message.
#pragma once

#include <string_view>

#include "base/json/json.h"

namespace espalier::server {

// `messages` of chat completions: read_messages() checks what is the same in both.
Result<Json> read_ollama_messages(const Json& messages);
// The object's `images`, base64 each, before its content, which becomes a list of parts then.
Result<> add_pictures(const Json& object, std::string_view place, Json& content);

}  // namespace espalier::server
