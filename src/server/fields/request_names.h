// request_names.h: makes the engine's requests; what it refuses is told in the names that the client sent.
//
// The engine's errors carry its own field names ("max_new_tokens"); they are renamed in the sentence too. Errors of the
// bodies' readers need none of this: they are about the client's fields from the start.
// Threads: pure functions. Fails: as Request::make; bad_request for stop tokens that the model does not have.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "espalier/request.h"

namespace espalier::server {

// A field of the engine, and what this client calls it.
struct Alias {
  std::string ours, theirs;  // "max_new_tokens", "max_tokens"
};

Error renamed(Error error, std::span<const Alias> names);

// `prompt`: what held the prompt, "text[2]"; `max_tokens`: the name that the length came under.
std::vector<Alias> native_names(std::string prompt);
std::vector<Alias> completion_names(std::string prompt);
std::vector<Alias> chat_names(std::string prompt, std::string max_tokens);

Result<Request> make_request(RequestFields fields, const ModelLimits& limits, std::span<const Alias> names);

}  // namespace espalier::server
