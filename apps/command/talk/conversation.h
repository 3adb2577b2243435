// conversation.h: the turns of a chat, and the prompt they make within what the context holds.
//
// Units: tokens. Threads: one. Fails: bad_request when the template refuses the turns, or when a question does not fit
// even without the turns before it; the conversation is then as it was before the question.
#pragma once

#include <string>
#include <vector>

#include "command/talk/prompter.h"

namespace espalier::command {

class Conversation {
 public:
  // `answer_room` tokens are kept free for each answer, a quarter of the context at most.
  Conversation(Prompter& prompter, std::string system, int answer_room);

  struct Prompt {
    server::ChatTokens tokens;
    int dropped = 0;  // questions, with their answers, that were left out to make room: the oldest
  };
  // `pictures`: parts, which stand before the words. Order: (ask (answered | take_back))*
  Result<Prompt> ask(std::string question, std::span<const Json> pictures = {});
  void answered(std::string text);
  void take_back();  // the question is forgotten

  void set_system(std::string text);
  void clear();  // the system message stays

  // In the form of chat completions.
  Json messages() const { return with_system(turns_); }
  Result<int> tokens() const;  // of all of it
  int limit() const { return limit_; }

 private:
  Json with_system(const Json& turns) const;

  Prompter& prompter_;
  std::string system_;
  Json turns_ = Json::array();  // without the system message: question, answer, question, ...
  int limit_ = 0, answer_room_ = 0;
};

}  // namespace espalier::command
