#include "grammar/masks/vocabulary.h"

#include "grammar/masks/special_code.h"

#include <algorithm>
#include <functional>

#include "grammar/automaton/hashing.h"
#include "grammar/grammar.h"
#include "grammar/masks/word_tokens.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::grammar {
namespace {

constexpr std::size_t kMostLexemes = 2048;  // of 16 KiB each for 128 k tokens
constexpr std::size_t kMostClassSets = 1024;
constexpr std::size_t kMostCountedWords = 64;  // of about 500 KiB each
constexpr std::size_t kMostBehind = 256;       // of about 50 KiB each

std::vector<std::pair<std::string_view, TokenId>> numbered(const std::vector<std::string>& tokens) {
  std::vector<std::pair<std::string_view, TokenId>> texts;
  for (std::size_t i = 0; i < tokens.size(); ++i) texts.emplace_back(tokens[i], static_cast<TokenId>(i));
  return texts;
}

// A value ends with a quote, a bracket, a digit, or one of the three names.
bool has_comma_behind_value(std::string_view token) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  for (std::size_t comma = token.find(','); comma != std::string_view::npos; comma = token.find(',', comma + 1)) {
    const std::size_t last = token.substr(0, comma).find_last_not_of(" \t\r\n");
    if (last == std::string_view::npos) continue;
    if (std::string_view("\"]}0123456789").find(token[last]) != std::string_view::npos) return true;
    std::size_t first = last + 1;
    while (first > 0 && is_letter(token[first - 1])) --first;
    const std::string_view word = token.substr(first, last + 1 - first);
    for (const std::string_view name : {"true", "false", "null"}) {
      if (!word.empty() && name.ends_with(word)) return true;
    }
  }
  return false;
}

// What has the same tokens in most schemas: numbers, and what may stand behind a blank.
void find_common_tokens(const std::shared_ptr<Vocabulary>& vocabulary) {
  for (const char* schema : {"{}", R"({"type": "integer"})"}) {
    for (const bool flexible : {false, true}) {
      const auto grammar = Grammar::compile(
          {.kind = Constraint::Kind::json_schema, .text = schema, .flexible_whitespace = flexible}, vocabulary);
      for (const char* text : {R"({"a": )", R"({"a": 1, )", R"({"a": [1, )"}) {
        const auto state = grammar.ok() ? (*grammar)->read((*grammar)->start(), text) : State{Automaton::dead};
        if (state.ok() && *state != Automaton::dead) (void)(*grammar)->mask(*state);
      }
    }
  }
}

}  // namespace

Vocabulary::Vocabulary(std::vector<std::string> tokens)
    : tokens_(std::move(tokens)), trie_(TokenTrie::make(numbered(tokens_))), class_tokens_(trie_, words()) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    if (has_comma_behind_value(tokens_[i])) with_comma_behind_value_.push_back(static_cast<TokenId>(i));
  }
}

std::shared_ptr<Vocabulary> Vocabulary::of(std::shared_ptr<const Tokenizer> tokenizer) {
  std::vector<std::string> tokens(static_cast<std::size_t>(tokenizer->size()));
  for (TokenId id = 0; id < tokenizer->size(); ++id) {
    if (!tokenizer->contains(id)) continue;
    std::string& text = tokens[static_cast<std::size_t>(id)];
    text = tokenizer->is_special(id) ? special_code(id) : tokenizer->token_bytes(id);
    if (!tokenizer->is_special(id) && text.find(kSpecialByte) != std::string::npos) text.clear();
  }
  auto vocabulary = std::make_shared<Vocabulary>(std::move(tokens));
  vocabulary->tokenizer_ = std::move(tokenizer);
  WordTokens::prepare(vocabulary);
  find_common_tokens(vocabulary);
  return vocabulary;
}

std::optional<TokenId> Vocabulary::find_text(std::string_view text) const {
  const auto found = std::ranges::find(tokens_, text);
  if (found == tokens_.end()) return std::nullopt;
  return static_cast<TokenId>(found - tokens_.begin());
}

std::size_t Vocabulary::MadeOfHash::operator()(const MadeOf& what) const {
  const auto low = static_cast<std::uint64_t>(what.classes), high = static_cast<std::uint64_t>(what.classes >> 64);
  return mix(mix(mix(low, high), what.characters), what.first);
}

template <class Find>
std::shared_ptr<const MaskWords> Vocabulary::known_or(MadeOf what, Find find) {
  const std::lock_guard lock(mutex_);
  if (const auto known = made_of_.find(what); known != made_of_.end()) return known->second;
  auto mask = std::make_shared<const MaskWords>(find());
  if (made_of_.size() > kMostClassSets) made_of_.clear();
  made_of_.emplace(what, mask);
  return mask;
}

std::shared_ptr<const MaskWords> Vocabulary::made_of(Classes classes, std::uint32_t characters) {
  // No token is longer than the trie is deep, so that all larger bounds are one.
  const std::uint32_t most = std::min(characters, trie_.depth_limit());
  return known_or({.classes = classes, .characters = most}, [&] { return class_tokens_.made_of(classes, most); });
}

std::shared_ptr<const MaskWords> Vocabulary::made_of_after(TokenTrie::Node first, Classes classes) {
  return known_or({.classes = classes, .first = first}, [&] {
    MaskWords mask(words());
    const auto tokens = trie_.tokens_in(first);
    auto place = static_cast<std::uint32_t>(tokens.data() - trie_.ids().data());
    for (const TokenId token : tokens) {
      const auto id = static_cast<std::uint32_t>(token);
      const bool wanted = (trie_.classes_after_first(place++) & ~classes) == 0;
      mask[id / 32] |= std::uint32_t{wanted} << (id % 32);  // no branch: half of them are wanted, here and there
    }
    return mask;
  });
}

std::shared_ptr<const LexemeTokens> Vocabulary::find(std::uint64_t fingerprint) {
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(fingerprint);
  if (place == places_.end()) return nullptr;
  lexemes_.splice(lexemes_.begin(), lexemes_, place->second);
  return place->second->second;
}

void Vocabulary::keep(std::uint64_t fingerprint, std::shared_ptr<const LexemeTokens> tokens) {
  const std::lock_guard lock(mutex_);
  if (places_.contains(fingerprint)) return;
  lexemes_.emplace_front(fingerprint, std::move(tokens));
  places_[fingerprint] = lexemes_.begin();
  if (lexemes_.size() <= kMostLexemes) return;
  places_.erase(lexemes_.back().first);
  lexemes_.pop_back();
}

std::shared_ptr<const TokenTrie> Vocabulary::find_after(const std::vector<TokenTrie::Node>& leaves) {
  const std::lock_guard lock(mutex_);
  const auto found = behind_.find(leaves);
  return found == behind_.end() ? nullptr : found->second;
}

void Vocabulary::keep_after(const std::vector<TokenTrie::Node>& leaves, std::shared_ptr<const TokenTrie> behind) {
  const std::lock_guard lock(mutex_);
  if (behind_.size() >= kMostBehind) behind_.clear();
  behind_.emplace(leaves, std::move(behind));
}

std::shared_ptr<const CountedTokens> Vocabulary::find_counted(std::uint64_t fingerprint) {
  const std::lock_guard lock(mutex_);
  const auto place = counted_.find(fingerprint);
  return place == counted_.end() ? nullptr : place->second;
}

void Vocabulary::keep_counted(std::uint64_t fingerprint, std::shared_ptr<const CountedTokens> tokens) {
  const std::lock_guard lock(mutex_);
  if (counted_.size() >= kMostCountedWords) counted_.clear();
  counted_.emplace(fingerprint, std::move(tokens));
}

}  // namespace espalier::grammar
