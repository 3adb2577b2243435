#include "bench/dataset/prompt_maker.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/dataset/words.h"

namespace espalier::bench {
namespace {

// Low ids are often special or single bytes; high ones may be unused. Nearly every vocabulary has real words between.
constexpr TokenId kLow = 1000, kHigh = 40'000, kHighUnknown = 30'000;

}  // namespace

PromptMaker::PromptMaker(const DatasetOptions& options)
    : ids_(options.token_ids), tokenizer_(options.tokenizer), low_(kLow), high_(kHighUnknown) {
  std::optional<TokenId> size = options.vocabulary;
  if (!size && tokenizer_) size = tokenizer_->size();
  if (!size) return;
  high_ = std::clamp<TokenId>(*size, 1, kHigh);
  low_ = high_ > 2 * kLow ? kLow : high_ / 4;
}

Prompt PromptMaker::make(Random& random, int tokens) const {
  const auto count = static_cast<std::size_t>(std::max(tokens, 0));
  if (ids_ || tokenizer_) {
    std::vector<TokenId> ids(count);
    for (TokenId& id : ids) id = static_cast<TokenId>(random.between(low_, high_ - 1));
    if (ids_) return ids;
    return tokenizer_->decode(ids, {.skip_special = true});
  }
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += kWords[random.below(kWords.size())];
    text += ' ';
  }
  return text;
}

Prompt PromptMaker::joined(const Prompt& first, const Prompt& second) {
  if (const auto* text = std::get_if<std::string>(&first)) return *text + "\n\n" + std::get<std::string>(second);
  std::vector<TokenId> ids = std::get<std::vector<TokenId>>(first);
  const auto& more = std::get<std::vector<TokenId>>(second);
  ids.insert(ids.end(), more.begin(), more.end());
  return ids;
}

int PromptMaker::length(const Prompt& prompt) const {
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt)) return static_cast<int>(ids->size());
  const std::string& text = std::get<std::string>(prompt);
  if (tokenizer_) return tokens_of(text, tokenizer_.get());
  return static_cast<int>(std::count(text.begin(), text.end(), ' '));
}

Item request_item(std::size_t number, Prompt prompt, int prompt_tokens, int output_tokens, bool ignore_eos) {
  RequestWork work;
  work.call.prompt = std::move(prompt);
  work.call.max_tokens = std::max(output_tokens, 1);
  work.call.ignore_eos = ignore_eos;
  work.call.expected_prompt_tokens = prompt_tokens;
  Item item;
  item.id = fmt::format("{}", number);
  item.work = std::move(work);
  return item;
}

int tokens_of(const std::string& text, const Tokenizer* tokenizer) {
  if (tokenizer)
    if (const auto ids = tokenizer->encode(text); ids.ok()) return static_cast<int>(ids->size());
  return static_cast<int>((text.size() + 3) / 4);
}

}  // namespace espalier::bench
