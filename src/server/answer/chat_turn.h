// chat_turn.h: a conversation that the model is to go on with, whatever dialect it came in: its request, and how the answer
// is read.
//
// Adds the constraint that calls of tools need, renders and encodes the conversation, and decides where it thinks.
// Threads: pure functions; compiles constraints and renders (background pool).
// Fails:   as encode_chat and constrain; bad_request where a forced call meets a constraint of the body.
#pragma once

#include <string>
#include <vector>

#include "net/http/http_types.h"
#include "server/answer/answer_plan.h"
#include "server/fields/constraint_fields.h"
#include "server/prompt/chat_prompt.h"

namespace espalier::server {

// What a body asks for.
struct ChatTurn {
  ChatPrompt prompt;
  std::vector<TokenId> input_ids;  // instead of rendering the messages
  bool has_ids = false;
  bool separate_thinking = true;    // told apart from the text
  KnownBeginning* known = nullptr;  // what former turns say of it, and what this one adds; null: nothing
};

// How its answer is read.
struct ChatReading {
  AnswerOptions options;
  bool only_calls = false;  // calls must come
  bool thinks = false;      // the model's thinking is told apart
  net::Headers headers;     // of the answer: tools that the template dropped
};

// Sets the prompt, the grammar and what goes with them.
Result<ChatReading> begin_chat_turn(const Call& call, ChatTurn& turn, ConstraintFields& constraint,
                                    RequestFields& fields);

}  // namespace espalier::server
