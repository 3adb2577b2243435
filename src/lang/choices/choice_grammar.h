// choice_grammar.h: a select as a generation that a constraint holds to the choices.
//
// It takes the likeliest token that may still lead to a choice, one after the other, and any tokens that spell one:
// not what a method says that scores whole choices, nor what greedy_token_selection() says where the model would spell
// a choice in other tokens than the tokenizer does. So it stands in for them only where that is asked for.
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "espalier/backend.h"

namespace espalier::lang {

GenCall choice_call(const std::vector<std::string>& choices);  // Requires: at least one
// What is said of an output that is no choice: a context that was full, a server that did not keep to the constraint.
Error none_of(const std::vector<std::string>& choices, const std::string& output);

}  // namespace espalier::lang
