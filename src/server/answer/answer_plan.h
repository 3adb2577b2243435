// answer_plan.h: how an output will be read: where it thinks, where it answers, where it calls tools.
//
// Formats are the model's (--reasoning-parser, --tool-call-parser; by default what its chat template shows). Only the
// turn that the model is to write decides where it begins: what the template opens it with, and what an assistant's turn
// that goes on says already. There the last mark tells whether thinking goes on or is over; marks in other turns are
// words of somebody. Without one the way of the model's family decides, of which a constraint takes what the vocabulary
// has as a token only: a model without such a token was not trained to think, and its answer is constrained at once.
// Replies are divided and constraints begin by the same decision.
// Threads: pure functions.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "espalier/request.h"
#include "server/answer/tool_fields.h"
#include "server/routes/handler.h"
#include "text/answer/answer_parser.h"

namespace espalier::server {

// How an output is divided, and what a constraint on it leaves alone.
struct AnswerPlan {
  AnswerOptions reading;
  std::optional<Thinking> thinking;                           // of the output; nothing: there is none, or nobody knows
  bool leaves_thinking = false;                               // a constraint does
  std::shared_ptr<const std::vector<TokenId>> shown_special;  // marks that are special tokens
};

// What stands before the output: the beginning of its turn, or a prompt of which nobody knows who wrote what.
struct AnswerBefore {
  std::optional<std::string_view> opening;
  std::span<const TokenId> prompt;
};

// `constrained`: the answer has a form from its first byte on. `calls`: null where no tools may be called.
AnswerPlan plan_answer(const Call& call, const AnswerBefore& before, bool constrained, const CallFormat* calls,
                       const ToolFields* tools);

// Special tokens that formats read; null: there are none.
std::shared_ptr<const std::vector<TokenId>> marks_that_are_special(const AnswerOptions& reading,
                                                                   const ServedModel& model);

// The formats of a served model by the server's options: a name, "auto" (what the template shows) or "none".
const ThinkingFormat* chosen_thinking(std::string_view option, const ChatTemplate* chat_template);
const CallFormat* chosen_calls(std::string_view option, const ChatTemplate* chat_template);

}  // namespace espalier::server
