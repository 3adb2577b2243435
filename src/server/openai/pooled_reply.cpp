#include "server/openai/pooled_reply.h"

#include <ctime>

#include "net/http/error_body.h"

namespace espalier::server {
namespace {

void write_error(JsonWriter& json, const Error& error) {
  const net::HttpError http = net::http_error(error);
  json.key("error").open('{').field("message", http.message).field("type", http.type());
  json.field_or_null("param", http.param).field_or_null("code", http.code).close('}');
}

}  // namespace

std::string PooledListReply::write(std::vector<PooledText>& texts) const {
  std::string out;
  JsonWriter json(out);
  json.open('{');
  if (!id.empty()) json.field("id", id);
  json.field("object", "list");
  if (!id.empty()) json.field("created", static_cast<std::int64_t>(std::time(nullptr)));
  json.key("data").open('[');
  for (std::size_t i = 0; i < texts.size(); ++i) {
    PooledText& text = texts[i];
    json.open('{').field("object", text.error ? std::string_view("error") : element).field("index", i);
    if (text.error) {
      json.key(empty_field).null();
      write_error(json, *text.error);
    } else {
      fill(json, text);
      text.pooled.values = {};
    }
    json.close('}');
  }
  json.close(']').field("model", model);
  write_usage(json, texts);
  json.close('}');
  return out;
}

void write_usage(JsonWriter& json, const std::vector<PooledText>& texts) {
  int cached = 0, written = 0;
  for (const PooledText& text : texts) {
    cached += text.usage.cached_tokens;
    written += text.usage.completion_tokens;
  }
  const int tokens = prompt_tokens(texts);
  json.key("usage").open('{').field("prompt_tokens", tokens).field("total_tokens", tokens + written);
  json.field("completion_tokens", written).key("prompt_tokens_details").open('{');
  json.field("cached_tokens", cached).close('}').close('}');
}

}  // namespace espalier::server
