#include "lang/backends/openai/openai_select.h"

#include <fmt/format.h>

#include "base/json/json_fields.h"
#include "lang/backends/native/native_select.h"
#include "lang/backends/remote/calls/call_handle.h"
#include "lang/backends/remote/wire/select_wire.h"
#include "lang/backends/remote/wire/wire_text.h"
#include "lang/choices/choices.h"
#include "text/utf8.h"

namespace espalier::lang::openai {
namespace {

constexpr std::string_view kSelecting = "openai";

Error cannot_score(std::string_view why) {
  return {Error::Kind::unsupported,
          fmt::format("select() compares the log-probabilities of given texts, and {}: use the native back end, a "
                      "completion model whose server echoes them, or gen() with a json_schema that lists the choices",
                      why),
          "choices",
          {}};
}

class OpenAiSelect : public std::enable_shared_from_this<OpenAiSelect> {
 public:
  OpenAiSelect(std::shared_ptr<RequestQueue> queue, OpenAiProfile profile, SelectCall call, SelectSink sink)
      : queue_(std::move(queue)), profile_(std::move(profile)), call_(std::move(call)), sink_(std::move(sink)) {}

  std::unique_ptr<Call> begin(const Document& document) {
    if (auto begun = start(document); !begun.ok())
      return refuse(*queue_, [sink = sink_, error = begun.error()] { sink(error); });
    return std::make_unique<CallHandle>(queue_, state_);
  }

 private:
  using Step = Result<> (OpenAiSelect::*)(const std::string& body);

  Result<> start(const Document& document) {
    ESP_CHECK(check_select(call_));
    if (profile_.kind == OpenAiServer::espalier) return start_own(document);
    if (profile_.chat) return cannot_score("a chat interface tells none of them");
    if (call_.method->needs_unconditional())
      return cannot_score(fmt::format("{} needs those of the tokens alone as well", call_.method->name()));
    if (!document.pictures.empty()) return cannot_score("a completion takes no pictures");
    Json body = Json::object();
    if (!profile_.model.empty()) body["model"] = profile_.model;
    Json& prompts = body["prompt"] = Json::array();
    for (const std::string& choice : call_.choices) prompts.push_back(document.text + choice);
    body["max_tokens"] = 0;
    body["echo"] = true;
    body["logprobs"] = 1;
    body["temperature"] = 0;
    send(queue_->request("/completions", wire_text(body)), &OpenAiSelect::take_echoes);
    return success();
  }

  Result<> start_own(const Document& document) {
    if (!profile_.chat) {
      send(own_request("/generate", native::write_select({{"text", document.text}}, call_)),
           &OpenAiSelect::take_scores);
      return success();
    }
    Json body = Json::object();
    bool goes_on = false;
    ESP_TRY(body["messages"], openai_messages(profile_, document, goes_on));
    if (goes_on) body["continue_final_message"] = true;
    send(own_request("/tokenize", body), &OpenAiSelect::take_prompt);
    return success();
  }

  // Espalier's own routes lie beside "/v1".
  net::ClientRequest own_request(std::string_view path, const Json& body) const {
    net::ClientRequest request = queue_->request("", wire_text(body));
    if (request.url.ends_with("/v1")) request.url.resize(request.url.size() - 3);
    request.url += path;
    return request;
  }

  void send(net::ClientRequest request, Step then) {
    Outgoing outgoing;
    outgoing.request = std::move(request);
    outgoing.request.stop = state_->stop.get_token();
    outgoing.on_end = [self = shared_from_this(), then](Result<std::string> answer) {
      if (self->state_->over()) return;
      const auto went = answer.ok() ? ((*self).*then)(*answer) : Result<>(self->refused(std::move(answer).error()));
      if (!went.ok()) self->end(went.error());
    };
    queue_->send(std::move(outgoing));
  }
  Error refused(Error error) const {
    if (profile_.kind == OpenAiServer::espalier || error.kind != Error::Kind::bad_request) return error;
    return cannot_score(error.message);  // "echo and logprobs cannot be used together"
  }
  void end(Result<SelectOutput> result) {
    if (!state_->ended.exchange(true)) sink_(std::move(result));
  }

  Result<> take_prompt(const std::string& body) {
    ESP_TRY(const Json reply, read_reply_json(kSelecting, body));
    const Json* tokens = find_field(reply, "tokens");
    if (!tokens || !tokens->is_array()) return bad_reply(kSelecting, "/tokenize told no tokens");
    send(own_request("/generate", native::write_select({{"input_ids", *tokens}}, call_)), &OpenAiSelect::take_scores);
    return success();
  }
  Result<> take_scores(const std::string& body) {
    ESP_TRY(const auto scores, native::read_scores(body, call_));
    end(decided(*call_.method, scores));
    return success();
  }

  Result<> take_echoes(const std::string& body) {
    ESP_TRY(const Json reply, read_reply_json(kSelecting, body));
    const Json* outputs = find_field(reply, "choices");
    if (!outputs || !outputs->is_array() || outputs->size() != call_.choices.size())
      return bad_reply(kSelecting, "not as many outputs as prompts");
    std::vector<ChoiceScore> scores;
    for (const std::string& choice : call_.choices) {
      const Json* logprobs = find_field((*outputs)[scores.size()], "logprobs");
      if (!logprobs) return cannot_score("this server echoes a prompt without them");
      ESP_TRY(auto tokens, echoed_tail(*logprobs, count_characters(choice)));
      scores.push_back({choice, std::move(tokens), {}});
    }
    end(decided(*call_.method, scores));
    return success();
  }

  const std::shared_ptr<RequestQueue> queue_;
  const OpenAiProfile profile_;
  SelectCall call_;
  const SelectSink sink_;
  const std::shared_ptr<CallState> state_ = std::make_shared<CallState>();
};

// A token that is part of a character is written "bytes:\xe2".
std::size_t characters_of(const std::string& token) {
  return token.starts_with("bytes:\\x") ? 1 : count_characters(token);
}

}  // namespace

Result<std::vector<TokenScore>> echoed_tail(const Json& logprobs, std::size_t characters) {
  const auto list = [&](const char* name) -> const Json::array_t* {
    const Json* value = find_field(logprobs, name);
    return value && value->is_array() ? &value->get_ref<const Json::array_t&>() : nullptr;
  };
  const auto *texts = list("tokens"), *values = list("token_logprobs"), *offsets = list("text_offset");
  const std::size_t count = texts ? texts->size() : 0;
  if (count == 0 || !values || !offsets || values->size() != count || offsets->size() != count)
    return bad_reply(kSelecting, "log-probabilities without tokens and text_offset");
  std::vector<TokenScore> tail;
  std::int64_t end = 0, border = 0;  // of the token; of the choice
  for (std::size_t i = count; i-- > 0;) {
    const Json &text = (*texts)[i], &value = (*values)[i], &offset = (*offsets)[i];
    if (!text.is_string() || !offset.is_number_integer() || !(value.is_number() || value.is_null()))
      return bad_reply(kSelecting, "log-probabilities that are no numbers");
    const auto& token = text.get_ref<const std::string&>();
    if (i + 1 == count) {
      end = offset.get<std::int64_t>() + static_cast<std::int64_t>(characters_of(token));
      border = end - static_cast<std::int64_t>(characters);
    }
    if (end <= border) break;
    if (value.is_number()) tail.insert(tail.begin(), {value.get<double>(), -1, token});
    end = offset.get<std::int64_t>();
  }
  if (tail.empty()) return bad_reply(kSelecting, "no log-probability of a choice's own tokens");
  return tail;
}

std::unique_ptr<Call> begin_openai_select(std::shared_ptr<RequestQueue> queue, const OpenAiProfile& profile,
                                          const Document& document, SelectCall call, SelectSink sink) {
  return std::make_shared<OpenAiSelect>(std::move(queue), profile, std::move(call), std::move(sink))->begin(document);
}

}  // namespace espalier::lang::openai
