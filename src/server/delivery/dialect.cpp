#include "server/delivery/dialect.h"

#include <algorithm>

#include "net/http/sse.h"
#include "server/delivery/json_writer.h"

namespace espalier::server {
namespace {

void write_fields(JsonWriter& json, const net::HttpError& error) {
  json.field("message", error.message).field("type", error.type());
  json.field_or_null("param", error.param);
}

// Anthropic's word for a status.
std::string_view anthropic_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

// text-embeddings-inference's word for a status.
std::string_view tei_type(int status) {
  if (status == 429) return "overloaded";
  if (status == 503) return "unhealthy";
  return status < 500 ? "validation" : "backend";
}

constexpr std::string_view kTeiPaths[] = {"/embed", "/embed_all", "/embed_sparse", "/predict", "/similarity"};
constexpr std::string_view kLlamaCppPaths[] = {"/completion", "/completions", "/infill",    "/props",
                                               "/slots",      "/embedding",   "/embeddings"};

}  // namespace

Framing framing_of(Dialect dialect) {
  return dialect == Dialect::ollama ? Framing::lines : Framing::events;
}

Dialect dialect_of(std::string_view path, std::string_view api_prefix) {
  while (api_prefix.ends_with('/')) api_prefix.remove_suffix(1);
  if (path.starts_with(api_prefix)) path.remove_prefix(api_prefix.size());
  if (path == "/v1/messages" || path.starts_with("/v1/messages/")) return Dialect::anthropic;
  if (path.starts_with("/v1/")) return Dialect::openai;
  if (path.starts_with("/api/")) return Dialect::ollama;
  if (std::ranges::find(kTeiPaths, path) != std::end(kTeiPaths)) return Dialect::tei;
  const bool llamacpp = std::ranges::find(kLlamaCppPaths, path) != std::end(kLlamaCppPaths);
  return llamacpp ? Dialect::llamacpp : Dialect::native;
}

std::string error_json(Dialect dialect, const net::HttpError& error) {
  std::string out;
  JsonWriter json(out);
  if (dialect == Dialect::anthropic) {
    json.open('{').field("type", "error").key("error").open('{').field("type", anthropic_type(error.status));
    json.field("message", error.message).close('}').close('}');
    return out;
  }
  if (dialect == Dialect::ollama) {
    json.open('{').field("error", error.message).close('}');
    return out;
  }
  if (dialect == Dialect::tei) {
    json.open('{').field("error", error.message).field("error_type", tei_type(error.status)).close('}');
    return out;
  }
  json.open('{').key("error").open('{');
  if (dialect == Dialect::llamacpp) {
    write_fields(json.field("code", error.status), error);
    json.close('}').close('}');
    return out;
  }
  write_fields(json, error);
  json.field_or_null("code", error.code).close('}');
  if (dialect != Dialect::native) {
    json.field("object", "error");
    write_fields(json, error);
    json.field("code", error.status);
  }
  json.close('}');
  return out;
}

net::HttpResponse error_response(Dialect dialect, const net::HttpError& error) {
  auto response = net::HttpResponse::json(error.status, error_json(dialect, error));
  if (error.retry_after_seconds > 0) response.headers.set("Retry-After", std::to_string(error.retry_after_seconds));
  return response;
}

net::HttpResponse error_response(Dialect dialect, const Error& error, int retry_after) {
  net::HttpError http = net::http_error(error);
  if (http.retry_after_seconds > 0) http.retry_after_seconds = retry_after;
  return error_response(dialect, http);
}

std::string_view stream_end(Dialect dialect) {
  const bool wordless = dialect == Dialect::anthropic || dialect == Dialect::openai_responses ||
                        dialect == Dialect::ollama || dialect == Dialect::llamacpp;
  return wordless ? std::string_view() : "data: [DONE]\n\n";
}

std::string stream_error(Dialect dialect, const net::HttpError& error) {
  if (framing_of(dialect) == Framing::lines) return error_json(dialect, error) + '\n';
  if (dialect == Dialect::openai_responses) {
    std::string data;
    JsonWriter json(data);
    json.open('{').field("type", "error").field_or_null("code", error.code).field("message", error.message);
    json.field_or_null("param", error.param).close('}');
    return net::sse_event(data, "error");
  }
  std::string out = net::sse_event(error_json(dialect, error), dialect == Dialect::anthropic ? "error" : "");
  out += stream_end(dialect);
  return out;
}

Error unsupported_parameter(std::string message, std::string field) {
  return bad_request(std::move(message), std::move(field), "unsupported_parameter");
}

}  // namespace espalier::server
