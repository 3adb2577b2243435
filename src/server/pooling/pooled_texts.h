// pooled_texts.h: the texts of one body on their way through the engine: each a request of its own, one answer for all.
//
// Texts are handed to the engine some at a time, so that a body of thousands neither fills the queue nor stands before
// others. One that cannot be computed fails by itself (PooledWork::each_alone) or ends the whole.
// Order:   begin() once. It owns the streams: when the client leaves or a deadline passes, dropping them cancels the work.
// Threads: begin(): any; afterwards the notifier's thread.
// Fails:   the client is told, never the caller.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "server/routes/handler.h"

namespace espalier::server {

// One text, and what became of it.
struct PooledText {
  std::string place;                    // "input[3]"
  std::string id = {};                  // the request's
  std::optional<Request> request = {};  // none: it has an error
  std::optional<Error> error = {};
  int tokens = 0;  // of its prompt
  PooledEvent pooled = {};
  std::vector<TokenLogprob> ids = {};  // of a model that generates: those of the first token that the request asks for
  Usage usage = {};
  Timing timing = {};
};

// What a body asks for, ready to run.
struct PooledWork {
  std::vector<PooledText> texts;
  bool each_alone = false;                                                // else the first error is the answer
  std::function<std::string(std::vector<PooledText>& texts)> write = {};  // the answer's body, once all are done
  Dialect dialect = Dialect::openai;
};

void begin_pooled(const Call& call, net::HttpRequest& request, net::Responder& responder, PooledWork work);

// The error of one of several says which it is of.
void name_place(PooledText& text, std::size_t count);
// Tokens of all prompts; of those that have no error.
int prompt_tokens(const std::vector<PooledText>& texts);

}  // namespace espalier::server
