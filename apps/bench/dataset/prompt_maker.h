// prompt_maker.h: made-up prompts of a wanted length, as token ids or as words.
// Units:   tokens. Threads: one at a time. Fails: never.
#pragma once

#include <cstdint>

#include "bench/dataset/dataset.h"
#include "bench/load/random.h"

namespace espalier::bench {

class PromptMaker {
 public:
  explicit PromptMaker(const DatasetOptions& options);

  // `tokens` random tokens; the same `random` gives the same ones.
  Prompt make(Random& random, int tokens) const;
  static Prompt joined(const Prompt& first, const Prompt& second);
  // As the tokenizer counts, else ids exactly and words as one each; for given texts an estimate.
  int length(const Prompt& prompt) const;

 private:
  const bool ids_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  TokenId low_ = 0, high_ = 0;  // ids are drawn from low..high-1
};

// A request of a data set: greedy by the tool's own setting, of exactly `output_tokens` unless the end token may end
// it.
Item request_item(std::size_t number, Prompt prompt, int prompt_tokens, int output_tokens, bool ignore_eos);

// Tokens of a given text: counted by the tokenizer, or estimated.
int tokens_of(const std::string& text, const Tokenizer* tokenizer);

}  // namespace espalier::bench
