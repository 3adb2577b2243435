// chat.h: a conversation in the terminal: lines become questions, lines that begin with a slash are commands.
//
// Threads: one. Fails: unsupported for a model without a chat template. What one question runs into is told, and the
// conversation goes on.
#pragma once

#include <string>

#include "command/talk/answer.h"
#include "command/talk/prompter.h"

namespace espalier::command {

Result<> chat(Prompter& prompter, const std::string& system, const AnswerOptions& options);

}  // namespace espalier::command
