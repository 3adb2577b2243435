#include "server/delivery/dialect.h"

#include "server/delivery/json_writer.h"

namespace espalier::server {
namespace {

void write_fields(JsonWriter& json, const net::HttpError& error) {
  json.field("message", error.message).field("type", error.type());
  json.field_or_null("param", error.param);
}

}  // namespace

Dialect dialect_of(std::string_view path, std::string_view api_prefix) {
  while (api_prefix.ends_with('/')) api_prefix.remove_suffix(1);
  if (path.starts_with(api_prefix)) path.remove_prefix(api_prefix.size());
  return path.starts_with("/v1/") ? Dialect::openai : Dialect::native;
}

std::string error_json(Dialect dialect, const net::HttpError& error) {
  std::string out;
  JsonWriter json(out);
  json.open('{').key("error").open('{');
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

Error unsupported_parameter(std::string message, std::string field) {
  return bad_request(std::move(message), std::move(field), "unsupported_parameter");
}

}  // namespace espalier::server
