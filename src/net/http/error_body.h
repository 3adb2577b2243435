// error_body.h: how a refusal looks on the wire, {"error":{"message","type","param","code"}} unless the owner of the
// server wants another shape for some path (Anthropic's, Ollama's).
// Threads: pure functions; a formatter is called on io threads and must not block.
// Fails:   never; text that is not UTF-8 is shown with replacement characters.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "espalier/error.h"
#include "net/http/http_types.h"

namespace espalier::net {

// A refusal: status, sentence, code and field, before it is formatted.
struct HttpError {
  int status = 500;
  std::string message;          // a sentence that says what would work
  std::string code;             // "body_too_large"; empty = null
  std::string param;            // the field at fault; empty = null
  int retry_after_seconds = 0;  // 0: no Retry-After

  std::string_view type() const;  // "invalid_request_error", "rate_limit_error", ...: decided by the status alone
};

HttpError malformed_request(std::string message);     // 400
HttpError body_too_large(std::uint64_t limit_bytes);  // 413
HttpError http_error(const Error& error);             // status, param and code of the library's error

// `path` is the request's, "" when the refusal came before there was one.
using ErrorFormatter = std::function<HttpResponse(const HttpError&, std::string_view path)>;
HttpResponse openai_error(const HttpError& error, std::string_view path = {});

}  // namespace espalier::net
