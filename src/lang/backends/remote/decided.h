// decided.h: from the log-probabilities that a server told to the choice that is taken.
// Threads: pure functions.
// Fails:   as the method; internal for one that names a choice which is not there; network for entries that are none.
#pragma once

#include <vector>

#include "espalier/backend.h"

namespace espalier::lang {

// Requires: at least one choice; `unconditional` where the method needs it, as long as `tokens`.
Result<SelectOutput> decided(const ChoicesMethod& method, const std::vector<ChoiceScore>& choices);

// bad_request for a call that no back end takes: no choices, no method that is known, a temperature that draws.
Result<> check_select(SelectCall& call);

// [[logprob, id, text], ...] as SGLang's servers write it. A null logprob at the front, of a token that has nothing
// before it, is left out.
Result<std::vector<TokenScore>> read_token_entries(const Json* entries, std::string_view server);

}  // namespace espalier::lang
