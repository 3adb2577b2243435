#include "bench/sim/prompt_ids.h"

#include <algorithm>
#include <tuple>

#include "bench/dataset/words.h"
#include "bench/load/random.h"

namespace espalier::bench {
namespace {

constexpr std::uint32_t kHalf = 1u << 30;  // plain ids lie below it, those of later rounds above
constexpr int kWordsOfALine = 12;          // of an answer; programs pick lines out of answers

bool in_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '\'' ||
         static_cast<unsigned char>(c) >= 0x80;
}

// The end of the piece that begins at `begin`: an optional space and a word, or one other byte.
std::size_t end_of_piece(std::string_view text, std::size_t begin) {
  std::size_t at = begin;
  if (text[at] == ' ' && at + 1 < text.size() && in_word(text[at + 1])) ++at;
  if (!in_word(text[at])) return at + 1;
  while (at < text.size() && in_word(text[at])) ++at;
  return at;
}

TokenId id_of_piece(std::string_view piece) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : piece) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return static_cast<TokenId>((hash ^ (hash >> 30)) % kHalf);
}

PromptIds words_of(std::string_view text, std::size_t shared) {
  PromptIds out;
  out.ids.reserve(text.size() / 4);
  for (std::size_t begin = 0, end; begin < text.size(); begin = end) {
    end = end_of_piece(text, begin);
    out.ids.push_back(id_of_piece(text.substr(begin, end - begin)));
    if (end <= shared) out.own = out.ids.size();
  }
  return out;
}

// ChatML, and where the first message's content begins.
std::pair<std::string, std::size_t> chat_text(const Messages& messages) {
  std::string text;
  std::size_t content = 0;
  const auto said = [](const Json& message, const char* field) {
    const auto found = message.find(field);
    return found != message.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  if (messages.list.empty() || said(messages.list[0], "role") != "system")
    text = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n";
  for (std::size_t i = 0; i < messages.list.size(); ++i) {
    text += "<|im_start|>" + said(messages.list[i], "role") + "\n";
    if (i == 0) content = text.size();
    text += said(messages.list[i], "content");
    if (!messages.continues_last || i + 1 < messages.list.size()) text += "<|im_end|>\n";
  }
  if (!messages.continues_last) text += "<|im_start|>assistant\n";
  return {std::move(text), content};
}

}  // namespace

TokenId PromptEncoder::in_round(TokenId id, std::uint64_t round) {
  if (round == 0) return id;
  std::uint64_t x = (static_cast<std::uint64_t>(id) + 1) * 0x9e3779b97f4a7c15u + round * 0xd1342543de82ef95u;
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
  return static_cast<TokenId>(kHalf + (x >> 32) % (kHalf - 4));
}

PromptIds PromptEncoder::encode_text(std::string_view text, std::size_t shared) const {
  if (!tokenizer_) return words_of(text, shared);
  auto ids = tokenizer_->encode(text, {.add_special = false});
  if (!ids.ok()) return words_of(text, shared);
  PromptIds out{std::move(ids).value(), 0};
  for (std::size_t bytes = 0; out.own < out.ids.size(); ++out.own) {
    bytes += tokenizer_->token_bytes(out.ids[out.own]).size();
    if (bytes > shared) break;
  }
  return out;
}

PromptIds PromptEncoder::encode(const Prompt& prompt, int shared) const {
  const auto from = static_cast<std::size_t>(std::max(shared, 0));
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt)) return {*ids, std::min(from, ids->size())};
  if (const auto* text = std::get_if<std::string>(&prompt)) return encode_text(*text, from);
  const auto [text, content] = chat_text(std::get<Messages>(prompt));
  return encode_text(text, content + from);
}

TokenId PromptEncoder::single(std::string_view text) const {
  // Between other words, where a real tokenizer may join it with its neighbours.
  const std::string before = " time", behind = " people";
  const auto alone = encode_text(before + std::string(text) + behind, 0).ids;
  const auto without = encode_text(before + behind, 0).ids;
  return alone.size() == without.size() + 1 && alone.size() == 3 ? alone[1] : -1;
}

Answers::Answers(const PromptEncoder& encoder) : line_end_{"\n", encoder.single("\n")} {
  for (const std::string_view word : kWords) {
    std::string text = " " + std::string(word);
    if (const TokenId id = encoder.single(text); id >= 0) words_.push_back({std::move(text), id});
  }
  if (words_.empty()) words_.push_back({" time", 0});
}

const Answers::Word& Answers::word(std::uint64_t seed, int position) const {
  const auto place = static_cast<std::uint64_t>(position);
  if (position % (kWordsOfALine + 1) == kWordsOfALine && line_end_.id >= 0) return line_end_;
  return words_[derived_seed(seed, place) % words_.size()];
}

TokenId Answers::token(std::uint64_t seed, int position) const {
  return word(seed, position).id;
}

std::string Answers::text(std::uint64_t seed, int tokens) const {
  std::string text;
  for (int i = 0; i < tokens; ++i) text += word(seed, i).text;
  return text;
}

}  // namespace espalier::bench
