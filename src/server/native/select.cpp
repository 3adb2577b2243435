#include "server/native/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "lang/choices/choice_tokens.h"
#include "lang/choices/choices.h"
#include "server/answer/treatment.h"
#include "server/delivery/json_writer.h"
#include "server/fields/request_names.h"
#include "server/media/media_reader.h"
#include "server/media/prepare_media.h"
#include "server/native/generate.h"
#include "server/openai/body_fields.h"  // request_id, treatment
#include "server/prompt/media_prompt.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::server {
namespace {

Error in_field(Error error, std::string field) {
  error.field = std::move(field);
  return error;
}

struct Choice {
  std::string text;
  lang::ChoiceTokens tokens;  // with the prompt
};

class SelectReply final : public Reply {
 public:
  struct Options {
    std::string id, weight_version, method_name;
    lang::ChoicesRule method = lang::ChoicesRule::token_length_normalized;
    std::vector<Choice> choices;
    std::size_t prompt_tokens = 0;
    bool stream = false;
    const Tokenizer* tokenizer = nullptr;
  };
  explicit SelectReply(Options options) : options_(std::move(options)), scores_(options_.choices.size()) {}

  // The prompts: all choices; then, for the unconditional method, their own tokens alone.
  void add(int prompt, TextEvent event, std::string&) override {
    const auto index = static_cast<std::size_t>(prompt);
    const std::size_t choice = index % scores_.size();
    if (const auto* logprobs = std::get_if<PromptLogprobsEvent>(&event)) {
      if (index == choice)
        take(*logprobs, options_.choices[choice], scores_[choice].logprobs);
      else
        scores_[choice].unconditional.insert(scores_[choice].unconditional.end(), logprobs->logprobs.begin(),
                                             logprobs->logprobs.end());
    } else if (const auto* end = std::get_if<TextEnd>(&event)) {
      cached_ += end->usage.cached_tokens;
      if (end->timing.finished >= timing_.finished) timing_ = end->timing;
    }
  }

  void finish(std::string& out) override {
    for (std::size_t i = 0; i < scores_.size(); ++i) {
      if (options_.method != lang::ChoicesRule::unconditional_likelihood_normalized) break;
      auto& alone = scores_[i].unconditional;
      alone.insert(alone.begin(), 0.0);  // the first token has nothing before it
      alone.resize(scores_[i].logprobs.size());
    }
    std::string body;
    write(body, lang::decide(options_.method, scores_));
    if (options_.stream)
      out += "data: " + body + "\n\n";
    else
      out += body;
  }

 private:
  static void take(const PromptLogprobsEvent& event, const Choice& choice, std::vector<double>& out) {
    for (std::size_t at = choice.tokens.scored; at < choice.tokens.ids.size(); ++at) {
      const std::size_t i = at - static_cast<std::size_t>(event.start);
      if (i < event.logprobs.size()) out.push_back(event.logprobs[i]);
    }
  }

  void write(std::string& out, const lang::Decision& decision) const {
    const Choice& chosen = options_.choices[decision.choice];
    JsonWriter json(out);
    json.open('{').field("text", chosen.text).key("output_ids").values(chosen.tokens.own());
    json.key("meta_info").open('{').field("id", options_.id);
    json.key("finish_reason").open('{').field("type", "stop").key("matched").null().close('}');
    json.field("prompt_tokens", options_.prompt_tokens).field("completion_tokens", chosen.tokens.own().size());
    json.field("cached_tokens", cached_).field("weight_version", options_.weight_version);
    json.field("e2e_latency", timing_.finished).field("queue_time", timing_.queued);
    json.field("choice", decision.choice).field("choices_method", options_.method_name);
    numbers(json.key("normalized_prompt_logprobs"), decision.means);
    json.key("input_token_logprobs").open('[');
    for (std::size_t i = 0; i < scores_.size(); ++i)
      entries(json, scores_[i].logprobs, options_.choices[i].tokens.own());
    json.close(']').key("output_token_logprobs").open('[').close(']');
    if (!decision.matrix.empty()) {
      json.key("greedy_logprob_matrix").open('[');
      for (const auto& row : decision.matrix) numbers(json, row);
      json.close(']');
    }
    if (options_.method == lang::ChoicesRule::unconditional_likelihood_normalized) {
      json.key("unconditional_token_logprobs").open('[');
      for (std::size_t i = 0; i < scores_.size(); ++i)
        entries(json, scores_[i].unconditional, options_.choices[i].tokens.own());
      json.close(']');
      numbers(json.key("normalized_unconditional_prompt_logprobs"), decision.unconditional_means);
    }
    json.close('}').close('}');
  }

  static void numbers(JsonWriter& json, const std::vector<double>& values) {
    json.open('[');
    for (const double value : values) json.value(value);
    json.close(']');
  }
  void entries(JsonWriter& json, const std::vector<double>& values, std::span<const TokenId> ids) const {
    json.open('[');
    for (std::size_t i = 0; i < values.size() && i < ids.size(); ++i) {
      json.open('[').value(values[i]).value(ids[i]);
      json.value(options_.tokenizer->token_bytes(ids[i])).close(']');
    }
    json.close(']');
  }

  Options options_;
  std::vector<lang::ScoredChoice> scores_;
  int cached_ = 0;
  Timing timing_;
};

// What choices stand behind: a text is encoded with each of them as one, ids by themselves. Runs of image tokens of a
// text are there once until a choice's tokens are known.
class Behind {
 public:
  static Result<Behind> of(const Call& call, const GenerateItem& item) {
    Behind made(call, {.parse_special = !is_special_text(item.special_as_text, call.service.options)});
    ESP_TRY(made.media_, prepare_media(call, item.media));
    if (std::holds_alternative<std::vector<TokenId>>(item.prompt)) {
      ESP_TRY(MediaPrompt whole,
              encode_media_prompt(*call.model, item.prompt, made.media_, made.encoding_, "input_ids"));
      made.pictures_ = std::move(whole.pictures);
      made.encoding_.add_special = false;
      made.encoding_.continues = true;
      made.prompt_ = {std::move(whole.ids), "", made.encoding_};
      return made;
    }
    const auto& text = std::get<std::string>(item.prompt);
    if (!made.media_.empty()) {
      ESP_TRY(const FoundMarks found, find_marks(*call.model, text, made.media_, "text"));
      made.collapsed_ = collapse(*call.model->media, {found.text, found.marks}, made.media_, made.encoding_);
    }
    made.prompt_ = {{}, made.media_.empty() ? text : made.collapsed_.text, made.encoding_};
    ESP_TRY(made.text_ids_, made.encode(made.prompt_.text, made.encoding_, "text"));
    return made;
  }

  // Tokens of the prompt alone.
  Result<std::size_t> size() const {
    if (text_ids_.empty()) return prompt_.ids.size();
    ESP_TRY(const MediaPrompt whole, expand_runs(text_ids_, collapsed_, media_));
    return whole.ids.size();
  }
  Result<lang::ChoiceTokens> with(const Tokenizer& tokenizer, const std::string& choice,
                                  const std::string& field) const {
    const lang::Encode encoded = [&](std::string_view text, EncodeOptions how) { return encode(text, how, field); };
    ESP_TRY(lang::ChoiceTokens tokens, lang::choice_tokens(tokenizer, encoded, prompt_, text_ids_, choice));
    if (collapsed_.runs.empty()) return tokens;
    ESP_TRY(MediaPrompt whole, expand_runs(tokens.ids, collapsed_, media_));
    tokens.scored += whole.ids.size() - tokens.ids.size();
    tokens.ids = std::move(whole.ids);
    return tokens;
  }
  Result<std::vector<PictureInput>> pictures() const {
    if (collapsed_.runs.empty()) return pictures_;
    ESP_TRY(MediaPrompt whole, expand_runs(text_ids_, collapsed_, media_));
    return std::move(whole.pictures);
  }

 private:
  Behind(const Call& call, EncodeOptions encoding) : call_(call), encoding_(encoding) {}

  Result<std::vector<TokenId>> encode(std::string_view text, EncodeOptions how, const std::string& field) const {
    std::vector<TextRange> own = collapsed_.own;
    if (how.parse_special && text.size() > collapsed_.text.size()) own.push_back({collapsed_.text.size(), text.size()});
    if (!collapsed_.runs.empty()) how.own = own, how.parse_special = true;
    return encode_text(*call_.model, text, how, field);
  }

  const Call& call_;
  EncodeOptions encoding_;
  std::vector<Prepared> media_;
  CollapsedText collapsed_;
  std::vector<PictureInput> pictures_;  // of ids
  lang::ChoicePrompt prompt_;
  std::vector<TokenId> text_ids_;
};

Result<Request> scoring_request(const Call& call, const GenerateItem& item, std::vector<TokenId> ids, std::size_t start,
                                std::string id, std::vector<PictureInput> pictures = {}) {
  ESP_TRY(RequestFields fields, treatment(call, item, std::move(id), 0, kAnyNumber));
  fields.pictures = std::move(pictures);
  fields.prompt = std::move(ids);
  fields.sampling.max_new_tokens = 0;
  fields.sampling.temperature = 0;
  fields.logprobs.enabled = true;
  fields.logprobs.prompt_start = static_cast<int>(std::min(start, fields.prompt.size()));
  return make_request(std::move(fields), call.model->limits(), native_names("sampling_params.choices"));
}

}  // namespace

Result<Generation> select_choice(Call& call, const GenerateBody& body) {
  const GenerateItem& item = body.items.front();
  const ConstraintFields& asked = item.constraint;
  if (body.is_batch || item.sampling.n > 1 || item.session) {
    return bad_request("choices_method selects for one prompt: send a single prompt, without n and session_params",
                       "sampling_params.choices_method");
  }
  if (asked.constraint.kind != Constraint::Kind::choice) {
    return bad_request("choices_method needs choices", "sampling_params.choices_method");
  }
  SelectReply::Options reply;
  auto rule = lang::choices_rule_named(asked.choices_method);
  if (!rule.ok()) return in_field(std::move(rule).error(), "sampling_params.choices_method");
  reply.method = *rule;
  ESP_TRY(reply.tokenizer, call.model->need_tokenizer("sampling_params.choices"));
  ESP_TRY(const Json choices, parse_json(asked.constraint.text));
  if (choices.size() > static_cast<std::size_t>(call.service.options.max_prompts)) {
    return bad_request(fmt::format("choices has {} entries, but at most {} are scored at once (--max-prompts)",
                                   choices.size(), call.service.options.max_prompts),
                       "sampling_params.choices");
  }
  ESP_TRY(const Behind behind, Behind::of(call, item));
  ESP_TRY(const std::vector<PictureInput> pictures, behind.pictures());

  Generation generation;
  generation.stream = body.stream;
  reply.id = item.rid.empty() ? request_id(call.http, {}, 0, 1) : item.rid;
  reply.method_name = asked.choices_method;
  reply.weight_version = call.service.options.weight_version;
  ESP_TRY(reply.prompt_tokens, behind.size());
  reply.stream = body.stream;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const std::string field = fmt::format("sampling_params.choices[{}]", i);
    Choice choice{choices[i].get<std::string>(), {}};
    auto tokens = behind.with(*reply.tokenizer, choice.text, field);
    if (!tokens.ok()) return in_field(std::move(tokens).error(), field);
    choice.tokens = std::move(tokens).value();
    ESP_TRY(Request request, scoring_request(call, item, choice.tokens.ids, choice.tokens.scored,
                                             fmt::format("{}_{}", reply.id, i), pictures));
    generation.requests.push_back(std::move(request));
    reply.choices.push_back(std::move(choice));
  }
  if (reply.method == lang::ChoicesRule::unconditional_likelihood_normalized) {
    for (std::size_t i = 0; i < reply.choices.size(); ++i) {
      const auto own = reply.choices[i].tokens.own();
      ESP_TRY(Request request,
              scoring_request(call, item, {own.begin(), own.end()}, 0, fmt::format("{}_u{}", reply.id, i)));
      generation.requests.push_back(std::move(request));
    }
  }
  generation.reply = std::make_unique<SelectReply>(std::move(reply));
  return generation;
}

}  // namespace espalier::server
