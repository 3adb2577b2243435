#include "server/native/generate.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/answer/answer_plan.h"
#include "server/answer/treatment.h"
#include "server/fields/request_names.h"
#include "server/media/prepare_media.h"
#include "server/native/generate_reply.h"
#include "server/native/segments.h"
#include "server/native/select.h"
#include "server/openai/body_fields.h"  // request_id, treatment
#include "server/prompt/media_prompt.h"

namespace espalier::server {
namespace {

constexpr std::int64_t kManyLogprobs = 20'000;  // of one request: their formatting goes to the slow pool

// Log-probabilities that the request may ask for altogether: positions times tokens at each.
std::int64_t logprob_entries(const Request& request) {
  const LogprobFields& asked = request.fields().logprobs;
  if (!asked.enabled) return 0;
  const auto length = static_cast<std::int64_t>(request.prompt().size());
  const std::int64_t prompt = asked.prompt_start < 0 ? 0 : length - asked.prompt_start;
  const std::int64_t each = 1 + asked.top + static_cast<std::int64_t>(asked.ids.size());
  return (prompt + request.max_new_tokens()) * each * request.sampling().n;
}

// A turn of a session takes what comes out of its request.
class SessionTurn final : public RequestObserver {
 public:
  SessionTurn(std::shared_ptr<ServedModel> model, std::unique_ptr<Sessions::Turn> turn)
      : model_(std::move(model)), turn_(std::move(turn)) {}
  void accepted() override {
    for (const std::string& rid : turn_->accepted()) model_->engine->cancel(rid);
  }
  void token(int, TokenId id) override { turn_->add(id); }
  Result<> ended() override {
    turn_->keep();
    return success();
  }

 private:
  const std::shared_ptr<ServedModel> model_;
  std::unique_ptr<Sessions::Turn> turn_;
};

// What a turn of a session brings, its pictures with their files.
Result<SessionPrompt> session_prompt(const Call& call, const GenerateItem& item, const MediaPrompt& prompt) {
  SessionPrompt added{prompt.ids, {}};
  ESP_TRY(const std::vector<MediaSource> files, with_own_files(call, item.media));
  for (std::size_t i = 0; i < prompt.pictures.size(); ++i)
    added.pictures.push_back({std::make_shared<const MediaSource>(files[prompt.media[i]]), prompt.pictures[i].spans});
  return added;
}

// The prompt of a turn is all that came before it, and the new tokens.
Result<> continue_session(const Call& call, const GenerateItem& item, const MediaPrompt& prompt, RequestFields& fields,
                          Generation& generation) {
  ESP_TRY(SessionPrompt added, session_prompt(call, item, prompt));
  ESP_TRY(Sessions::Begun begun, call.service.sessions.begin(*item.session, session_owner(call), fields.id,
                                                             std::move(added), call.model->info().bos));
  std::vector<MediaSource> former;
  for (std::size_t i = 0; i < begun.former_pictures; ++i) former.push_back(*begun.prompt.pictures[i].file);
  ESP_TRY(const std::vector<Prepared> media, prepare_media(call, former));
  fields.pictures.clear();
  for (std::size_t i = 0; i < begun.prompt.pictures.size(); ++i) {
    fields.pictures.push_back(i < media.size() ? picture_input_of(media[i])
                                               : prompt.pictures[i - begun.former_pictures]);
    fields.pictures.back().spans = begun.prompt.pictures[i].spans;
  }
  fields.prompt = std::move(begun.prompt.tokens);
  generation.observer = std::make_unique<SessionTurn>(call.model, std::move(begun.turn));
  return success();
}

Result<std::optional<Thinking>> required_thinking(const Call& call, std::span<const TokenId> prompt) {
  if (call.model->thinking_format == nullptr)
    return bad_request("require_reasoning needs a model whose chat template shows how it thinks, or --reasoning-parser",
                       "require_reasoning");
  AnswerPlan plan = plan_answer(call, {.opening = std::nullopt, .prompt = prompt}, true, nullptr, nullptr);
  return plan.leaves_thinking ? std::move(plan.thinking) : std::nullopt;
}

Result<Request> request_of(const Call& call, GenerateBody& body, std::size_t i, Generation& generation) {
  const GenerateItem& item = body.items[i];
  const std::size_t count = body.items.size();
  std::string place = std::holds_alternative<std::string>(item.prompt) ? "text" : "input_ids";
  if (body.is_batch) place += fmt::format("[{}]", i);
  ESP_TRY(RequestFields fields,
          treatment(call, item, item.rid.empty() ? request_id(call.http, {}, i, count) : item.rid, i, count));
  ConstraintFields& constraint = body.items[item.constraint_of].constraint;
  ESP_CHECK(constrain(call, constraint, fields));
  EncodeOptions encoding{.parse_special = !is_special_text(item.special_as_text, call.service.options)};
  encoding.continues = item.session && !item.session->rid.empty();
  ESP_TRY(const std::vector<Prepared> media, prepare_media(call, item.media));
  ESP_TRY(MediaPrompt prompt, encode_media_prompt(*call.model, item.prompt, media, encoding, place));
  if (item.session) {
    ESP_CHECK(continue_session(call, item, prompt, fields, generation));
  } else {
    fields.prompt = std::move(prompt.ids);
    fields.pictures = std::move(prompt.pictures);
  }
  if (fields.grammar && item.require_reasoning) {
    ESP_TRY(fields.thinking, required_thinking(call, fields.prompt));
  }
  fields.sampling = item.sampling;
  fields.logprobs.enabled = item.return_logprob;
  if (item.return_logprob) {
    fields.logprobs.top = item.top_logprobs_num;
    fields.logprobs.ids = item.token_ids_logprob;
    fields.logprobs.prompt_start = first_scored(prompt_logprobs_asked(item, call.model->limits().vocabulary),
                                                static_cast<int>(fields.prompt.size()));
  }
  return make_request(std::move(fields), call.model->limits(), native_names(std::move(place)));
}

GenerateReplyOptions::Prompt reply_prompt(const Request& request, const GenerateItem& item, int vocabulary) {
  GenerateReplyOptions::Prompt prompt;
  prompt.id = request.id();
  prompt.ids = request.prompt();
  prompt.layout = prompt_logprob_layout(prompt_logprobs_asked(item, vocabulary));
  prompt.logprobs = item.return_logprob;
  prompt.texts = item.return_text;
  prompt.top = item.top_logprobs_num > 0;
  prompt.constrained = request.fields().grammar != nullptr;
  prompt.asked_ids = !item.token_ids_logprob.empty();
  prompt.image_tokens = ImageTokens(request.fields().pictures);
  return prompt;
}

// Of a text without a token there is nothing to compute.
Generation nothing_to_do(const Call& call, const GenerateItem& item, GenerateReplyOptions options) {
  GenerateReplyOptions::Prompt prompt;
  prompt.id = item.rid.empty() ? request_id(call.http, {}, 0, 1) : item.rid;
  options.prompts.push_back(std::move(prompt));
  auto reply = std::make_unique<GenerateReply>(std::move(options));
  TextEnd end;
  end.reason = FinishReason::length;
  std::string events;  // none: it is not streamed
  reply->add(0, std::move(end), events);
  Generation generation;
  generation.reply = std::move(reply);
  return generation;
}

Result<bool> has_no_token(const Call& call, const GenerateItem& item) {
  const auto* text = std::get_if<std::string>(&item.prompt);
  if (text == nullptr || !text->empty()) return false;
  ESP_TRY(const auto ids, encode_prompt(*call.model, item.prompt, {}, "text"));  // a begin token, perhaps
  return ids.empty();
}

GenerateReplyOptions reply_options(const Call& call, const GenerateBody& body) {
  GenerateReplyOptions options;
  options.n = body.items.front().sampling.n;
  options.is_list = body.is_batch || options.n > 1;
  options.stream = body.stream;
  options.incremental = call.service.options.incremental_streaming_output;
  options.prompt_ids = body.return_prompt_ids;
  options.weight_version = call.service.options.weight_version;
  options.tokenizer = call.model->tokenizer();
  return options;
}

// Who computes a prompt tells its log-probabilities: sglang-router puts them in front of the output's.
Result<> leave_prompts_to_others(const Call& call, GenerateBody& body) {
  for (std::size_t i = 0; i < body.items.size(); ++i) {
    ESP_TRY(const auto handoff, handoff_of(call, i, body.items.size()));
    if (handoff && handoff->part == Handoff::Part::output) body.items[i].logprob_start_len = -1;
  }
  return success();
}

// {"src_rids": [...], "dst_rid": "..."}: SGLang's front end joins a fork's branches and then posts this, to have their
// keys and values put together. It holds the joined text itself and sends the whole of it with the next request, whose
// parts the tree finds; so nothing is left to do, and the names, which no request of ours bore, need not be known.
Result<net::HttpResponse> append_branches(Call& call) {
  const Json* sources = find_field(call.body, "src_rids");
  if (sources == nullptr) return bad_request("src_rids is missing; send a list of strings", "src_rids");
  ESP_CHECK(as_strings(*sources, "src_rids"));
  ESP_TRY(const std::string into, find_short_string(call.body, "dst_rid", kMostIdBytes));
  if (into.empty()) return bad_request("dst_rid is missing; send a string", "dst_rid");
  return net::HttpResponse::json(200, "{}");
}

}  // namespace

Result<Generation> generate(Call& call) {
  if (find_field(call.body, "segments") != nullptr) {
    ESP_CHECK(call.adapters.check_count(1));
    ESP_CHECK(call.service.unknown_fields.note(unknown_generate_fields(call.body), "/generate"));
    return generate_segments(call);
  }
  if (const Json* text = find_field(call.body, "text")) ESP_CHECK(check_prompt_bytes(*call.model, *text, "text"));
  ESP_TRY(GenerateBody body, parse_generate(call.body, call.service.options));
  ESP_CHECK(call.service.unknown_fields.note(unknown_generate_fields(call.body), "/generate"));
  forget_schemas(call);
  ESP_TRY(const auto name, find_string(call.body, "model"));
  ESP_CHECK(call.check_model_name(name.value_or("")));
  ESP_CHECK(call.adapters.check_count(body.items.size()));

  ESP_CHECK(leave_prompts_to_others(call, body));

  if (!body.items.front().constraint.choices_method.empty()) return select_choice(call, body);

  Generation generation;
  generation.stream = body.stream;
  GenerateReplyOptions options = reply_options(call, body);
  ESP_TRY(const bool nothing, has_no_token(call, body.items.front()));
  if (nothing) return nothing_to_do(call, body.items.front(), std::move(options));
  std::int64_t entries = 0;
  for (std::size_t i = 0; i < body.items.size(); ++i) {
    ESP_TRY(Request request, request_of(call, body, i, generation));
    entries += logprob_entries(request);
    if (!body.items[i].rid.empty()) generation.claimed_ids.push_back(request.id());
    options.prompts.push_back(reply_prompt(request, body.items[i], call.model->limits().vocabulary));
    generation.requests.push_back(std::move(request));
  }
  if (entries > call.service.options.max_logprob_entries) {
    return bad_request(
        fmt::format("the request may ask for {} log-probabilities, but at most {} are given at once; ask for "
                    "fewer positions (max_new_tokens, logprob_start_len) or a smaller top_logprobs_num",
                    entries, call.service.options.max_logprob_entries),
        "top_logprobs_num");
  }
  generation.many_logprobs = entries > kManyLogprobs;
  if (generation.many_logprobs) {
    ESP_TRY(generation.charge, call.service.logprob_budget.charge(
                                   entries, "too many log-probabilities are being made at once; try again later"));
  }
  generation.reply = std::make_unique<GenerateReply>(std::move(options));
  return generation;
}

Result<> add_generate_routes(net::Router& router, Service& service) {
  ESP_CHECK(router.add(net::Method::post, "/concate_and_append_request",
                       answering(service, Dialect::native, append_branches)));
  for (const net::Method method : {net::Method::post, net::Method::put}) {
    ESP_CHECK(router.add(method, "/generate", generating(service, Dialect::native, generate, AdapterUse::each)));
  }
  return success();
}

}  // namespace espalier::server
