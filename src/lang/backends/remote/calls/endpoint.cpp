#include "lang/backends/remote/calls/endpoint.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/json/json_fields.h"
#include "net/client/url.h"

namespace espalier::lang {
namespace {

constexpr std::size_t kMostQuoted = 600;

std::string text_field(const Json& object, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const Json* value = find_field(object, name); value && value->is_string()) return value->get<std::string>();
  return {};
}

struct Sentence {
  std::string text, code, field;
};

// {"error": {"message"}}, {"error": "..."}, {"message"}, {"detail"}, and Google's list of one.
Sentence sentence_of(const Json& reply) {
  const Json& body = reply.is_array() && !reply.empty() ? reply.front() : reply;
  const Json* error = find_field(body, "error");
  if (error && error->is_string()) return {error->get<std::string>(), {}, {}};
  const Json& holder = error ? *error : body;
  return {text_field(holder, {"message", "detail", "error"}), text_field(holder, {"code", "status", "type"}),
          text_field(holder, {"param"})};
}

std::string cut(std::string_view text) {
  return text.size() <= kMostQuoted ? std::string(text) : std::string(text.substr(0, kMostQuoted)) + "...";
}

}  // namespace

Result<Endpoint> open_endpoint(std::string name, std::string base_url, net::Headers credentials,
                               const ConnectionOptions& connection) {
  while (base_url.ends_with('/')) base_url.pop_back();
  auto url = net::parse_url(base_url);
  if (!url.ok()) return bad_request(fmt::format("base_url: {}", url.error().message), "base_url");
  if (connection.retry.tries < 1) return bad_request("retry.tries must be at least 1", "retry.tries");
  if (connection.most_at_once < 1) return bad_request("most_at_once must be at least 1", "most_at_once");
  for (const auto& field : credentials)
    if (!net::valid_field_value(field.value))
      return bad_request("the key holds a control character: is there a line feed at its end?", "api_key");
  return Endpoint{std::move(name), std::move(base_url), std::move(credentials), connection};
}

std::string given_or_environment(const std::string& given, std::initializer_list<const char*> variables) {
  if (!given.empty()) return given;
  for (const char* variable : variables)
    if (const char* value = std::getenv(variable); value && *value) return value;
  return {};
}

Error refusal(const std::string& name, int status, std::string_view body) {
  Sentence sentence;
  if (auto reply = parse_json(body); reply.ok()) sentence = sentence_of(*reply);
  if (sentence.text.empty()) sentence.text = cut(body.empty() ? "without a word" : body);
  return {net::kind_of_status(status), fmt::format("{} answered {}: {}", name, status, cut(sentence.text)),
          std::move(sentence.field), std::move(sentence.code)};
}

std::optional<Error> told_error(const std::string& name, const Json& message) {
  const Json* error = find_field(message, "error");
  if (!error) return std::nullopt;
  const Sentence sentence = sentence_of(message);
  const Json* code = find_field(*error, "code");
  const int status = code && code->is_number_integer() ? code->get<int>() : 500;
  return Error{net::kind_of_status(status), fmt::format("{} ended the answer: {}", name, cut(sentence.text)),
               sentence.field, sentence.code};
}

}  // namespace espalier::lang
