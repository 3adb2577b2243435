// items.h: what a response is given and gives: messages, calls of functions, their outputs and reasoning, as OpenAI's
// Responses API has them, and the same as a conversation that chat templates know.
//
// Items are checked and evened out once, when they come in: a text is a list of one part, every item has an id. What is
// stored and listed is that form. As a conversation, neighbouring reasoning, text and calls of the assistant are one
// turn.
// Threads: pure functions. Fails: bad_request naming the item and field; items of tools that this server does not run are
//          refused with code unsupported_parameter.
// Source:  OpenAI's API reference, Responses and Conversations.
#pragma once

#include <string_view>

#include "base/json/json.h"
#include "server/server_options.h"

namespace espalier::server {

// `value`: a text (one message of the user) or a list. References to stored items stay as they are.
Result<Json> read_items(const Json& value, std::string_view place, const ServerOptions& options);

// Of items that were read: messages as chat completions take them. The first `former` of them were said before: errors
// about their pictures name `former_place`; those about others "input[0].content[1]".
Json messages_of(const Json& items, std::size_t former = 0, std::string_view former_place = {});

}  // namespace espalier::server
