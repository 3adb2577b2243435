// choice_tokens.h: the tokens of a choice behind a prompt, and which of them count.
//
// A choice is encoded together with the text before it that no token boundary divides from it. Its first token may then
// take in the prompt's last one (token healing), which counts with it; where it does not, scoring begins behind the
// prompt. Position 0 has nothing before it and never counts.
// Threads: pure functions. Fails: as `encode` does; bad_request for a choice that adds no token.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace espalier::lang {

using Encode = std::function<Result<std::vector<TokenId>>(std::string_view text, EncodeOptions options)>;

// A prompt as ids up to its last boundary, and the text behind it.
struct ChoicePrompt {
  std::vector<TokenId> ids;  // up to the last boundary
  std::string text;          // behind it
  EncodeOptions options;     // of that text
};

// A prompt with a choice as ids, and from where on they count for the choice.
struct ChoiceTokens {
  std::vector<TokenId> ids;  // with the prompt's
  std::size_t scored = 1;    // the first of them that counts
  std::span<const TokenId> own() const { return std::span(ids).subspan(scored); }
};

// `text_ids`: prompt.text by itself.
Result<ChoiceTokens> choice_tokens(const Tokenizer& tokenizer, const Encode& encode, const ChoicePrompt& prompt,
                                   std::span<const TokenId> text_ids, const std::string& choice);

}  // namespace espalier::lang
