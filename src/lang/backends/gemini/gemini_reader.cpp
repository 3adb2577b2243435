// Reads the answers of generateContent and streamGenerateContent.
#include <fmt/format.h>

#include "base/json/json_fields.h"
#include "lang/backends/gemini/gemini_wire.h"
#include "lang/backends/remote/calls/endpoint.h"

namespace espalier::lang::gemini {
namespace {

constexpr std::string_view kName = "gemini";

class GeminiReader final : public ReplyReader {
 public:
  Result<> whole(std::string_view body) override {
    ESP_TRY(const Json reply, read_reply_json(kName, body));
    if (!reply.is_array()) return take(reply);
    for (const Json& part : reply) ESP_CHECK(take(part));  // a stream without alt=sse
    return success();
  }

  Result<std::optional<Piece>> event(std::string_view data) override {
    ESP_TRY(const Json message, read_reply_json(kName, data));
    const std::size_t before = text_.size();
    ESP_CHECK(take(message));
    if (text_.size() == before) return std::optional<Piece>();
    return std::optional<Piece>({text_.substr(before), meta_info(facts_)});
  }

  Result<Reply> finish() override {
    if (facts_.finish.empty()) return cut_off(kName);
    return Reply{{{text_}, {meta_info(facts_)}}, facts_.prompt_tokens, facts_.completion_tokens};
  }

 private:
  Result<> take(const Json& message) {
    if (auto error = told_error(std::string(kName), message)) return std::move(*error);
    if (const Json* feedback = find_field(message, "promptFeedback"))
      if (const Json* why = find_field(*feedback, "blockReason"); why && why->is_string())
        return Error{Error::Kind::bad_request,
                     fmt::format("Gemini refuses the prompt: {}", why->get<std::string>()),
                     "messages",
                     {}};
    if (const Json* id = find_field(message, "responseId"); id && id->is_string()) facts_.id = id->get<std::string>();
    take_usage(message);
    const Json* candidates = find_field(message, "candidates");
    if (!candidates) return success();  // the last of a stream may only count
    if (!candidates->is_array() || candidates->size() > 1 || !message.is_object())
      return bad_reply(kName, "candidates that were not asked for");
    return candidates->empty() ? success() : take_candidate(candidates->front());
  }

  Result<> take_candidate(const Json& candidate) {
    const Json* content = find_field(candidate, "content");
    const Json* parts = content ? find_field(*content, "parts") : nullptr;
    if (parts && !parts->is_array()) return bad_reply(kName, "content whose parts are no list");
    if (parts)
      for (const Json& part : *parts) {
        const Json* text = find_field(part, "text");
        const Json* thought = find_field(part, "thought");
        if (text && text->is_string() && !(thought && *thought == true)) text_ += text->get_ref<const std::string&>();
      }
    const Json* reason = find_field(candidate, "finishReason");
    if (!reason || !reason->is_string()) return success();
    const auto& word = reason->get_ref<const std::string&>();
    if (word != "STOP" && word != "MAX_TOKENS" && word != "FINISH_REASON_UNSPECIFIED")
      return Error{Error::Kind::unsupported, fmt::format("Gemini holds its answer back: {}", word), {}, {}};
    facts_.finish = word == "MAX_TOKENS" ? "length" : "stop";
    return success();
  }

  void take_usage(const Json& message) {
    const Json* usage = find_field(message, "usageMetadata");
    if (!usage) return;
    facts_.prompt_tokens = integer_or_zero(*usage, "promptTokenCount");
    facts_.completion_tokens =
        integer_or_zero(*usage, "candidatesTokenCount") + integer_or_zero(*usage, "thoughtsTokenCount");
    facts_.cached_tokens = integer_or_zero(*usage, "cachedContentTokenCount");
  }

  std::string text_;
  OutputFacts facts_;
};

}  // namespace

std::unique_ptr<ReplyReader> gemini_reader() {
  return std::make_unique<GeminiReader>();
}

}  // namespace espalier::lang::gemini
