#include "text/tokenizer/end_tokens.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace espalier {
namespace {

// Nothing else is called so.
constexpr std::string_view kEnds[] = {
    "<|eot_id|>",         "<|eom_id|>",    "<|im_end|>",      "<|end|>",          "<|return|>", "<|call|>",
    "<|calls|>",          "<|flush|>",     "<end_of_turn>",   "<turn|>",          "<|eot|>",    "<|eom|>",
    "<end_of_utterance>", "<|endoftext|>", "<|end_of_text|>", "<|tool_response>", "[e~[",       "<｜end▁of▁sentence｜>",
    "<|fim_pad|>",        "<|fim_repo|>",  "<|repo_name|>",   "<|file_sep|>"};

// Ends where they are special tokens.
constexpr std::string_view kSpecialEnds[] = {"</s>", "<eos>", "[EOS]", "[EOT]", "<EOT>", "_<EOT>"};

class Ends {
 public:
  explicit Ends(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  bool has(std::string_view name) const {
    const auto id = tokenizer_.find(name);
    return id && std::find(ids_.begin(), ids_.end(), *id) != ids_.end();
  }
  void add(std::optional<TokenId> id) {
    if (id && std::find(ids_.begin(), ids_.end(), *id) == ids_.end()) ids_.push_back(*id);
  }
  void remove(std::string_view name) {
    if (const auto id = tokenizer_.find(name)) std::erase(ids_, *id);
  }
  std::vector<TokenId> take() { return std::move(ids_); }

 private:
  const Tokenizer& tokenizer_;
  std::vector<TokenId> ids_;
};

// The special token that the template writes behind what an assistant has said, white space between them aside.
std::optional<TokenId> turn_end(const Tokenizer& tokenizer, const ChatTemplate& chat_template) {
  constexpr std::string_view said = "Rqxsaid7";
  const Json messages = {{{"role", "user"}, {"content", "Rqxasked7"}}, {{"role", "assistant"}, {"content", said}}};
  ChatInput input;
  input.messages = &messages;
  const auto text = chat_template.render(input);
  if (!text.ok()) return std::nullopt;
  const std::size_t at = text->rfind(said);
  if (at == text->npos) return std::nullopt;
  std::string_view behind = std::string_view(*text).substr(at + said.size());
  behind.remove_prefix(std::min(behind.find_first_not_of(" \n\r\t"), behind.size()));
  if (behind.empty()) return std::nullopt;
  const auto ids = tokenizer.encode(behind, {.add_special = false, .parse_special = true});
  if (!ids.ok() || ids->empty()) return std::nullopt;
  const TokenId first = ids->front();
  const bool one = tokenizer.is_special(first) && behind.starts_with(tokenizer.token_text(first));
  return one && tokenizer.bos() != first ? std::optional(first) : std::nullopt;
}

}  // namespace

std::vector<TokenId> end_tokens(const Tokenizer& tokenizer, const ChatTemplate* chat_template) {
  Ends ends(tokenizer);
  for (const std::string_view name : kEnds) ends.add(tokenizer.find(name));
  for (const std::string_view name : kSpecialEnds) {
    const auto id = tokenizer.find(name);
    if (id && tokenizer.is_special(*id)) ends.add(id);
  }
  if (ends.has("<|tool_response>")) ends.remove("</s>");
  ends.add(tokenizer.eos());
  if (chat_template != nullptr) ends.add(turn_end(tokenizer, *chat_template));
  // Where an answer is made of several messages, the end of one is not the end of it.
  const bool calls = ends.has("<|call|>") || ends.has("<|calls|>");
  if (calls && (ends.has("<|return|>") || ends.has("<|flush|>"))) ends.remove("<|end|>");
  return ends.take();
}

}  // namespace espalier
