#include "server/openai/completions.h"

#include <fmt/format.h>

#include <set>

#include "server/fields/request_names.h"
#include "server/fields/sampling_fields.h"
#include "server/prompt/infill.h"

namespace espalier::server {
namespace {

using B = CompletionBody;

constexpr int kDefaultTokens = 16;

Result<> read_logprobs(B& out, const Json& value, std::string_view place) {
  if (value.is_boolean()) {  // some clients send chat's form
    out.logprobs = value.get<bool>() ? 1 : -1;
    return success();
  }
  ESP_TRY(out.logprobs, as_int(value, place, {0, 1e9}));
  return success();
}

Result<> read_max_tokens(B& out, const Json& value, std::string_view place) {
  ESP_TRY(out.sampling.max_new_tokens, as_int(value, place, {0, 1e9}));
  return success();
}

constexpr FieldRow<B> kRows[] = {
    {"max_tokens", &read_max_tokens, "16", "0 only together with echo; cut to what the context leaves"},
    {"echo", &B::echo, "false", "the prompt before the output, also in logprobs"},
    {"logprobs", &read_logprobs, "none", "0..20 (--max-logprobs) likeliest tokens at every position"},
    {"add_special_tokens", &B::add_special_tokens, "true", "put the model's begin token before the prompt"},
    {"special_tokens_in_text", &read_special_tokens<B, &B::special_as_text>, "special", kSpecialTokensMeaning},
};

}  // namespace

std::span<const FieldRow<CompletionBody>> completion_rows() {
  return kRows;
}

std::vector<std::string> unknown_completion_fields(const Json& body) {
  static const KnownNames known = KnownNames()
                                      .with(completion_rows())
                                      .with(openai_constraint_rows())
                                      .with(openai_rows())
                                      .with(openai_sampling_rows())
                                      .with(refused_sampling_fields())
                                      .with(refused_openai_fields())
                                      .with({"prompt"})
                                      .with(openai_accepted_names());
  return known.unknown_in(body);
}

Result<CompletionBody> parse_completion(const Json& body, const ServerOptions& options) {
  CompletionBody out;
  ESP_CHECK(refuse_unread_constraints(body, unknown_completion_fields(body)));
  ESP_CHECK(read_fields(body, openai_sampling_rows(), out.sampling));
  ESP_TRY(out.common, read_openai_fields(body, out.sampling));
  out.sampling.max_new_tokens = kDefaultTokens;
  ESP_CHECK(read_fields(body, completion_rows(), out));
  if (*out.sampling.max_new_tokens == 0 && !out.echo) {
    return bad_request("max_tokens is 0, but must be at least 1 (0 only together with echo)", "max_tokens");
  }
  ESP_CHECK(check_logprobs_asked("logprobs", out.logprobs, options));
  const Json* prompt = find_field(body, "prompt");
  if (prompt == nullptr) return bad_request("prompt is missing", "prompt");
  ESP_TRY(out.prompts, parse_prompts(*prompt, "prompt", options.max_prompts));
  return out;
}

CompletionReply::CompletionReply(OpenAiReplyOptions options, std::vector<std::string> echoes, int top)
    : OpenAiReply(std::move(options)), echoes_(std::move(echoes)), top_(top) {}

void CompletionReply::begin_choice(Choice& choice) {
  if (!echoes_.empty()) choice.text += echoes_[static_cast<std::size_t>(choice.prompt)];
}

void CompletionReply::add_prompt_logprobs(Choice& choice, const PromptLogprobsEvent& event) {
  const auto& ids = options().prompt_ids[static_cast<std::size_t>(choice.prompt)];
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto start = static_cast<std::size_t>(event.start);
    const bool known = i >= start && i - start < event.logprobs.size();
    const bool has_top = known && i - start < event.alternatives.size();
    add_position(choice, ids[i], known ? &event.logprobs[i - start] : nullptr,
                 has_top ? &event.alternatives[i - start] : nullptr, false);
  }
}

void CompletionReply::add_logprob(Choice& choice, const TokenEvent& token) {
  add_position(choice, token.id, &token.logprob, &token.alternatives, true);
}

namespace {

std::string shown_name(const Tokenizer* tokenizer, TokenId id) {
  std::string name = token_name(tokenizer, id);
  if (is_utf8(name)) return name;
  std::string bytes = "bytes:";  // OpenAI's spelling of tokens that are no characters
  for (const char c : name) bytes += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return bytes;
}

void comma(std::string& list) {
  if (!list.empty()) list += ',';
}

// {"text": logprob, ...}, the chosen token among them. Two tokens may have the same text; the likelier one stands.
void append_top(std::string& out, const Tokenizer* tokenizer, const Alternatives& alternatives, TokenLogprob chosen) {
  std::set<std::string> seen;
  out += '{';
  const auto put = [&](const TokenLogprob& entry) {
    std::string name = shown_name(tokenizer, entry.token);
    if (!seen.insert(name).second) return;
    if (seen.size() > 1) out += ',';
    append_json_string(out, name);
    out += ':';
    append_json_number(out, entry.logprob);
  };
  for (const auto& entry : alternatives.top) put(entry);
  put(chosen);
  out += '}';
}

}  // namespace

void CompletionReply::add_position(Choice& choice, TokenId id, const double* logprob, const Alternatives* alternatives,
                                   bool output) {
  const Tokenizer* tokenizer = options().tokenizer;
  LogprobLists& lists = choice.logprobs;
  for (std::string* list : {&lists.tokens, &lists.token_logprobs, &lists.top, &lists.text_offset}) comma(*list);
  append_json_string(lists.tokens, shown_name(tokenizer, id));
  fmt::format_to(std::back_inserter(lists.text_offset), "{}", choice.offset);
  const bool hidden = output && tokenizer != nullptr && tokenizer->is_special(id);
  for (const char c : token_bytes_of(tokenizer, id)) {
    if (!hidden && (static_cast<unsigned char>(c) & 0xc0u) != 0x80u) ++choice.offset;
  }
  if (logprob == nullptr) {
    lists.token_logprobs += "null";
    lists.top += "null";
    return;
  }
  append_json_number(lists.token_logprobs, *logprob);
  if (top_ == 0 || alternatives == nullptr) {
    lists.top += "null";
    return;
  }
  append_top(lists.top, tokenizer, *alternatives, {id, *logprob});
}

void CompletionReply::write_logprobs(JsonWriter& json, const Choice& choice) {
  const LogprobLists& lists = choice.logprobs;
  const auto list = [&](std::string_view name, const std::string& values) { json.key(name).raw("[" + values + "]"); };
  json.open('{');
  list("tokens", lists.tokens);
  list("token_logprobs", lists.token_logprobs);
  if (top_ == 0)
    json.key("top_logprobs").null();
  else
    list("top_logprobs", lists.top);
  list("text_offset", lists.text_offset);
  json.close('}');
}

namespace {

std::string echo_of(const ServedModel& model, const Prompt& prompt) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  const auto& ids = std::get<std::vector<TokenId>>(prompt);
  return model.tokenizer() == nullptr ? std::string() : model.tokenizer()->decode(ids);
}

Result<Request> request_of(const Call& call, CompletionBody& body, std::size_t i) {
  const Prompt& prompt = body.prompts.prompts[i];
  std::string place = body.prompts.is_batch ? fmt::format("prompt[{}]", i) : "prompt";
  ESP_TRY(RequestFields fields, common_request(call, body.common, body.sampling, i, body.prompts.prompts.size()));
  const auto* text = std::get_if<std::string>(&prompt);
  if (!body.common.suffix.empty()) {
    if (text == nullptr) return bad_request("suffix needs a prompt that is a text", "suffix");
    ESP_TRY(fields.prompt, encode_infill(*call.model, {*text, body.common.suffix, {}}, "suffix"));
  } else if (text != nullptr) {
    const bool as_text = is_special_text(body.special_as_text, call.service.options);
    ESP_TRY(fields.prompt, encode_text(*call.model, *text, {body.add_special_tokens, !as_text}, place));
  } else {
    fields.prompt = std::get<std::vector<TokenId>>(prompt);
  }
  ESP_TRY(fields.prediction, predicted_tokens(*call.model, body.common));
  fields.logprobs.enabled |= body.logprobs >= 0;
  fields.logprobs.top = std::max(body.logprobs, 0);
  fields.logprobs.prompt_start = body.echo && body.logprobs >= 0 ? 0 : -1;
  return make_request(std::move(fields), call.model->limits(), completion_names(std::move(place)));
}

}  // namespace

Result<Generation> complete(Call& call) {
  if (const Json* text = find_field(call.body, "prompt")) ESP_CHECK(check_prompt_bytes(*call.model, *text, "prompt"));
  ESP_TRY(CompletionBody body, parse_completion(call.body, call.service.options));
  ESP_CHECK(call.service.unknown_fields.note(unknown_completion_fields(call.body), "/v1/completions"));
  forget_schemas(call);
  ESP_CHECK(call.check_model_name(body.common.model));

  Generation generation;
  generation.dialect = Dialect::openai_completions;
  generation.stream = body.common.stream;
  OpenAiReplyOptions options = common_reply(call, body.common, "cmpl-", body.sampling.n);
  options.object = options.chunk_object = "text_completion";
  options.logprobs = body.logprobs >= 0;
  options.prompt_logprobs = options.logprobs && body.echo;
  std::vector<std::string> echoes;
  for (std::size_t i = 0; i < body.prompts.prompts.size(); ++i) {
    ESP_TRY(Request request, request_of(call, body, i));
    if (body.echo) echoes.push_back(echo_of(*call.model, body.prompts.prompts[i]));
    if (!body.common.rid.empty()) generation.claimed_ids.push_back(request.id());
    options.prompt_ids.push_back(request.prompt());
    generation.requests.push_back(std::move(request));
  }
  const int top = std::max(body.logprobs, 0);
  generation.reply = std::make_unique<CompletionReply>(std::move(options), std::move(echoes), top);
  return generation;
}

Result<> add_completion_routes(net::Router& router, Service& service) {
  return router.add(net::Method::post, "/v1/completions",
                    generating(service, Dialect::openai_completions, complete, AdapterUse::each));
}

}  // namespace espalier::server
