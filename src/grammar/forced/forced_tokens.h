// forced_tokens.h: the tokens of text that must come, as the tokenizer gives them whatever follows it.
//
// In the tokens of a whole output, one either ends where the forced text ends, or begins somewhere inside and reaches
// over its end. Tokenizers cut what stands before a token's beginning as they cut it by itself; so the tokens that are
// certain are those in common of the text alone, and of the text before every place where a token that the grammar
// allows could begin that reaches over the end. Where few tokens do, the text with what each has behind its end is cut
// instead, which tells those that the tokenizer would really use from those it would not.
//
// Threads: as the automaton. Fails: never; what cannot be told is left out.
// Source:  llguidance leaves out tokens by the same question, without trying what could follow.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "grammar/automaton/automaton.h"
#include "grammar/masks/vocabulary.h"

namespace espalier::grammar {

inline constexpr std::size_t kContextTokens = 4;  // of those before a text that matter for how it is cut

// The tokens of `text` behind those of `before`, if the tokenizer cuts the whole there; else of `text` alone. Empty
// when it cannot write the text. Requires a vocabulary with a tokenizer, as the next one does.
std::vector<TokenId> tokens_after(const Vocabulary& vocabulary, std::span<const TokenId> before, std::string_view text);

// Those tokens of `bytes`, read from `from`, that no continuation which the grammar allows could change. `before`: the
// tokens that lead to `from`.
std::vector<TokenId> forced_tokens(const Vocabulary& vocabulary, Automaton& automaton, State from,
                                   std::string_view bytes, std::span<const TokenId> before);

}  // namespace espalier::grammar
