// end_tokens.h: which tokens end an answer, beside those that a model's configuration lists.
//
// The tokenizer's own end token; tokens that are known to end a turn or a text wherever a vocabulary has them; and what
// the chat template itself writes behind an assistant's turn. A name that is also an ordinary word of some vocabularies
// ("</s>" is a piece of HTML in Gemma's) counts only where it is a special token.
// Threads: pure functions. Costs: a look at the vocabulary for each name, one short rendering. Fails: never.
// Source:  the names that the llama.cpp project treats as ends of generation, with its exceptions.
#pragma once

#include <vector>

#include "espalier/types.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier {

// In no order, each once. `chat_template` may be null.
std::vector<TokenId> end_tokens(const Tokenizer& tokenizer, const ChatTemplate* chat_template);

}  // namespace espalier
