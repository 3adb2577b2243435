// Reads OpenAI's answers, of completions and of chats.
#include <fmt/format.h>

#include <algorithm>

#include "base/json/json_fields.h"
#include "lang/backends/openai/openai_wire.h"
#include "lang/backends/remote/calls/endpoint.h"

namespace espalier::lang::openai {
namespace {

constexpr std::string_view kName = "openai";

std::string text_in(const Json& holder, const char* name) {
  const Json* value = find_field(holder, name);
  return value && value->is_string() ? value->get<std::string>() : std::string();
}

// [logprob, null, text]: the interface tells no ids.
void append_logprobs(const Json* logprobs, Json& entries) {
  const auto add = [&](const Json* logprob, const Json* token) {
    if (logprob && logprob->is_number()) entries.push_back(Json::array({*logprob, nullptr, token ? *token : Json()}));
  };
  if (!logprobs || !logprobs->is_object()) return;
  if (const Json* content = find_field(*logprobs, "content"); content && content->is_array())
    for (const Json& one : *content) add(find_field(one, "logprob"), find_field(one, "token"));
  const Json* values = find_field(*logprobs, "token_logprobs");
  const Json* tokens = find_field(*logprobs, "tokens");
  if (!values || !tokens || !values->is_array() || !tokens->is_array()) return;
  for (std::size_t i = 0; i < std::min(values->size(), tokens->size()); ++i) add(&(*values)[i], &(*tokens)[i]);
}

class OpenAiReader final : public ReplyReader {
 public:
  explicit OpenAiReader(int samples) : said_(static_cast<std::size_t>(std::max(samples, 1))) {}

  Result<> whole(std::string_view body) override {
    ESP_TRY(const Json reply, read_reply_json(kName, body));
    ESP_CHECK(take(reply));
    return success();
  }

  Result<std::optional<Piece>> event(std::string_view data) override {
    if (data == "[DONE]") {
      done_ = true;
      return std::optional<Piece>();
    }
    ESP_TRY(const Json message, read_reply_json(kName, data));
    const std::size_t before = said_[0].text.size();
    ESP_CHECK(take(message));
    if (said_[0].text.size() == before) return std::optional<Piece>();
    return std::optional<Piece>({said_[0].text.substr(before), meta_of(said_[0])});
  }

  Result<Reply> finish() override {
    Reply reply;
    for (const Said& said : said_) {
      if (said.facts.finish.empty() && !done_) return cut_off(kName);
      reply.output.texts.push_back(said.text);
      reply.output.meta.push_back(meta_of(said));
    }
    reply.prompt_tokens = usage_.prompt_tokens;
    reply.completion_tokens = usage_.completion_tokens;
    return reply;
  }

 private:
  struct Said {
    std::string text, reasoning;
    OutputFacts facts;
    Json logprobs = Json::array();
  };

  Json meta_of(const Said& said) const {
    OutputFacts facts = said.facts;
    facts.id = id_;
    facts.prompt_tokens = usage_.prompt_tokens;
    facts.completion_tokens = usage_.completion_tokens;  // of all samples together: the interface tells no more
    facts.cached_tokens = usage_.cached_tokens;
    Json meta = meta_info(facts);
    if (!said.logprobs.empty()) meta["output_token_logprobs"] = said.logprobs;
    if (!said.reasoning.empty()) meta["reasoning_content"] = said.reasoning;
    return meta;
  }

  Result<> take(const Json& message) {
    if (auto error = told_error(std::string(kName), message)) return std::move(*error);
    if (id_.empty()) id_ = text_in(message, "id");
    const Json* choices = find_field(message, "choices");
    if (!choices || !choices->is_array()) return bad_reply(kName, "an answer without choices");
    for (const Json& choice : *choices) ESP_CHECK(take_choice(choice));
    const Json* usage = find_field(message, "usage");
    if (!usage) return success();
    usage_.prompt_tokens = integer_or_zero(*usage, "prompt_tokens");
    usage_.completion_tokens = integer_or_zero(*usage, "completion_tokens");
    if (const Json* details = find_field(*usage, "prompt_tokens_details"))
      usage_.cached_tokens = integer_or_zero(*details, "cached_tokens");
    return success();
  }

  Result<> take_choice(const Json& choice) {
    const Json* index = find_field(choice, "index");
    const bool known = !index || (index->is_number_unsigned() && index->get<std::uint64_t>() < said_.size());
    if (!choice.is_object() || !known) return bad_reply(kName, "a choice that was not asked for");
    Said& said = said_[index ? index->get<std::size_t>() : 0];
    said.text += text_in(choice, "text");
    for (const char* holder : {"message", "delta"}) {
      const Json* message = find_field(choice, holder);
      if (!message) continue;
      said.text += text_in(*message, "content");
      said.reasoning += text_in(*message, "reasoning_content");
      if (const std::string refusal = text_in(*message, "refusal"); !refusal.empty())
        return Error{Error::Kind::unsupported, fmt::format("the model refused: {}", refusal), {}, {}};
    }
    append_logprobs(find_field(choice, "logprobs"), said.logprobs);
    if (const Json* reason = find_field(choice, "finish_reason"); reason && reason->is_string())
      said.facts.finish = reason->get<std::string>();
    if (const Json* matched = find_field(choice, "matched_stop")) said.facts.matched = *matched;
    return success();
  }

  std::vector<Said> said_;
  OutputFacts usage_;
  std::string id_;
  bool done_ = false;
};

}  // namespace

std::unique_ptr<ReplyReader> openai_reader(int samples) {
  return std::make_unique<OpenAiReader>(samples);
}

}  // namespace espalier::lang::openai
