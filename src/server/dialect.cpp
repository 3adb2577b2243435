#include "server/dialect.h"

#include <cctype>
#include <span>

#include "server/json_writer.h"

namespace espalier::server {
namespace {

struct Alias {
  std::string_view ours, theirs;
};

constexpr Alias kCompletions[] = {{"max_new_tokens", "max_tokens"}, {"min_new_tokens", "min_tokens"},
                                  {"input_ids", "prompt"},          {"sampling_seed", "seed"},
                                  {"top_logprobs_num", "logprobs"}, {"logprob_start_len", "echo"}};
constexpr Alias kChat[] = {{"max_new_tokens", "max_completion_tokens"},
                           {"min_new_tokens", "min_tokens"},
                           {"input_ids", "messages"},
                           {"sampling_seed", "seed"},
                           {"top_logprobs_num", "top_logprobs"}};

std::span<const Alias> aliases(Dialect dialect) {
  if (dialect == Dialect::openai_completions) return kCompletions;
  if (dialect == Dialect::openai_chat) return kChat;
  return {};
}

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

void replace_word(std::string& text, std::string_view word, std::string_view by) {
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at)) {
    const std::size_t end = at + word.size();
    const bool whole = (at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end]));
    if (whole) text.replace(at, word.size(), by);
    at += whole ? by.size() : word.size();
  }
}

void write_fields(JsonWriter& json, const net::HttpError& error) {
  json.field("message", error.message).field("type", error.type());
  json.field_or_null("param", error.param);
}

}  // namespace

Dialect dialect_of(std::string_view path) {
  return path.starts_with("/v1/") ? Dialect::openai : Dialect::native;
}

Error renamed(Dialect dialect, Error error) {
  for (const auto& [ours, theirs] : aliases(dialect)) {
    replace_word(error.message, ours, theirs);
    if (error.field == ours) error.field = theirs;
  }
  return error;
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
  net::HttpError http = net::http_error(renamed(dialect, error));
  if (http.retry_after_seconds > 0) http.retry_after_seconds = retry_after;
  return error_response(dialect, http);
}

Error unsupported_parameter(std::string message, std::string field) {
  return bad_request(std::move(message), std::move(field), "unsupported_parameter");
}

}  // namespace espalier::server
