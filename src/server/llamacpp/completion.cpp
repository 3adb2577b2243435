// POST /completion, /completions and /infill: llama.cpp's dialect.
#include <fmt/format.h>

#include "server/answer/treatment.h"
#include "server/fields/request_names.h"
#include "server/llamacpp/completion_body.h"
#include "server/llamacpp/completion_reply.h"
#include "server/prompt/sampling_defaults.h"
#include "server/routes/handler.h"
#include "server/routes/routes.h"

namespace espalier::server {
namespace {

std::vector<Alias> llamacpp_names(std::string prompt) {
  return {{"max_new_tokens", "n_predict"},
          {"repetition_penalty", "repeat_penalty"},
          {"input_ids", std::move(prompt)},
          {"sampling_seed", "seed"},
          {"top_logprobs_num", "n_probs"}};
}

Result<std::vector<MediaPrompt>> encode_prompts(const Call& call, const LlamaCppBody& body) {
  std::vector<MediaPrompt> prompts;
  if (body.infill) {
    ESP_TRY(auto ids, encode_infill(*call.model, *body.infill, "input_suffix"));
    prompts.push_back({std::move(ids), {}});
    return prompts;
  }
  const EncodeOptions encoding{.parse_special = !is_special_text({}, call.service.options)};
  for (std::size_t i = 0; i < body.prompts.size(); ++i) {
    const std::string place = body.prompts.size() > 1 ? fmt::format("prompt[{}]", i) : "prompt";
    ESP_TRY(MediaPrompt prompt, encode_mixed(call, body.prompts[i], encoding, place));
    if (prompt.ids.empty()) return bad_request(place + " is empty; it needs at least one token", place);
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

Result<Request> request_for(const Call& call, LlamaCppBody& body, MediaPrompt prompt, std::size_t i) {
  const bool several = body.prompts.size() > 1;
  ESP_TRY(RequestFields fields, treatment(call, body, several ? fmt::format("{}_{}", call.http.id, i) : call.http.id, i,
                                          body.prompts.size()));
  ESP_CHECK(constrain(call, body.constraint, fields));
  fields.sampling = body.sampling;
  fields.prompt = std::move(prompt.ids);
  fields.pictures = std::move(prompt.pictures);
  fields.logprobs.enabled = body.probabilities > 0;
  fields.logprobs.top = body.probabilities;
  const auto names = llamacpp_names(body.infill ? "input_prefix" : several ? fmt::format("prompt[{}]", i) : "prompt");
  return make_request(std::move(fields), call.model->limits(), names);
}

LlamaCppReplyOptions llamacpp_reply(const Call& call, const LlamaCppBody& body) {
  LlamaCppReplyOptions options;
  options.model = call.model_name();
  options.stream = body.stream;
  options.probabilities = body.probabilities > 0;
  options.tokens = body.return_tokens;
  options.timings_per_token = body.timings_per_token;
  options.fields = body.response_fields;
  options.n = body.sampling.n;
  options.slot = body.slot;
  options.context_length = call.model->limits().context_length;
  options.tokenizer = call.model->tokenizer();
  JsonWriter json(options.settings);
  write_settings(json, body.sampling, {body.stream, body.probabilities, body.timings_per_token});
  return options;
}

Result<Generation> generation_of(Call& call, LlamaCppBody body, const char* route) {
  ESP_CHECK(call.service.unknown_fields.note(unknown_llamacpp_fields(call.body), route));
  forget_schemas(call);
  ESP_CHECK(call.check_model_name(body.model));
  ESP_CHECK(apply_bias(body.sampling, body.biases, call.model->tokenizer(), "logit_bias"));
  ESP_TRY(auto prompts, encode_prompts(call, body));
  Generation generation;
  generation.dialect = Dialect::llamacpp;
  generation.stream = body.stream;
  LlamaCppReplyOptions reply = llamacpp_reply(call, body);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    ESP_TRY(Request request, request_for(call, body, std::move(prompts[i]), i));
    reply.prompts.push_back(request.prompt());
    generation.requests.push_back(std::move(request));
  }
  generation.reply = std::make_unique<LlamaCppReply>(std::move(reply));
  return generation;
}

Result<Generation> completion(Call& call) {
  const ServerOptions& options = call.service.options;
  if (const Json* prompt = find_field(call.body, "prompt"))
    ESP_CHECK(check_prompt_bytes(*call.model, *prompt, "prompt"));
  ESP_TRY(LlamaCppBody body, parse_llamacpp_completion(call.body, options, chat_defaults(call.model->info(), options)));
  return generation_of(call, std::move(body), "/completion");
}

Result<Generation> infill(Call& call) {
  const ServerOptions& options = call.service.options;
  for (const char* field : {"input_prefix", "input_suffix"})
    if (const Json* text = find_field(call.body, field)) ESP_CHECK(check_prompt_bytes(*call.model, *text, field));
  ESP_TRY(LlamaCppBody body, parse_llamacpp_infill(call.body, options, chat_defaults(call.model->info(), options)));
  return generation_of(call, std::move(body), "/infill");
}

}  // namespace

Result<> add_llamacpp_routes(net::Router& router, Service& service) {
  using net::Method;
  for (const char* path : {"/completion", "/completions"})
    ESP_CHECK(router.add(Method::post, path, generating(service, Dialect::llamacpp, completion)));
  ESP_CHECK(router.add(Method::post, "/infill", generating(service, Dialect::llamacpp, infill)));
  return add_props_routes(router, service);
}

}  // namespace espalier::server
