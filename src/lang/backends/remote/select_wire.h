// select_wire.h: what a select asks of any server and what servers tell of its choices.
// Threads: pure functions.
// Fails:   check_select: bad_request naming the field; read_token_entries: network for entries that are none.
#pragma once

#include <string_view>
#include <vector>

#include "espalier/backend.h"

namespace espalier::lang {

// Gives the call a method when it has none; refuses what no back end takes: no choices, an empty one, a temperature
// that draws.
Result<> check_select(SelectCall& call);

// [[logprob, id, text], ...] as SGLang's servers write it. A null logprob at the front, of a token that has nothing
// before it, is left out.
Result<std::vector<TokenScore>> read_token_entries(const Json* entries, std::string_view server);

}  // namespace espalier::lang
