// reasoning.h: where a served model thinks, and where it answers (--reasoning-parser).
//
// Only the turn that the model is to write decides: what the chat template opens it with, and what an assistant's turn
// that goes on says already. There the last mark tells whether thinking goes on or is over; marks in other turns are
// words of somebody. Without one the way of the model's family decides, of which a constraint takes what the vocabulary
// has as a token only: a model without such a token was not trained to think, and its answer is constrained at once.
// Replies are split and constraints begin by the same decision.
// Threads: pure functions.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "espalier/request.h"
#include "server/routes/handler.h"
#include "text/reasoning.h"

namespace espalier::server {

// How an output is split, and what a constraint on it leaves alone.
struct ReasoningPlan {
  std::optional<ReasoningMarks> marks;  // none: no parser is set, or nothing is left to think
  std::optional<Thinking> thinking;
};

// Behind the beginning of a turn; `constrained`: the output has a grammar.
ReasoningPlan reasoning_in_turn(const Call& call, std::string_view opening, bool constrained);
// Behind a prompt of which nobody knows who wrote what.
ReasoningPlan reasoning_behind(const Call& call, std::span<const TokenId> prompt, bool constrained);

}  // namespace espalier::server
