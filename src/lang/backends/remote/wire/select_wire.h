// select_wire.h: what servers tell of a select's choices.
// Threads: pure functions.
// Fails:   network for entries that are none.
#pragma once

#include <string_view>
#include <vector>

#include "espalier/backend.h"

namespace espalier::lang {

// [[logprob, id, text], ...] as SGLang's servers write it. A null logprob at the front, of a token that has nothing
// before it, is left out.
Result<std::vector<TokenScore>> read_token_entries(const Json* entries, std::string_view server);

}  // namespace espalier::lang
