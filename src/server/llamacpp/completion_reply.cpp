#include "server/llamacpp/completion_reply.h"

#include <algorithm>
#include <utility>

#include "base/json/json_fields.h"
#include "net/http/sse.h"
#include "server/delivery/token_name.h"

namespace espalier::server {
namespace {

std::string_view stop_type(const TextEnd& end) {
  if (end.reason == FinishReason::length) return "limit";
  if (end.reason != FinishReason::stop) return "none";
  return end.matched_string ? "word" : "eos";
}

void write_entry(JsonWriter& json, const Tokenizer* tokenizer, TokenId id, double logprob) {
  json.field("id", id).field("token", token_name(tokenizer, id));
  write_token_bytes(json, tokenizer, id);
  json.field("logprob", logprob);
}

void append_entry(std::string& list, const Tokenizer* tokenizer, const TokenEvent& token) {
  if (!list.empty()) list += ',';
  std::string entry;
  JsonWriter json(entry);
  json.open('{');
  write_entry(json, tokenizer, token.id, token.logprob);
  json.key("top_logprobs").open('[');
  for (const TokenLogprob& each : token.alternatives.top) {
    json.open('{');
    write_entry(json, tokenizer, each.token, each.logprob);
    json.close('}');
  }
  json.close(']').close('}');
  list += entry;
}

}  // namespace

LlamaCppReply::LlamaCppReply(LlamaCppReplyOptions options) : options_(std::move(options)) {
  choices_.resize(options_.prompts.size() * static_cast<std::size_t>(options_.n));
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    choices_[i].index = static_cast<int>(i);
    choices_[i].prompt = static_cast<int>(i) / options_.n;
  }
}

double LlamaCppReply::ms() const {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun_).count();
}

void LlamaCppReply::add(int prompt, TextEvent event, std::string& out) {
  const auto choice_of = [&](int number) -> Choice& {
    return choices_[static_cast<std::size_t>(prompt) * options_.n + number];
  };
  if (const auto* delta = std::get_if<TextDelta>(&event)) {
    on_token(choice_of(delta->choice), *delta, out);
  } else if (auto* end = std::get_if<TextEnd>(&event)) {
    on_end(choice_of(end->choice), std::move(*end), out);
  }
}

void LlamaCppReply::on_token(Choice& choice, const TextDelta& delta, std::string& out) {
  if (choice.tokens++ == 0) choice.first_ms = ms();
  choice.cached = delta.token.cached_tokens;
  choice.text += delta.text;
  if (!delta.token.ends) {
    choice.ids.push_back(delta.token.id);
    if (options_.probabilities) append_entry(choice.entries, options_.tokenizer, delta.token);
  }
  if (options_.stream && !choice.text.empty()) write_event(out, choice);
}

void LlamaCppReply::on_end(Choice& choice, TextEnd end, std::string& out) {
  choice.text += end.text;
  choice.tokens = end.usage.completion_tokens;
  choice.cached = end.usage.cached_tokens;
  choice.end = std::move(end);
  if (!options_.stream) return;
  if (!choice.text.empty() || !choice.ids.empty()) write_event(out, choice);
  net::append_sse_event(out, whole(choice));
}

void LlamaCppReply::write_head(JsonWriter& json, const Choice& choice, bool tells_tokens) const {
  json.field("index", choice.index).field("content", choice.text).key("tokens");
  json.values(std::span<const TokenId>(choice.ids).first(tells_tokens ? choice.ids.size() : 0));
}

void LlamaCppReply::write_entries(JsonWriter& json, const Choice& choice) const {
  if (options_.probabilities) json.key("completion_probabilities").raw("[" + choice.entries + "]");
}

// What is new of a choice that goes on.
void LlamaCppReply::write_event(std::string& out, Choice& choice) {
  choice.has_new_line |= choice.text.find('\n') != std::string::npos;
  std::string data;
  JsonWriter json(data);
  json.open('{');
  write_head(json, choice, true);
  const int prompt = static_cast<int>(options_.prompts[static_cast<std::size_t>(choice.prompt)].size());
  json.field("stop", false).field("id_slot", options_.slot);
  json.field("tokens_predicted", choice.tokens).field("tokens_evaluated", prompt);
  if (options_.timings_per_token)
    write_timings(json,
                  {choice.cached, prompt - choice.cached, choice.tokens, choice.first_ms, ms() - choice.first_ms});
  write_entries(json, choice);
  json.close('}');
  net::append_sse_event(out, data);
  choice.text.clear();
  choice.ids.clear();
  choice.entries.clear();
}

std::string LlamaCppReply::whole(const Choice& choice) const {
  const auto& ids = options_.prompts[static_cast<std::size_t>(choice.prompt)];
  const int prompt = static_cast<int>(ids.size());
  const TextEnd& end = choice.end;
  std::string out;
  JsonWriter json(out);
  json.open('{');
  write_head(json, choice, options_.tokens && !options_.stream);
  json.field("id_slot", options_.slot).field("stop", true).field("model", options_.model);
  json.field("tokens_predicted", choice.tokens).field("tokens_evaluated", prompt);
  json.key("generation_settings").raw(options_.settings);
  json.field("prompt", options_.tokenizer == nullptr ? std::string() : options_.tokenizer->decode(ids));
  json.field("has_new_line", choice.has_new_line || choice.text.find('\n') != std::string::npos);
  json.field("truncated", end.reason == FinishReason::length && prompt + choice.tokens >= options_.context_length);
  json.field("stop_type", stop_type(end)).field("stopping_word", end.matched_string.value_or(""));
  json.field("tokens_cached", prompt + std::max(choice.tokens - 1, 0));
  const Timing& t = end.timing;
  write_timings(json, {choice.cached, prompt - choice.cached, choice.tokens, (t.first_token - t.queued) * 1000,
                       (t.finished - t.first_token) * 1000});
  if (!options_.stream) write_entries(json, choice);
  json.close('}');
  return options_.fields.empty() ? out : selected_fields(out, options_.fields);
}

void LlamaCppReply::finish(std::string& out) {
  if (options_.stream) return;
  if (choices_.size() == 1) {
    out += whole(choices_.front());
    return;
  }
  JsonWriter json(out);
  json.open('[');
  for (const Choice& choice : choices_) json.raw(whole(choice));
  json.close(']');
}

std::string selected_fields(const std::string& object, const std::vector<std::string>& names) {
  const auto parsed = parse_json(object);
  Json selected = Json::object();
  if (!parsed.ok()) return json_text(selected);
  for (const std::string& name : names) {
    const Json* at = &*parsed;
    for (std::size_t from = 0; at != nullptr && from <= name.size();) {
      const std::size_t to = std::min(name.find('/', from), name.size());
      at = find_field(*at, std::string_view(name).substr(from, to - from));
      from = to + 1;
    }
    if (at != nullptr) selected[name] = *at;
  }
  return json_text(selected);
}

}  // namespace espalier::server
