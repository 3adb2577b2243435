// select.h: /generate with choices and a choices_method: the likeliest of some continuations.
//
// All choices are scored at once, by the log-probabilities of their tokens behind the prompt; the prompt is computed
// once. A choice is encoded together with a prompt that is text, so its first token may take in the prompt's last one
// (token healing), which then counts with it; behind a prompt of ids it is encoded alone.
// The methods: lang/choices/choices.h.
// Threads: parse: any; the reply: the notifier's. Fails: bad_request naming the field.
// Source:  SGLang, lang/choices.py and lang/backend/runtime_endpoint.py.
#pragma once

#include "server/native/generate_body.h"
#include "server/routes/handler.h"

namespace espalier::server {

// Of a body whose only prompt has a choices_method.
Result<Generation> select_choice(Call& call, const GenerateBody& body);

}  // namespace espalier::server
