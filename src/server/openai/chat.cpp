#include "server/openai/chat.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/fields/request_names.h"
#include "server/fields/sampling_fields.h"
#include "server/openai/stored_chats.h"
#include "server/prompt/sampling_defaults.h"
#include "text/chat/chat_template.h"

namespace espalier::server {
namespace {

using B = ChatBody;

Result<> read_input_ids(B& out, const Json& value, std::string_view place) {
  ESP_TRY(out.turn.input_ids, as_token_ids(value, place));
  return success();
}

Result<> read_separate_reasoning(B& out, const Json& value, std::string_view place) {
  ESP_TRY(out.turn.separate_thinking, as_bool(value, place));
  return success();
}

constexpr FieldRow<B> kRows[] = {
    {"max_completion_tokens",
     &B::max_completion_tokens,
     "to the context limit",
     "cut to what the context leaves",
     {1, 1e9}},
    {"max_tokens", &B::max_tokens, "none", "the older name; max_completion_tokens wins", {1, 1e9}},
    {"logprobs", &B::logprobs, "false", "log-probabilities of the output's tokens"},
    {"top_logprobs", &B::top_logprobs, "0", "0..20 (--max-logprobs) likeliest tokens at every position", {0, 1e9}},
    {"input_ids", &read_input_ids, "none", "token ids instead of rendering the messages"},
    {"separate_reasoning", &read_separate_reasoning, "true",
     "reasoning_content apart from content (--reasoning-parser)"},
    {"store", &B::store, "false", "the answer is kept: GET /v1/chat/completions/{id} (--data-dir)"},
    {"stream_reasoning", &B::stream_reasoning, "true", "in a stream as it comes; else in one piece"},
};

Result<> check_logprobs(const ChatBody& body, const ServerOptions& options) {
  ESP_CHECK(check_logprobs_asked("top_logprobs", body.top_logprobs, options));
  if (body.top_logprobs > 0 && !body.logprobs) {
    return bad_request("top_logprobs needs logprobs to be true", "top_logprobs");
  }
  return success();
}

}  // namespace

std::span<const FieldRow<ChatBody>> chat_rows() {
  return kRows;
}

std::vector<std::string> unknown_chat_fields(const Json& body) {
  static const KnownNames known = KnownNames()
                                      .with(chat_rows())
                                      .with(openai_constraint_rows())
                                      .with(openai_rows())
                                      .with(openai_sampling_rows())
                                      .with(chat_prompt_rows())
                                      .with(refused_sampling_fields())
                                      .with(refused_openai_fields())
                                      .with(chat_prompt_names())
                                      .with(openai_accepted_names());
  return known.unknown_in(body);
}

Result<ChatBody> parse_chat(const Json& body, const ServerOptions& options, const SamplingParams& defaults) {
  ChatBody out;
  out.sampling = defaults;
  ESP_CHECK(refuse_unread_constraints(body, unknown_chat_fields(body)));
  ESP_CHECK(read_fields(body, openai_sampling_rows(), out.sampling));
  ESP_TRY(out.common, read_openai_fields(body, out.sampling));
  if (!out.common.suffix.empty())
    return unsupported_parameter("suffix belongs to /v1/completions; leave it out", "suffix");
  out.turn.has_ids = find_field(body, "input_ids") != nullptr;
  if (!out.turn.has_ids || find_field(body, "messages") != nullptr) {
    ESP_TRY(out.turn.prompt, parse_chat_prompt(body, options));
  }
  ESP_CHECK(read_fields(body, chat_rows(), out));
  ESP_CHECK(check_logprobs(out, options));
  if (out.turn.has_ids && out.turn.input_ids.empty())
    return bad_request("input_ids is empty; it needs at least one token", "input_ids");
  out.sampling.max_new_tokens = out.max_completion_tokens ? out.max_completion_tokens : out.max_tokens;
  return out;
}

void ChatReply::write_entry(std::string& out, TokenId id, double logprob, const std::vector<TokenLogprob>* top) const {
  JsonWriter json(out);
  json.open('{');
  write_token_entry(json, options().tokenizer, id, logprob);
  if (top != nullptr) {
    json.key("top_logprobs").open('[');
    std::string entry;
    for (const auto& alternative : *top) {
      entry.clear();
      write_entry(entry, alternative.token, alternative.logprob, nullptr);
      json.raw(entry);
    }
    json.close(']');
  }
  json.close('}');
}

void ChatReply::add_logprob(Choice& choice, const TokenEvent& token) {
  std::string& list = choice.logprobs.entries;
  if (!list.empty()) list += ',';
  std::string entry;
  write_entry(entry, token.id, token.logprob, &token.alternatives.top);
  list += entry;
}

void ChatReply::write_opening(JsonWriter& json, const Choice&) {
  json.key("delta").open('{').field("role", "assistant").field("content", "").key("refusal").null().close('}');
}

namespace {

void write_function(JsonWriter& json, std::string_view name, std::string_view arguments) {
  json.key("function").open('{').field("name", name).field("arguments", arguments).close('}');
}

}  // namespace

void ChatReply::write_message(JsonWriter& json, const Choice& choice) {
  json.key("message").open('{').field("role", "assistant").key("content");
  if (choice.text.empty() && !choice.calls.empty())
    json.null();
  else
    json.value(choice.text);
  if (options().tells_reasoning) json.field_or_null("reasoning_content", choice.reasoning);
  if (!choice.calls.empty()) {
    json.key("tool_calls").open('[');
    for (const ChoiceCall& call : choice.calls) {
      json.open('{').field("id", call.id).field("type", "function");
      write_function(json, call.name, call.arguments);
      json.close('}');
    }
    json.close(']');
  }
  json.key("refusal").null().close('}');
}

void ChatReply::write_text(JsonWriter& json, const Choice& choice) {
  if (!options().stream) return write_message(json, choice);
  json.key("delta").open('{');
  if (tells_reasoning(choice)) json.field("reasoning_content", choice.reasoning);
  if (!choice.text.empty()) json.field("content", choice.text);
  if (!choice.pending.empty()) {
    json.key("tool_calls").open('[');
    for (const CallPiece& piece : choice.pending) {
      json.open('{').field("index", piece.index);
      if (piece.begins) {
        const ChoiceCall& call = choice.calls[static_cast<std::size_t>(piece.index)];
        json.field("id", call.id).field("type", "function");
        write_function(json, call.name, piece.arguments);
      } else {
        json.key("function").open('{').field("arguments", piece.arguments).close('}');
      }
      json.close('}');
    }
    json.close(']');
  }
  json.close('}');
}

void ChatReply::write_logprobs(JsonWriter& json, const Choice& choice) {
  json.open('{').key("content").raw("[" + choice.logprobs.entries + "]").close('}');
}

namespace {

std::unique_ptr<Reply> reply_of(Service& service, OpenAiReplyOptions options, std::optional<ChatToStore> to_store) {
  if (!to_store) return std::make_unique<ChatReply>(std::move(options));
  OpenAiReplyOptions whole = options;
  whole.stream = false;
  return std::make_unique<StoredChatReply>(service, *std::move(to_store),
                                           std::make_unique<ChatReply>(std::move(options)),
                                           std::make_unique<ChatReply>(std::move(whole)));
}

}  // namespace

Result<Generation> chat(Call& call) {
  const ServerOptions& options = call.service.options;
  ESP_TRY(ChatBody body, parse_chat(call.body, options, chat_defaults(call.model->info(), options)));
  ESP_CHECK(call.service.unknown_fields.note(unknown_chat_fields(call.body), "/v1/chat/completions"));
  std::optional<ChatToStore> to_store;
  if (body.store) {
    ESP_TRY(to_store, chat_to_store(call.body, call.service.keys->owner(call.http)));
  }
  forget_schemas(call);
  ESP_CHECK(call.check_model_name(body.common.model));

  ESP_TRY(RequestFields fields, common_fields(call, body.common, body.sampling, 0, 1));
  ESP_TRY(ChatReading reading, begin_chat_turn(call, body.turn, body.common.constraint, fields));
  ESP_TRY(fields.prediction, predicted_tokens(*call.model, body.common));
  fields.logprobs.enabled |= body.logprobs;
  fields.logprobs.top = body.top_logprobs;
  const auto names =
      chat_names(body.turn.has_ids ? "input_ids" : "messages",
                 body.max_completion_tokens || !body.max_tokens ? "max_completion_tokens" : "max_tokens");
  ESP_TRY(Request request, make_request(std::move(fields), call.model->limits(), names));

  OpenAiReplyOptions reply = common_reply(call, body.common, "chatcmpl-", body.sampling.n);
  reply.object = "chat.completion";
  reply.chunk_object = "chat.completion.chunk";
  reply.logprobs = body.logprobs;
  reply.reading = std::move(reading.options);
  reply.only_calls = reading.only_calls;
  reply.tells_reasoning = reading.thinks;
  reply.stream_reasoning = body.stream_reasoning;
  reply.prompt_ids.push_back(request.prompt());
  if (!request.fields().pictures.empty()) reply.image_tokens.emplace_back(request.fields().pictures);

  Generation generation;
  generation.headers = std::move(reading.headers);
  generation.dialect = Dialect::openai_chat;
  generation.stream = body.common.stream;
  generation.waits_for_disk = to_store.has_value();
  if (!body.common.rid.empty()) generation.claimed_ids.push_back(request.id());
  generation.reply = reply_of(call.service, std::move(reply), std::move(to_store));
  generation.requests.push_back(std::move(request));
  return generation;
}

Result<> add_chat_routes(net::Router& router, Service& service) {
  return router.add(net::Method::post, "/v1/chat/completions", generating(service, Dialect::openai_chat, chat));
}

}  // namespace espalier::server
