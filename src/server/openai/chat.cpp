#include "server/openai/chat.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "server/answer/answer_plan.h"
#include "server/answer/call_constraint.h"
#include "server/fields/request_names.h"
#include "server/fields/sampling_fields.h"
#include "text/chat_template.h"

namespace espalier::server {
namespace {

using B = ChatBody;

constexpr FieldRow<B> kRows[] = {
    {"max_completion_tokens",
     &B::max_completion_tokens,
     "to the context limit",
     "cut to what the context leaves",
     {1, 1e9}},
    {"max_tokens", &B::max_tokens, "none", "the older name; max_completion_tokens wins", {1, 1e9}},
    {"logprobs", &B::logprobs, "false", "log-probabilities of the output's tokens"},
    {"top_logprobs", &B::top_logprobs, "0", "0..20 (--max-logprobs) likeliest tokens at every position", {0, 1e9}},
    {"input_ids", &B::input_ids, "none", "token ids instead of rendering the messages"},
    {"separate_reasoning", &B::separate_reasoning, "true", "reasoning_content apart from content (--reasoning-parser)"},
    {"stream_reasoning", &B::stream_reasoning, "true", "in a stream as it comes; else in one piece"},
};

Result<> check_logprobs(const ChatBody& body, const ServerOptions& options) {
  if (body.top_logprobs > options.max_logprobs) {
    return bad_request(fmt::format("top_logprobs is {}, but at most {} are given (--max-logprobs)", body.top_logprobs,
                                   options.max_logprobs),
                       "top_logprobs");
  }
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

SamplingParams chat_defaults(const ModelInfo& model, const ServerOptions& options) {
  SamplingParams defaults;
  if (options.sampling_defaults != "model") return defaults;
  defaults.temperature = model.temperature.value_or(defaults.temperature);
  defaults.top_p = model.top_p.value_or(defaults.top_p);
  defaults.top_k = model.top_k.value_or(defaults.top_k);
  defaults.min_p = model.min_p.value_or(defaults.min_p);
  defaults.repetition_penalty = model.repetition_penalty.value_or(defaults.repetition_penalty);
  // A file may hold anything; what it gets wrong is not the client's fault.
  return defaults.validate(std::max(model.limits.vocabulary, 1)).ok() ? defaults : SamplingParams{};
}

Result<ChatBody> parse_chat(const Json& body, const ServerOptions& options, const SamplingParams& defaults) {
  ChatBody out;
  out.sampling = defaults;
  ESP_CHECK(refuse_unread_constraints(body, unknown_chat_fields(body)));
  ESP_CHECK(read_fields(body, openai_sampling_rows(), out.sampling));
  ESP_TRY(out.common, read_openai_fields(body, out.sampling));
  out.has_ids = find_field(body, "input_ids") != nullptr;
  if (!out.has_ids || find_field(body, "messages") != nullptr) {
    ESP_TRY(out.prompt, parse_chat_prompt(body, options));
  }
  ESP_CHECK(read_fields(body, chat_rows(), out));
  ESP_CHECK(check_logprobs(out, options));
  if (out.has_ids && out.input_ids.empty())
    return bad_request("input_ids is empty; it needs at least one token", "input_ids");
  out.sampling.max_new_tokens = out.max_completion_tokens ? out.max_completion_tokens : out.max_tokens;
  return out;
}

void ChatReply::write_entry(std::string& out, TokenId id, double logprob, const std::vector<TokenLogprob>* top) const {
  const Tokenizer* tokenizer = options().tokenizer;
  JsonWriter json(out);
  json.open('{').field("token", token_name(tokenizer, id)).field("logprob", logprob).key("bytes").open('[');
  for (const char c : token_bytes_of(tokenizer, id)) json.value(static_cast<int>(static_cast<unsigned char>(c)));
  json.close(']');
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
  std::string& list = choice.logprobs[0];
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
  json.open('{').key("content").raw("[" + choice.logprobs[0] + "]").close('}');
}

namespace {

// A template that knows no tools leaves them out: the answer says so, for it looks like one that was given them.
void note_dropped_tools(const Call& call, const ChatPrompt& prompt, net::Headers& headers) {
  if (prompt.tools.shown.is_null()) return;
  const auto chat_template = call.model->need_template("messages");
  if (!chat_template.ok() || (*chat_template)->mentions("tools")) return;
  headers.set("warning", "199 espalier \"the model's chat template knows no tools: they were left out\"");
  if (!call.service.told_tools.exchange(true)) {
    log::warning("the chat template of {} knows no tools: those of requests are left out; this is said once",
                 call.model->name());
  }
}

// In which format an answer calls tools, and whether all of it has a form.
struct CallForms {
  const CallFormat* format = nullptr;
  bool whole = false;
};

// Adds the constraint that calls need to the body's own.
Result<CallForms> call_forms(const ServedModel& model, const ToolFields& tools, ConstraintFields& constraint) {
  const bool asked = constraint.constraint.kind != Constraint::Kind::none;
  if (!tools.offers()) return CallForms{nullptr, asked};
  if (tools.choice == ToolFields::Choice::required) {
    if (asked)
      return bad_request(fmt::format("tool_choice forces a call, which does not go with {}", constraint.place),
                         "tool_choice");
    CallConstraint calls = required_calls(tools, model.call_format);
    constraint.constraint = std::move(calls.constraint);
    constraint.place = "tools";
    return CallForms{calls.format, true};
  }
  if (!asked) {
    if (auto calls = free_calls(tools, model.call_format)) {
      constraint.constraint = std::move(calls->constraint);
      constraint.place = "tools";
    }
  }
  return CallForms{model.call_format, asked};
}

}  // namespace

Result<Generation> chat(Call& call) {
  const ServerOptions& options = call.service.options;
  ESP_TRY(ChatBody body, parse_chat(call.body, options, chat_defaults(call.model->info(), options)));
  ESP_CHECK(call.service.unknown_fields.note(unknown_chat_fields(call.body), "/v1/chat/completions"));
  forget_schemas(call);
  ESP_CHECK(call.model->check_name(body.common.model));

  const ToolFields& tools = body.prompt.tools;
  ESP_TRY(const CallForms forms, call_forms(*call.model, tools, body.common.constraint));
  ESP_TRY(RequestFields fields, common_request(call, body.common, body.sampling, 0, 1));
  AnswerBefore before;
  ChatTokens tokens;
  if (body.has_ids) {
    fields.prompt = std::move(body.input_ids);
    before.prompt = fields.prompt;
  } else {
    ESP_TRY(tokens, encode_chat_turn(*call.model, body.prompt, options, call.model->thinking_format != nullptr));
    fields.prompt = std::move(tokens.ids);
    before.opening = tokens.opening;
  }
  AnswerPlan plan = plan_answer(call, before, forms.whole, forms.format, &tools);
  if (fields.grammar) fields.thinking = plan.thinking;
  fields.shown_special = plan.shown_special;
  fields.logprobs.enabled |= body.logprobs;
  fields.logprobs.top = body.top_logprobs;
  const auto names =
      chat_names(body.has_ids ? "input_ids" : "messages",
                 body.max_completion_tokens || !body.max_tokens ? "max_completion_tokens" : "max_tokens");
  ESP_TRY(Request request, make_request(std::move(fields), call.model->limits(), names));

  OpenAiReplyOptions reply = common_reply(call, body.common, "chatcmpl-", body.sampling.n);
  reply.object = "chat.completion";
  reply.chunk_object = "chat.completion.chunk";
  reply.logprobs = body.logprobs;
  if (!body.separate_reasoning && (plan.reading.thinking == nullptr || !plan.reading.thinking->harmony))
    plan.reading.thinking = nullptr;
  reply.reading = std::move(plan.reading);
  reply.only_calls = tools.offers() && tools.choice == ToolFields::Choice::required;
  reply.tells_reasoning = body.separate_reasoning && call.model->thinking_format != nullptr;
  reply.stream_reasoning = body.stream_reasoning;
  reply.prompt_ids.push_back(request.prompt());

  Generation generation;
  if (!body.has_ids) note_dropped_tools(call, body.prompt, generation.headers);
  generation.dialect = Dialect::openai_chat;
  generation.stream = body.common.stream;
  if (!body.common.rid.empty()) generation.claimed_ids.push_back(request.id());
  generation.reply = std::make_unique<ChatReply>(std::move(reply));
  generation.requests.push_back(std::move(request));
  return generation;
}

Result<> add_chat_routes(net::Router& router, Service& service) {
  return router.add(net::Method::post, "/v1/chat/completions", generating(service, Dialect::openai_chat, chat));
}

}  // namespace espalier::server
