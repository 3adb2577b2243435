#include "espalier/request.h"

#include <fmt/format.h>

#include <algorithm>

#include "grammar/regex/stop_regex.h"
#include "model/adapters/adapter.h"
#include "sampling/noise.h"
#include "text/stream/stop_matcher.h"

namespace espalier {
namespace {

// Whether what the request wants is what the model gives.
Result<> check_purpose(const RequestFields& fields, const ModelLimits& limits) {
  if (fields.pooled.has_value() == limits.pools) return success();
  return Error{Error::Kind::bad_request,
               limits.pools ? "this model gives embeddings or scores and generates no text; ask for these, or serve a "
                              "generating model (--task generate, where the checkpoint has a language model's head)"
                            : "this model generates text; a server of an embedding model gives embeddings, and "
                              "--is-embedding makes one of this checkpoint",
               "model", "unsupported_parameter"};
}

Result<> check_pooled(const RequestFields& fields) {
  if (!fields.pooled) return success();
  const auto length = static_cast<int>(fields.prompt.size());
  if (fields.pooled->leave_out < 0 || fields.pooled->leave_out >= length)
    return bad_request("the text is empty behind its prompt", "input");
  if (fields.pooled->second_part < -1 || fields.pooled->second_part > length)
    return bad_request("the second part begins behind the end", "input");
  if (fields.sampling.n != 1 || fields.constraint.kind != Constraint::Kind::none || fields.thinking ||
      fields.logprobs.enabled || fields.logprobs.prompt_start >= 0)
    return bad_request("a text that is pooled generates nothing: it takes no fields of generation", "input");
  return success();
}

// A text that is continued leaves room for one token more.
Result<> check_prompt(const std::vector<TokenId>& prompt, const ModelLimits& limits) {
  if (prompt.empty()) return bad_request("the prompt is empty; it needs at least one token", "input_ids");
  for (std::size_t i = 0; i < prompt.size(); ++i)
    if (prompt[i] < 0 || prompt[i] >= limits.vocabulary)
      return bad_request(fmt::format("token {} at position {} is outside the vocabulary; ids go from 0 to {}",
                                     prompt[i], i, limits.vocabulary - 1),
                         "input_ids");
  const auto size = static_cast<std::int64_t>(prompt.size());
  const int further = limits.pools ? 0 : 1;
  if (size > limits.context_length - further)
    return bad_request(fmt::format("the prompt has {} tokens, but the context of {} leaves room for {} at most", size,
                                   limits.context_length, limits.context_length - further),
                       "input_ids", "context_length_exceeded");
  if (size > limits.pool_tokens - further)
    return bad_request(
        fmt::format(
            "the prompt has {} tokens, but the token pool of {} leaves room for {} at most (--max-total-tokens)", size,
            limits.pool_tokens, limits.pool_tokens - further),
        "input_ids", "context_length_exceeded");
  return success();
}

// How many rows a picture gives is for the model's tower to say (Engine::submit).
Result<> check_pictures(const RequestFields& fields, const ModelLimits& limits) {
  if (fields.pictures.empty()) return success();
  if (!limits.takes_pictures)
    return Error{Error::Kind::unsupported,
                 "this model takes no pictures: it has no vision tower, or one that is not supported here",
                 "image_data",
                 {}};
  std::int64_t behind = 0;  // the last span
  for (const PictureInput& picture : fields.pictures) {
    if (picture.pixels == nullptr || picture.spans.empty())
      return bad_request("a picture has no pixels or no image tokens in the prompt", "image_data");
    for (const PictureInput::Span& span : picture.spans) {
      const std::int64_t first = span.first, end = first + span.count;
      if (first < behind || span.count < 1 || end > std::ssize(fields.prompt))
        return bad_request(fmt::format("image tokens {} to {} lie outside the prompt of {} tokens or not in order",
                                       first, end - 1, fields.prompt.size()),
                           "image_data");
      behind = end;
    }
  }
  return success();
}

Result<> check_logprobs(const LogprobFields& logprobs, int prompt, const ModelLimits& limits) {
  if (logprobs.prompt_start < -1 || logprobs.prompt_start > prompt)
    return bad_request(
        fmt::format("logprob_start_len is {}; it may be -1 (outputs only) or 0 to {}, the length of the prompt",
                    logprobs.prompt_start, prompt),
        "logprob_start_len");
  if (logprobs.top < 0 || logprobs.top > limits.vocabulary)
    return bad_request(fmt::format("top_logprobs_num is {}; it may be 0 to {}, the size of the vocabulary",
                                   logprobs.top, limits.vocabulary),
                       "top_logprobs_num");
  for (TokenId id : logprobs.ids)
    if (id < 0 || id >= limits.vocabulary)
      return bad_request(
          fmt::format("token_ids_logprob names token {}; ids go from 0 to {}", id, limits.vocabulary - 1),
          "token_ids_logprob");
  return success();
}

Result<> check_thinking(const std::optional<Thinking>& thinking, const ModelLimits& limits) {
  if (!thinking) return success();
  if (!limits.has_tokenizer)
    return bad_request("thinking is told by its texts: the model has no tokenizer", "thinking");
  if (thinking->ends.empty()) return bad_request("thinking has no mark of its end", "thinking");
  for (const auto* marks : {&thinking->begins, &thinking->ends, &thinking->leaves})
    if (std::ranges::any_of(*marks, [](const std::string& mark) { return mark.empty(); }))
      return bad_request("a mark of thinking is empty", "thinking");
  for (const auto* tokens : {&thinking->begin, &thinking->opens, &thinking->close})
    if (std::ranges::any_of(*tokens, [&](TokenId id) { return id < 0 || id >= limits.vocabulary; }))
      return bad_request("a token of a mark of thinking is unknown", "thinking");
  if (!thinking->budget) return success();
  if (*thinking->budget < 0 || thinking->close.empty())
    return bad_request("the budget of thinking must be 0 or more tokens, and something must close it", "thinking");
  return success();
}

Result<std::shared_ptr<const Stops>> compiled_stops(const SamplingParams& sampling) {
  if (sampling.stop.empty() && sampling.stop_regex.empty()) return std::shared_ptr<const Stops>();
  auto stops = std::make_shared<Stops>();
  if (!sampling.stop.empty()) {
    ESP_TRY(stops->strings, StopStrings::make(sampling.stop));
  }
  if (!sampling.stop_regex.empty()) {
    ESP_TRY(stops->patterns, grammar::compile_stop_regex(sampling.stop_regex));
  }
  return std::shared_ptr<const Stops>(std::move(stops));
}

}  // namespace

// An adapter's keys and values are its own: its print tells it, whatever it is called. A body's scope begins with a digit.
std::string Request::scope_of(const RequestFields& fields) {
  if (fields.adapter == nullptr) return fields.scope;
  return fmt::format("adapter {}|{}", fields.adapter->print(), fields.scope);
}

std::string_view Request::adapter_in(std::string_view scope) {
  constexpr std::string_view kBegin = "adapter ";
  if (const auto behind = scope.find_first_not_of("0123456789"); behind != scope.npos && scope[behind] == '\x1f')
    scope.remove_prefix(behind + 1);  // the length that its angles are for (run/rope_lengths.h)
  if (!scope.starts_with(kBegin)) return {};
  scope.remove_prefix(kBegin.size());
  return scope.substr(0, scope.find('|'));
}

// Of a request whose output another server computes, only the prompt and one token.
void keep_own_part(RequestFields& fields) {
  if (!fields.handoff || fields.handoff->part == Handoff::Part::output) return;
  SamplingParams& sampling = fields.sampling;
  sampling.max_new_tokens = std::min(sampling.max_new_tokens.value_or(1), 1);
  sampling.min_new_tokens = 0;
  fields.json_closing = false;
}

Result<Request> Request::make(RequestFields fields, const ModelLimits& limits) {
  ESP_CHECK(check_purpose(fields, limits));
  ESP_CHECK(check_prompt(fields.prompt, limits));
  ESP_CHECK(check_pooled(fields));
  ESP_CHECK(check_pictures(fields, limits));
  ESP_CHECK(fields.sampling.validate(limits.vocabulary));
  ESP_CHECK(check_logprobs(fields.logprobs, static_cast<int>(fields.prompt.size()), limits));
  ESP_CHECK(check_thinking(fields.thinking, limits));
  for (const TokenId id : fields.prediction)
    if (id < 0 || id >= limits.vocabulary)
      return bad_request("a predicted token is outside the vocabulary", "prediction");
  keep_own_part(fields);
  const SamplingParams& sampling = fields.sampling;
  if (!sampling.stop.empty() && !limits.has_tokenizer)
    return bad_request("stop strings need a tokenizer, and this model has none; use stop_token_ids", "stop");
  if (!sampling.stop_regex.empty() && !limits.has_tokenizer)
    return bad_request("stop_regex needs a tokenizer, and this model has none; use stop_token_ids", "stop_regex");

  Request request;
  ESP_TRY(request.stops_, compiled_stops(sampling));
  const int prompt = static_cast<int>(fields.prompt.size());
  int room = std::min(limits.context_length, limits.pool_tokens) - prompt;
  if (limits.max_output > 0) room = std::min(room, limits.max_output);
  if (fields.pooled) room = 0;
  request.max_new_tokens_ = std::min(sampling.max_new_tokens.value_or(room), room);
  request.seed_ = sampling.seed ? *sampling.seed : random_seed();
  request.scope_ = scope_of(fields);
  if (fields.id.empty()) fields.id = fmt::format("{:016x}{:016x}", random_seed(), random_seed());
  request.fields_ = std::move(fields);
  return request;
}

}  // namespace espalier
