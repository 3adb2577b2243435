#include "server/ollama/ollama_reply.h"

#include <fmt/chrono.h>

#include <utility>

#include "base/json/json.h"
#include "server/admission/keys.h"
#include "server/answer/call_id.h"
#include "server/delivery/token_name.h"

namespace espalier::server {
namespace {

std::int64_t nanoseconds(double seconds) {
  return static_cast<std::int64_t>(std::max(0.0, seconds) * 1e9);
}

}  // namespace

std::string ollama_time(std::chrono::system_clock::time_point when) {
  const auto since = when.time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since);
  const auto rest = std::chrono::duration_cast<std::chrono::nanoseconds>(since - seconds);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:09}Z", fmt::gmtime(static_cast<std::time_t>(seconds.count())),
                     rest.count());
}

OllamaReply::OllamaReply(OllamaReplyOptions options) : options_(std::move(options)) {
  if (options_.reading.calls || options_.reading.thinking) parser_.emplace(options_.reading);
}

void OllamaReply::add(int, TextEvent event, std::string& out) {
  if (const auto* delta = std::get_if<TextDelta>(&event)) {
    feed(delta->text);
    if (options_.tells_context) ids_.push_back(delta->token.id);
    if (options_.logprobs && !delta->token.ends) add_logprob(delta->token);
    tell(out);
  } else if (auto* end = std::get_if<TextEnd>(&event)) {
    feed(end->text);
    if (parser_) apply(parser_->finish());
    end_ = std::move(*end);
    tell(out);
  }
}

void OllamaReply::feed(std::string_view text) {
  if (parser_)
    apply(parser_->feed(text));
  else
    news_.text += text;
}

void OllamaReply::apply(const std::vector<AnswerEvent>& events) {
  for (const AnswerEvent& event : events) {
    if (const auto* text = std::get_if<TextPiece>(&event)) {
      news_.text += text->text;
    } else if (const auto* thinking = std::get_if<ThinkingPiece>(&event)) {
      news_.thinking += thinking->text;
    } else if (const auto* begun = std::get_if<CallBegun>(&event)) {
      call_ = {begun->name, {}, begun->id.empty() ? new_call_id("call_") : begun->id};
    } else if (const auto* piece = std::get_if<ArgumentsPiece>(&event)) {
      call_.arguments += piece->json;
    } else if (std::holds_alternative<CallEnded>(event)) {
      news_.calls.push_back(std::exchange(call_, {}));
    }
  }
}

void OllamaReply::add_logprob(const TokenEvent& token) {
  std::string entry;
  JsonWriter json(entry);
  json.open('{');
  write_token_entry(json, options_.tokenizer, token.id, token.logprob);
  if (!token.alternatives.top.empty()) {
    json.key("top_logprobs").open('[');
    for (const TokenLogprob& each : token.alternatives.top) {
      json.open('{');
      write_token_entry(json, options_.tokenizer, each.token, each.logprob);
      json.close('}');
    }
    json.close(']');
  }
  json.close('}');
  if (!news_.logprobs.empty()) news_.logprobs += ',';
  news_.logprobs += entry;
}

void OllamaReply::write_head(JsonWriter& json) const {
  json.field("model", options_.model).field("created_at", ollama_time(std::chrono::system_clock::now()));
}

// Arguments that are no object cannot be told as one.
void OllamaReply::write_calls(JsonWriter& json) {
  json.key("tool_calls").open('[');
  for (const ToolCall& call : news_.calls) {
    const auto arguments = parse_json(call.arguments);
    json.open('{').field("id", call.id).key("function").open('{').field("index", calls_++).field("name", call.name);
    json.key("arguments").raw(arguments.ok() && arguments->is_object() ? json_text(*arguments) : "{}");
    json.close('}').close('}');
  }
  json.close(']');
}

void OllamaReply::write_news(JsonWriter& json) {
  if (options_.chat)
    json.key("message").open('{').field("role", "assistant").field("content", news_.text);
  else
    json.field("response", news_.text);
  if (!news_.thinking.empty()) json.field("thinking", news_.thinking);
  if (!news_.calls.empty()) write_calls(json);
  if (options_.chat) json.close('}');
  if (!news_.logprobs.empty()) json.key("logprobs").raw("[" + news_.logprobs + "]");
  news_ = {};
}

void OllamaReply::tell(std::string& out) {
  if (!options_.stream || news_.empty()) return;
  std::string line;
  JsonWriter json(line);
  json.open('{');
  write_head(json);
  write_news(json);
  json.field("done", false).close('}');
  out += line;
  out += '\n';
}

void OllamaReply::write_end(JsonWriter& json) const {
  json.field("done", true).field("done_reason", to_string(end_.reason));
  if (options_.tells_context) {
    std::vector<TokenId> all = options_.prompt;
    all.insert(all.end(), ids_.begin(), ids_.end());
    json.key("context").values(std::span<const TokenId>(all));
  }
  const Timing& t = end_.timing;
  json.field("total_duration", nanoseconds(t.finished)).field("load_duration", 0);
  json.field("prompt_eval_count", options_.prompt.size());
  json.field("prompt_eval_duration", nanoseconds(t.first_token - t.queued));
  json.field("eval_count", end_.usage.completion_tokens);
  json.field("eval_duration", nanoseconds(t.finished - t.first_token));
}

void OllamaReply::finish(std::string& out) {
  std::string object;
  JsonWriter json(object);
  json.open('{');
  write_head(json);
  write_news(json);
  write_end(json);
  json.close('}');
  out += object;
  if (options_.stream) out += '\n';
}

std::string hex_digest(std::string_view text) {
  std::string out;
  for (const unsigned char byte : sha256(text)) out += fmt::format("{:02x}", byte);
  return out;
}

std::string ollama_loaded(const std::string& model, bool chat, bool unloads) {
  std::string out;
  JsonWriter json(out);
  json.open('{').field("model", model).field("created_at", ollama_time(std::chrono::system_clock::now()));
  if (chat)
    json.key("message").open('{').field("role", "assistant").field("content", "").close('}');
  else
    json.field("response", "");
  json.field("done", true).field("done_reason", unloads ? "unload" : "load").close('}');
  return out;
}

}  // namespace espalier::server
