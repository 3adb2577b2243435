// answer.h: one prompt answered onto stdout, as it comes; Ctrl-C ends it early.
//
// Threads: one; SIGINT is taken while an Interrupts lives. Fails: bad_request (the prompt or a sampling value), and
// what the engine's stream ends with.
#pragma once

#include <string>

#include "espalier/engine.h"
#include "server/prompt/chat_prompt.h"

namespace espalier::command {

struct AnswerOptions {
  SamplingParams sampling;
  bool stats = false;  // a line about tokens and speed on stderr
};

struct Answer {
  std::string text;
  bool interrupted = false;  // by Ctrl-C
  bool unread = false;       // stdout cannot be written any more
  bool full = false;         // the context ended it
};

// While it lives, SIGINT asks the answer to end instead of ending the program.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  static bool take();  // whether one came since the last call
};

Result<Answer> answer(Engine& engine, server::ChatTokens prompt, const AnswerOptions& options);

}  // namespace espalier::command
