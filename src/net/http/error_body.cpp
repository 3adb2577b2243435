#include "net/http/error_body.h"

#include <nlohmann/json.hpp>

namespace espalier::net {
namespace {

std::string_view default_code(Error::Kind kind) {
  switch (kind) {
    case Error::Kind::bad_request:
      return "invalid_value";
    case Error::Kind::unauthorized:
      return "invalid_api_key";
    case Error::Kind::forbidden:
      return "forbidden";
    case Error::Kind::not_found:
      return "not_found";
    case Error::Kind::timeout:
      return "deadline_exceeded";
    case Error::Kind::too_large:
      return "body_too_large";
    case Error::Kind::unsupported:
      return "unsupported";
    case Error::Kind::busy:
      return "queue_full";
    case Error::Kind::cancelled:
      return "client_closed";
    case Error::Kind::unavailable:
    case Error::Kind::out_of_memory:
      return "unavailable";
    default:
      return "internal";
  }
}

nlohmann::ordered_json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
}

}  // namespace

std::string_view HttpError::type() const {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 408:
    case 499:
    case 504:
      return "timeout_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

HttpError malformed_request(std::string message) {
  return {400, std::move(message), "malformed_request", "", 0};
}

HttpError body_too_large(std::uint64_t limit_bytes) {
  return {413, "the request body is larger than " + std::to_string(limit_bytes) + " bytes", "body_too_large", "", 0};
}

HttpError http_error(const Error& error) {
  std::string code = error.code.empty() ? std::string(default_code(error.kind)) : error.code;
  int status = error.http_status();
  return {status, error.message, std::move(code), error.field, status == 429 || status == 503 ? 1 : 0};
}

HttpResponse openai_error(const HttpError& error, std::string_view) {
  nlohmann::ordered_json inner;
  inner["message"] = error.message;
  inner["type"] = error.type();
  inner["param"] = text_or_null(error.param);
  inner["code"] = text_or_null(error.code);
  nlohmann::ordered_json body;
  body["error"] = std::move(inner);
  // Messages may quote what the client sent, which need not be UTF-8.
  auto text = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  auto response = HttpResponse::json(error.status, std::move(text));
  if (error.retry_after_seconds > 0) response.headers.add("Retry-After", std::to_string(error.retry_after_seconds));
  return response;
}

}  // namespace espalier::net
