#include "lang/backends/native/native_select.h"

#include "base/json/json_fields.h"
#include "lang/backends/remote/calls/call_handle.h"
#include "lang/backends/remote/wire/select_wire.h"
#include "lang/backends/remote/wire/wire_text.h"
#include "lang/choices/choices.h"

namespace espalier::lang::native {
namespace {

constexpr std::string_view kSelecting = "native";

Result<std::int64_t> prompt_tokens_of(const Json& output) {
  const Json* meta = find_field(output, "meta_info");
  const Json* count = meta ? find_field(*meta, "prompt_tokens") : nullptr;
  if (!count || !count->is_number_integer() || count->get<std::int64_t>() < 0)
    return bad_reply(kSelecting, "no count of the prompt's tokens");
  return count->get<std::int64_t>();
}

Result<Json> outputs_of(std::string_view body, std::size_t count) {
  ESP_TRY(Json reply, read_reply_json(kSelecting, body));
  if (!reply.is_array() || reply.size() != count) return bad_reply(kSelecting, "not as many outputs as prompts");
  return reply;
}

class NativeSelect : public std::enable_shared_from_this<NativeSelect> {
 public:
  NativeSelect(std::shared_ptr<RequestQueue> queue, std::string text, Json pictures, SelectCall call, SelectSink sink)
      : queue_(std::move(queue)),
        text_(std::move(text)),
        pictures_(std::move(pictures)),
        call_(std::move(call)),
        sink_(std::move(sink)) {}

  std::unique_ptr<Call> begin(bool espalier) {
    if (espalier)
      ask_at_once();
    else
      ask_for_length();
    return std::make_unique<CallHandle>(queue_, state_);
  }

 private:
  using Step = Result<> (NativeSelect::*)(const std::string& body);

  void send(Json body, Step then) {
    if (!pictures_.is_null()) body["image_data"] = pictures_;
    Outgoing outgoing;
    outgoing.request = queue_->request("/generate", wire_text(body));
    outgoing.request.stop = state_->stop.get_token();
    outgoing.on_end = [self = shared_from_this(), then](Result<std::string> answer) {
      if (self->state_->over()) return;
      const auto went = answer.ok() ? ((*self).*then)(*answer) : Result<>(std::move(answer).error());
      if (!went.ok()) self->end(went.error());
    };
    queue_->send(std::move(outgoing));
  }
  void end(Result<SelectOutput> result) {
    if (!state_->ended.exchange(true)) sink_(std::move(result));
  }

  void ask_at_once() { send(write_select({{"text", text_}}, call_), &NativeSelect::take_all); }
  Result<> take_all(const std::string& body) {
    ESP_TRY(scores_, read_scores(body, call_));
    return decide();
  }

  static Json scoring() {
    Json body = Json::object();
    body["sampling_params"] = {{"max_new_tokens", 0}, {"temperature", 0}};
    return body;
  }
  void ask_for_length() {
    Json body = scoring();
    body["text"] = text_;
    send(std::move(body), &NativeSelect::take_length);
  }
  Result<> take_length(const std::string& reply) {
    ESP_TRY(const Json output, read_reply_json(kSelecting, reply));
    ESP_TRY(prompt_tokens_, prompt_tokens_of(output));
    Json body = scoring();
    Json& texts = body["text"] = Json::array();
    for (const std::string& choice : call_.choices) texts.push_back(text_ + choice);
    body["return_logprob"] = true;
    body["return_text_in_logprobs"] = true;
    body["logprob_start_len"] = std::max<std::int64_t>(prompt_tokens_ - 2, 0);
    send(std::move(body), &NativeSelect::take_scores);
    return success();
  }
  Result<> take_scores(const std::string& reply) {
    ESP_TRY(const Json outputs, outputs_of(reply, call_.choices.size()));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      ESP_TRY(auto tokens, behind_prompt(outputs[i], prompt_tokens_, text_));
      scores_.push_back({call_.choices[i], std::move(tokens), {}});
    }
    if (!call_.method->needs_unconditional()) return decide();
    ask_for_tokens_alone();
    return success();
  }
  void ask_for_tokens_alone() {
    Json body = scoring();
    Json& prompts = body["input_ids"] = Json::array();
    for (const ChoiceScore& score : scores_) {
      Json ids = Json::array();
      for (const TokenScore& token : score.tokens) ids.push_back(token.id);
      prompts.push_back(std::move(ids));
    }
    body["return_logprob"] = true;
    body["logprob_start_len"] = 0;  // newer servers take a missing one for "outputs only"
    send(std::move(body), &NativeSelect::take_alone);
  }
  Result<> take_alone(const std::string& reply) {
    ESP_TRY(const Json outputs, outputs_of(reply, scores_.size()));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Json* meta = find_field(outputs[i], "meta_info");
      ESP_TRY(auto alone, read_token_entries(meta ? find_field(*meta, "input_token_logprobs") : nullptr, kSelecting));
      const auto& tokens = scores_[i].tokens;
      if (alone.size() > tokens.size()) return bad_reply(kSelecting, "more log-probabilities than tokens");
      // The first token has nothing before it.
      alone.insert(alone.begin(), tokens.size() - alone.size(), TokenScore{});
      for (std::size_t k = 0; k < tokens.size(); ++k) alone[k] = {alone[k].logprob, tokens[k].id, tokens[k].text};
      scores_[i].unconditional = std::move(alone);
    }
    return decide();
  }

  Result<> decide() {
    end(decided(*call_.method, scores_));
    return success();
  }

  const std::shared_ptr<RequestQueue> queue_;
  const std::string text_;
  const Json pictures_;  // null: none
  const SelectCall call_;
  const SelectSink sink_;
  const std::shared_ptr<CallState> state_ = std::make_shared<CallState>();
  std::int64_t prompt_tokens_ = 0;
  std::vector<ChoiceScore> scores_;
};

}  // namespace

Json write_select(Json prompt, const SelectCall& call) {
  Json body = std::move(prompt);
  Json& sampling = body["sampling_params"] = Json::object();
  sampling["choices"] = call.choices;
  // A method of the user's own is told the scores that it needs.
  sampling["choices_method"] =
      (call.method->needs_unconditional() ? unconditional_likelihood_normalized() : token_length_normalized())->name();
  return body;
}

Result<std::vector<ChoiceScore>> read_scores(std::string_view body, const SelectCall& call) {
  ESP_TRY(const Json reply, read_reply_json(kSelecting, body));
  const Json* meta = find_field(reply, "meta_info");
  const auto list = [&](const char* name) { return meta ? find_field(*meta, name) : nullptr; };
  const Json* tokens = list("input_token_logprobs");
  const Json* alone = list("unconditional_token_logprobs");
  const auto holds_all = [&](const Json* entries) {
    return entries && entries->is_array() && entries->size() == call.choices.size();
  };
  const bool both = call.method->needs_unconditional();
  if (!holds_all(tokens) || (both && !holds_all(alone)))
    return bad_reply(kSelecting, "no log-probabilities of the choices");
  std::vector<ChoiceScore> scores;
  for (std::size_t i = 0; i < call.choices.size(); ++i) {
    ChoiceScore score{call.choices[i], {}, {}};
    ESP_TRY(score.tokens, read_token_entries(&(*tokens)[i], kSelecting));
    if (both) {
      ESP_TRY(score.unconditional, read_token_entries(&(*alone)[i], kSelecting));
    }
    scores.push_back(std::move(score));
  }
  return scores;
}

Result<std::vector<TokenScore>> behind_prompt(const Json& output, std::int64_t prompt_tokens, std::string_view text) {
  ESP_TRY(const std::int64_t all, prompt_tokens_of(output));
  const Json* meta = find_field(output, "meta_info");
  ESP_TRY(auto tokens, read_token_entries(find_field(*meta, "input_token_logprobs"), kSelecting));
  const auto told = static_cast<std::int64_t>(tokens.size());
  const std::int64_t first = all - told;  // the position of the first entry
  if (first < 0 || first > prompt_tokens) return bad_reply(kSelecting, "log-probabilities do not begin at the choice");
  std::int64_t skipped = std::max<std::int64_t>(prompt_tokens - 1 - first, 0);
  // The prompt's last token counts only where the choice has merged with it.
  const bool last_told = first <= prompt_tokens - 1 && skipped < told;
  if (last_told && text.ends_with(tokens[static_cast<std::size_t>(skipped)].text)) ++skipped;
  tokens.erase(tokens.begin(), tokens.begin() + std::min(skipped, told));
  if (tokens.empty()) return bad_reply(kSelecting, "no log-probability of a choice's own tokens");
  return tokens;
}

std::unique_ptr<Call> begin_native_select(std::shared_ptr<RequestQueue> queue, const NativeServer& server,
                                          const Document& document, SelectCall call, SelectSink sink) {
  if (auto good = check_select(call); !good.ok())
    return refuse(*queue, [sink = std::move(sink), error = good.error()] { sink(error); });
  Json pictures;
  if (!document.pictures.empty()) pictures = (*write_generate(server, document, {}))["image_data"];
  return std::make_shared<NativeSelect>(std::move(queue), document.text, std::move(pictures), std::move(call),
                                        std::move(sink))
      ->begin(server.espalier);
}

}  // namespace espalier::lang::native
