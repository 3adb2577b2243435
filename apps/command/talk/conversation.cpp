#include "command/talk/conversation.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/chat/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::command {

Conversation::Conversation(const Engine& engine, std::string system, int answer_room)
    : engine_(engine), system_(std::move(system)) {
  const ModelLimits& limits = engine.model().limits;
  limit_ = std::min(limits.context_length, limits.pool_tokens);
  answer_room_ = std::min(answer_room, limit_ / 4);
}

Result<Conversation::Prompt> Conversation::ask(std::string question) {
  Json turns = turns_;
  turns.push_back({{"role", "user"}, {"content", std::move(question)}});
  for (Prompt prompt;; ++prompt.dropped) {
    ESP_TRY(prompt.tokens, encode(turns));
    const int size = static_cast<int>(prompt.tokens.size());
    const bool alone = turns.size() == 1;
    if (size + answer_room_ < limit_ || (alone && size < limit_)) {
      turns_ = std::move(turns);
      return prompt;
    }
    if (alone)
      return bad_request(
          fmt::format("the message needs {} tokens, but the context has {}; a shorter one would fit", size, limit_),
          "prompt", "context_length_exceeded");
    turns.erase(turns.begin(), turns.begin() + 2);
  }
}

void Conversation::answered(std::string text) {
  turns_.push_back({{"role", "assistant"}, {"content", std::move(text)}});
}

void Conversation::take_back() {
  turns_.erase(turns_.size() - 1);
}

void Conversation::set_system(std::string text) {
  system_ = std::move(text);
}

void Conversation::clear() {
  turns_.clear();
}

Result<std::vector<TokenId>> Conversation::encode(const Json& turns) const {
  Json messages = Json::array();
  if (!system_.empty()) messages.push_back({{"role", "system"}, {"content", system_}});
  for (const Json& turn : turns) messages.push_back(turn);
  ChatInput input;
  input.messages = &messages;
  input.add_generation_prompt = true;
  ESP_TRY(const std::string text, engine_.chat_template()->render(input));
  return engine_.tokenizer()->encode(text, {.add_special = false, .parse_special = true});
}

}  // namespace espalier::command
