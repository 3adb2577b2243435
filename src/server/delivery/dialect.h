// dialect.h: how refusals are worded and shaped for the client's protocol.
//
// A dialect gives the body its shape (the fields' names are right already, request_names.h):
//   openai*  {"error":{message,type,param,code}, "object":"error", message, type, param, "code": status}: OpenAI's
//            clients read the nested object, SGLang's the flat keys
//   native   {"error":{message,type,param,code}}
//   openai_responses  the same; streams end without a word, and an error in one is the event "error"
//   anthropic  {"type":"error","error":{type,message}}; streams end without a word
//   ollama   {"error": message}; streams are lines of JSON, an error is one of them
//   tei        {"error": message, "error_type"}: text-embeddings-inference's
//   llamacpp   {"error":{code (the status), message, type, param}}; streams end without a word
// Threads: pure functions. Fails: never.
#pragma once

#include <string>
#include <string_view>

#include "espalier/error.h"
#include "net/http/error_body.h"

namespace espalier::server {

// Whose protocol a path speaks, and so what its refusals look like.
enum class Dialect {
  native,
  openai,
  openai_completions,
  openai_chat,
  openai_responses,
  anthropic,
  ollama,
  llamacpp,
  tei
};

// How the pieces of a stream stand in its body.
enum class Framing { events, lines };  // server-sent events; one JSON value a line
Framing framing_of(Dialect dialect);

// What refusals before any route are shaped by; `path` begins with `api_prefix`, or is none of ours.
Dialect dialect_of(std::string_view path, std::string_view api_prefix);

std::string error_json(Dialect dialect, const net::HttpError& error);
net::HttpResponse error_response(Dialect dialect, const net::HttpError& error);
// `retry_after`: seconds, used where the status asks for it (429, 503).
net::HttpResponse error_response(Dialect dialect, const Error& error, int retry_after = 1);

// The last words of a stream, and an error in the middle of one with what follows it.
std::string_view stream_end(Dialect dialect);
std::string stream_error(Dialect dialect, const net::HttpError& error);

Error unsupported_parameter(std::string message, std::string field);

}  // namespace espalier::server
