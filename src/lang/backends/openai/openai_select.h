// openai_select.h: select() against servers of OpenAI's routes.
//
// Three ways, by what the server is: Espalier scores choices itself, also behind messages, whose prompt it is asked to
// encode first; others that echo a prompt with its log-probabilities are asked for that; the rest cannot.
// Threads: begin(): the caller's; everything else the driver's.
// Fails:   unsupported naming a back end that can.
#pragma once

#include "lang/backends/openai/openai_wire.h"
#include "lang/backends/remote/remote_backend.h"

namespace espalier::lang::openai {

std::unique_ptr<Call> begin_openai_select(std::shared_ptr<RequestQueue> queue, const OpenAiProfile& profile,
                                          const Document& document, SelectCall call, SelectSink sink);

// The tokens of one choice out of an echoed text and its log-probabilities (tokens, token_logprobs, text_offset): those
// that hold one of the last `characters`.
// Fails: network.
Result<std::vector<TokenScore>> echoed_tail(const Json& logprobs, std::size_t characters);

}  // namespace espalier::lang::openai
