// reasoning.h: where a served model thinks, and where it answers (--reasoning-parser).
//
// A prompt may have begun the thinking ("<think>" is its last mark), or have ended it before it began; else the way of
// the model's family decides. A constraint leaves the thinking alone.
// Threads: pure functions.
#pragma once

#include <optional>
#include <span>

#include "espalier/request.h"
#include "server/routes/handler.h"
#include "text/reasoning.h"

namespace espalier::server {

// How the output behind a prompt is to be split; none: no parser is set, or the prompt leaves nothing to think.
std::optional<ReasoningMarks> reasoning_after(const Call& call, std::span<const TokenId> prompt);
// What a constraint leaves alone between them. None: the model's vocabulary has no token for the end of thinking.
std::optional<Thinking> thinking_between(const Call& call, const ReasoningMarks& marks);

}  // namespace espalier::server
