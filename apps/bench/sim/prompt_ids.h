// prompt_ids.h: token ids of prompts, as a simulated server would see them.
//
// With a tokenizer its ids; else a word with the space before it, a line break or another character is a token, and
// its id a hash of it. Chats are written in ChatML with the default system prompt of SmolLM2.
// A workload that is run several times over keeps what its items share and has fresh ids behind it in every round: ids
// of round 0 are the plain ones.
// Units:   positions in ids; `shared` in bytes of the (first) text, or ids. Threads: constant after opening.
// Fails:   never; text that a tokenizer refuses (no UTF-8) becomes words.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/load/call.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::bench {

struct PromptIds {
  std::vector<TokenId> ids;
  std::size_t own = 0;  // the first that is not shared with other items
};

class PromptEncoder {
 public:
  static constexpr TokenId vocabulary = 0x7fffffff;  // all ids are below it
  static constexpr TokenId end_token = vocabulary - 1;

  explicit PromptEncoder(std::shared_ptr<const Tokenizer> tokenizer = nullptr) : tokenizer_(std::move(tokenizer)) {}

  PromptIds encode(const Prompt& prompt, int shared) const;
  // The id of a text that is one token wherever it stands; -1 when it is not.
  TokenId single(std::string_view text) const;

  static TokenId in_round(TokenId id, std::uint64_t round);

 private:
  PromptIds encode_text(std::string_view text, std::size_t shared) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
};

// What the simulated model answers: common words, decided by a seed, as ids and as the text that encodes to them.
class Answers {
 public:
  explicit Answers(const PromptEncoder& encoder);
  TokenId token(std::uint64_t seed, int position) const;
  std::string text(std::uint64_t seed, int tokens) const;

 private:
  struct Word {
    std::string text;
    TokenId id;
  };
  const Word& word(std::uint64_t seed, int position) const;

  std::vector<Word> words_;
  Word line_end_;
};

}  // namespace espalier::bench
