#include "command/talk/conversation.h"

#include <fmt/format.h>

#include <algorithm>

namespace espalier::command {

namespace {

Json message_of(std::string question, std::span<const Json> pictures) {
  if (pictures.empty()) return {{"role", "user"}, {"content", std::move(question)}};
  Json parts = Json::array();
  for (const Json& picture : pictures) parts.push_back(picture);
  parts.push_back({{"type", "text"}, {"text", std::move(question)}});
  return {{"role", "user"}, {"content", std::move(parts)}};
}

}  // namespace

Conversation::Conversation(Prompter& prompter, std::string system, int answer_room)
    : prompter_(prompter), system_(std::move(system)) {
  const ModelLimits& limits = prompter.engine().model().limits;
  limit_ = std::min(limits.context_length, limits.pool_tokens);
  answer_room_ = std::min(answer_room, limit_ / 4);
}

Result<Conversation::Prompt> Conversation::ask(std::string question, std::span<const Json> pictures) {
  Json turns = turns_;
  turns.push_back(message_of(std::move(question), pictures));
  for (Prompt prompt;; ++prompt.dropped) {
    ESP_TRY(prompt.tokens, prompter_.encode(with_system(turns)));
    const int size = static_cast<int>(prompt.tokens.ids.size());
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

Json Conversation::with_system(const Json& turns) const {
  Json messages = Json::array();
  if (!system_.empty()) messages.push_back({{"role", "system"}, {"content", system_}});
  for (const Json& turn : turns) messages.push_back(turn);
  return messages;
}

Result<int> Conversation::tokens() const {
  const Json all = messages();
  if (all.empty()) return 0;
  ESP_TRY(const server::ChatTokens tokens, prompter_.encode(all));
  return static_cast<int>(tokens.ids.size());
}

}  // namespace espalier::command
