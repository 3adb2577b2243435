// Reads the answers of Anthropic's Messages interface.
#include "base/json/json_fields.h"
#include "lang/backends/anthropic/anthropic_wire.h"
#include "lang/backends/remote/calls/endpoint.h"

namespace espalier::lang::anthropic {
namespace {

constexpr std::string_view kName = "anthropic";

class AnthropicReader final : public ReplyReader {
 public:
  explicit AnthropicReader(bool drop_blanks) : at_start_(drop_blanks) {}

  Result<> whole(std::string_view body) override {
    ESP_TRY(const Json reply, read_reply_json(kName, body));
    if (auto error = told_error(std::string(kName), reply)) return std::move(*error);
    const Json* content = find_field(reply, "content");
    if (!content || !content->is_array()) return bad_reply(kName, "a message without content");
    for (const Json& block : *content) add(block, "text");
    take_message(reply);
    take_end(reply);
    ended_ = true;
    return success();
  }

  Result<std::optional<Piece>> event(std::string_view data) override {
    ESP_TRY(const Json message, read_reply_json(kName, data));
    if (auto error = told_error(std::string(kName), message)) return std::move(*error);
    const std::size_t before = text_.size();
    ESP_CHECK(take_event(message));
    if (text_.size() == before) return std::optional<Piece>();
    return std::optional<Piece>({text_.substr(before), meta_info(facts_)});
  }

  Result<Reply> finish() override {
    if (!ended_) return cut_off(kName);
    return Reply{{{text_}, {meta_info(facts_)}}, facts_.prompt_tokens, facts_.completion_tokens};
  }

 private:
  Result<> take_event(const Json& message) {
    const Json* type = find_field(message, "type");
    if (!type || !type->is_string()) return bad_reply(kName, "an event without a type");
    const auto& name = type->get_ref<const std::string&>();
    const Json* delta = find_field(message, "delta");
    if (name == "message_start") {
      if (const Json* begun = find_field(message, "message")) take_message(*begun);
    } else if (name == "content_block_start") {
      if (const Json* block = find_field(message, "content_block")) add(*block, "text");
    } else if (name == "content_block_delta" && delta) {
      add(*delta, "text_delta");
    } else if (name == "message_delta") {
      if (delta) take_end(*delta);
      take_usage(message);
    } else if (name == "message_stop") {
      ended_ = true;
    }
    return success();  // pings and what is new later
  }

  void add(const Json& block, std::string_view wanted) {
    const Json* type = find_field(block, "type");
    const Json* text = find_field(block, "text");
    if (!type || *type != wanted || !text || !text->is_string()) return;
    std::string_view piece = text->get_ref<const std::string&>();
    if (at_start_) piece.remove_prefix(std::min(piece.find_first_not_of(" \t\n\r\f\v"), piece.size()));
    at_start_ = at_start_ && piece.empty();
    text_ += piece;
  }
  void take_message(const Json& message) {
    if (const Json* id = find_field(message, "id"); id && id->is_string()) facts_.id = id->get<std::string>();
    take_usage(message);
  }
  void take_end(const Json& holder) {
    const Json* reason = find_field(holder, "stop_reason");
    if (!reason || !reason->is_string()) return;
    const auto& word = reason->get_ref<const std::string&>();
    facts_.finish = word == "end_turn" || word == "stop_sequence" ? "stop" : word == "max_tokens" ? "length" : word;
    if (const Json* matched = find_field(holder, "stop_sequence")) facts_.matched = *matched;
  }
  void take_usage(const Json& holder) {
    const Json* usage = find_field(holder, "usage");
    if (!usage) return;
    const auto count = [&](const char* name, std::int64_t otherwise) {
      const Json* value = find_field(*usage, name);
      return value && value->is_number_integer() ? value->get<std::int64_t>() : otherwise;
    };
    fresh_ = count("input_tokens", fresh_);
    written_ = count("cache_creation_input_tokens", written_);
    facts_.cached_tokens = count("cache_read_input_tokens", facts_.cached_tokens);
    facts_.prompt_tokens = fresh_ + written_ + facts_.cached_tokens;
    facts_.completion_tokens = count("output_tokens", facts_.completion_tokens);
  }

  bool at_start_;
  bool ended_ = false;
  std::string text_;
  OutputFacts facts_;
  std::int64_t fresh_ = 0, written_ = 0;  // prompt tokens that were read, and of these put into the cache
};

}  // namespace

std::unique_ptr<ReplyReader> anthropic_reader(bool drop_blanks) {
  return std::make_unique<AnthropicReader>(drop_blanks);
}

}  // namespace espalier::lang::anthropic
