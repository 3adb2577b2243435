// POST /api/chat and /api/generate: Ollama's dialect.
#include <fmt/format.h>

#include <algorithm>

#include "server/answer/treatment.h"
#include "server/fields/request_names.h"
#include "server/media/media_reader.h"
#include "server/media/prepare_media.h"
#include "server/ollama/ollama_body.h"
#include "server/ollama/ollama_reply.h"
#include "server/prompt/media_prompt.h"
#include "server/prompt/sampling_defaults.h"
#include "server/routes/routes.h"
#include "text/chat/chat_template.h"

namespace espalier::server {
namespace {

std::vector<Alias> ollama_names(std::string prompt) {
  return {{"max_new_tokens", "options.num_predict"},
          {"repetition_penalty", "options.repeat_penalty"},
          {"input_ids", std::move(prompt)},
          {"sampling_seed", "options.seed"},
          {"top_logprobs_num", "top_logprobs"}};
}

// Ollama's templates are written in another language than the model's.
Result<> check_template(const ServedModel& model, const std::string& given) {
  if (given.empty()) return success();
  const auto own = model.need_template("template");
  if (own.ok() && (*own)->source() == given) return success();
  return bad_request(
      "template is not accepted from requests; send the whole prompt with raw, or start the server with "
      "--chat-template",
      "template", "unsupported_parameter");
}

// The new turn goes on behind what was said before: it has no begin token of its own.
void put_behind(std::vector<TokenId> context, const Tokenizer* tokenizer, RequestFields& fields) {
  std::vector<TokenId>& prompt = fields.prompt;
  if (context.empty()) return;
  const auto bos = tokenizer == nullptr ? std::nullopt : tokenizer->bos();
  const bool begins = bos && !prompt.empty() && prompt.front() == *bos && context.front() == *bos;
  const auto moved = static_cast<int>(context.size()) - (begins ? 1 : 0);
  for (PictureInput& picture : fields.pictures)
    for (PictureInput::Span& span : picture.spans) span.first += moved;
  context.insert(context.end(), prompt.begin() + (begins ? 1 : 0), prompt.end());
  prompt = std::move(context);
}

// Tokens of pictures say nothing without them.
Result<> check_context(const ServedModel& model, const std::vector<TokenId>& context) {
  if (model.media == nullptr) return success();
  for (const TokenId id : context)
    if (id == model.media->tokens(false).token_id)
      return bad_request("context is of a turn with pictures, which it does not hold: use /api/chat with all messages",
                         "context");
  return success();
}

// Sets prompt and constraint; says how the answer is read.
Result<ChatReading> begin_prompt(const Call& call, OllamaBody& body, RequestFields& fields) {
  if (body.prompt == OllamaBody::Prompt::conversation) {
    ESP_CHECK(check_context(*call.model, body.context));
    ESP_TRY(ChatReading reading, begin_chat_turn(call, body.turn, body.constraint, fields));
    put_behind(std::move(body.context), call.model->tokenizer(), fields);
    return reading;
  }
  ESP_CHECK(constrain(call, body.constraint, fields));
  if (body.prompt == OllamaBody::Prompt::infill) {
    ESP_TRY(fields.prompt, encode_infill(*call.model, body.infill, "suffix"));
  } else {
    const bool as_text = is_special_text({}, call.service.options);
    if (body.media.empty()) {
      ESP_TRY(fields.prompt, encode_text(*call.model, body.text, {.parse_special = !as_text}, "prompt"));
    } else {
      ESP_TRY(const std::vector<Prepared> media, prepare_media(call, body.media));
      ESP_TRY(MediaPrompt made,
              encode_media_prompt(*call.model, Prompt(body.text), media, {.parse_special = !as_text}, "prompt"));
      fields.prompt = std::move(made.ids);
      fields.pictures = std::move(made.pictures);
    }
  }
  return ChatReading{};
}

// 0 lets the model go when its last request is answered. Other times count where models may go at all: a server of one
// model, to which its operator gave no idle time, keeps it.
Result<> keep_model(const Call& call, const OllamaBody& body) {
  if (!body.keep_alive) return success();
  ModelSet& models = call.service.models;
  ESP_TRY(const auto target, NamedAdapters::target(call.service.adapters, call.service.models, body.model, call.body));
  const int place = target.place;
  if (*body.keep_alive == 0 && body.prompt == OllamaBody::Prompt::nothing) {
    if (models.list()[static_cast<std::size_t>(place)].may_leave) ESP_CHECK(models.unload(place));
    return success();
  }
  const bool may_go = models.count() > 1 || call.service.options.model_idle > 0;
  return may_go || *body.keep_alive <= 0 ? models.keep(place, *body.keep_alive) : success();
}

Result<> answer_ollama(Call& call, OllamaBody body, bool chat, net::HttpRequest& http, net::Responder& responder) {
  ESP_CHECK(call.service.unknown_fields.note(unknown_ollama_fields(call.body), chat ? "/api/chat" : "/api/generate"));
  ESP_CHECK(call.check_model_name(body.model));
  ESP_CHECK(check_template(*call.model, body.chat_template));
  const std::string name = body.model.empty() ? call.model_name() : body.model;
  if (body.thinks && call.model->thinking_format == nullptr)
    return bad_request(fmt::format("\"{}\" does not support thinking", name), "think", "unsupported_parameter");
  ESP_CHECK(keep_model(call, body));
  if (body.prompt == OllamaBody::Prompt::nothing) {
    const bool unloads = body.keep_alive == 0.0;
    respond(call.service, http, responder, net::HttpResponse::json(200, ollama_loaded(name, chat, unloads)));
    return success();
  }
  ESP_TRY(RequestFields fields, treatment(call, body, http.id));
  fields.sampling = body.sampling;
  fields.logprobs.enabled = body.logprobs;
  fields.logprobs.top = body.top_logprobs;
  ESP_TRY(ChatReading reading, begin_prompt(call, body, fields));
  ESP_TRY(Request request,
          make_request(std::move(fields), call.model->limits(), ollama_names(chat ? "messages" : "prompt")));
  OllamaReplyOptions reply;
  reply.model = name;
  reply.chat = chat;
  reply.stream = body.stream;
  reply.logprobs = body.logprobs;
  reply.tells_context = !chat && body.prompt == OllamaBody::Prompt::conversation;
  reply.prompt = request.prompt();
  reply.reading = std::move(reading.options);
  reply.tokenizer = call.model->tokenizer();

  Generation generation;
  generation.headers = std::move(reading.headers);
  generation.dialect = Dialect::ollama;
  generation.stream = body.stream;
  generation.reply = std::make_unique<OllamaReply>(std::move(reply));
  generation.requests.push_back(std::move(request));
  Delivery::begin(call.service, call.model, std::move(http), std::move(responder), std::move(generation));
  return success();
}

Result<> ollama_chat(Call& call, net::HttpRequest& http, net::Responder& responder) {
  const ServerOptions& options = call.service.options;
  ESP_TRY(OllamaBody body, parse_ollama_chat(call.body, options, chat_defaults(call.model->info(), options)));
  return answer_ollama(call, std::move(body), true, http, responder);
}

Result<> ollama_generate(Call& call, net::HttpRequest& http, net::Responder& responder) {
  const ServerOptions& options = call.service.options;
  if (const Json* prompt = find_field(call.body, "prompt"))
    ESP_CHECK(check_prompt_bytes(*call.model, *prompt, "prompt"));
  ESP_TRY(OllamaBody body, parse_ollama_generate(call.body, options, chat_defaults(call.model->info(), options)));
  return answer_ollama(call, std::move(body), false, http, responder);
}

}  // namespace

Result<> add_ollama_routes(net::Router& router, Service& service) {
  using net::Method;
  ESP_CHECK(router.add(Method::post, "/api/chat", serving(service, Dialect::ollama, ollama_chat)));
  ESP_CHECK(router.add(Method::post, "/api/generate", serving(service, Dialect::ollama, ollama_generate)));
  return add_ollama_model_routes(router, service);
}

}  // namespace espalier::server
