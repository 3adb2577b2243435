// kept_tokens.h: the tokens of stored turns, so that the next turn finds all of them in the prefix cache.
//
// A turn keeps how many pieces of the turns before it began its prompt, what came behind them, and what the model made
// of it: texts and tokens. Tokens of a model are nothing to another one, so they carry its fingerprint.
// Threads: pure functions. Fails: never; what cannot be read counts as not kept.
#pragma once

#include <string>
#include <vector>

#include "server/prompt/chat_prompt.h"
#include "server/responses/response_reply.h"
#include "server/served_model.h"

namespace espalier::server {

// What turns, oldest first, know of the conversation that goes on from them. One that kept nothing, or of another
// model, takes away what was known before it.
std::vector<KnownPiece> known_pieces(const std::vector<std::string>& kept, const ServedModel& model);

// What a turn keeps; "": nothing. `known`: as encode_chat_turn has filled it. An output with hidden special tokens, whose
// text nobody will render, is left out.
std::string kept_tokens(const ServedModel& model, const KnownBeginning& known, const EndedResponse& ended,
                        const std::vector<TokenId>* shown_special);

}  // namespace espalier::server
