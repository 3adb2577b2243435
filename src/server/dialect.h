// dialect.h: how refusals are worded and shaped for the client's protocol.
//
// Inside the server errors carry the engine's field names; a dialect renames them to what the client sent, in the
// sentence too, and gives the body its shape:
//   openai*  {"error":{message,type,param,code}, "object":"error", message, type, param, "code": status}: OpenAI's
//            clients read the nested object, SGLang's the flat keys
//   native   {"error":{message,type,param,code}}
// Threads: pure functions. Fails: never.
#pragma once

#include <string>
#include <string_view>

#include "espalier/error.h"
#include "net/error_body.h"

namespace espalier::server {

enum class Dialect { native, openai, openai_completions, openai_chat };

// `path` without the API prefix; what refusals before any route are shaped by.
Dialect dialect_of(std::string_view path);

Error renamed(Dialect dialect, Error error);
std::string error_json(Dialect dialect, const net::HttpError& error);
net::HttpResponse error_response(Dialect dialect, const net::HttpError& error);
// `retry_after`: seconds, used where the status asks for it (429, 503).
net::HttpResponse error_response(Dialect dialect, const Error& error, int retry_after = 1);

Error unsupported_parameter(std::string message, std::string field);

}  // namespace espalier::server
