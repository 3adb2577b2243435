// native_select.h: select() against a server that scores prompts.
//
// An Espalier server is asked once: it takes prompt and choices. An SGLang server is asked twice, for the prompt's
// length and for the scores of prompt and choice together, and a third time for methods that need the tokens alone.
// What the first entry of such a list stands for has changed between SGLang's versions; here it is found by counting
// from the list's end, where every version agrees.
// Threads: begin(): the caller's; everything else the driver's.
// Source:  SGLang, lang/backend/runtime_endpoint.py (select).
#pragma once

#include "lang/backends/native/generate_wire.h"
#include "lang/backends/remote/remote_backend.h"

namespace espalier::lang::native {

std::unique_ptr<Call> begin_native_select(std::shared_ptr<RequestQueue> queue, const NativeServer& server,
                                          const Document& document, SelectCall call, SelectSink sink);

// Of an Espalier server's answer to one request with choices and choices_method. Fails: network.
Result<std::vector<ChoiceScore>> read_scores(std::string_view body, const SelectCall& call);

// What a prompt and choices are sent as to an Espalier server: `prompt` is {"text": ...} or {"input_ids": ...}.
Json write_select(Json prompt, const SelectCall& call);

// The scored tokens of one choice out of an SGLang server's entries: those behind a prompt of `prompt_tokens` tokens
// that ends as `text` does, with the last of these when the choice has changed it.
// Fails: network.
Result<std::vector<TokenScore>> behind_prompt(const Json& output, std::int64_t prompt_tokens, std::string_view text);

}  // namespace espalier::lang::native
