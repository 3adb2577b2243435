// speculation.h: several generations of one state out of one paid call.
//
// Both kinds are logic alone: the executor asks them, makes the calls and changes the document. One object a state, so
// states of a batch know nothing of each other; a fork begins with a new one. Generations are taken part in only when
// they could be made alike: one sample, no constraint, no log-probabilities, not streamed, ended by strings alone.
//
// CompletionSpeculation, for back ends that go on with a text:
//   at a gen         serve(call): the output, when what was generated beyond is enough; nothing is to be called.
//                    Else make the call widen(call), and the output is take(call, its result).
//   at a text        text(constant), when it is appended.
//   at all else that changes the document (roles, pictures, select, variables): drop(). At the end: drop().
// The output is what the call alone would have given at temperature 0: it ends at the first stop string that is
// complete within its max_new_tokens. Where a server tells no tokens, these are estimated by length.
//
// ChatSpeculation, for back ends that say a whole turn:
//   at the opening of an assistant's turn   begin().
//   inside it                               text(constant) and gen(call); the document stays as it is. A gen that is
//                                           refused (false), and whatever else comes inside the turn (a role, a
//                                           picture, a select, a read of a recorded variable): do as after give-up,
//                                           below.
//   at the turn's end, when gens() > 0      make call(), at the document's opening; match(its result) gives the outputs
//                                           of all gens in their order, to be appended with the texts between them.
//                                           None: when more_tries() make it again, else do the parts() one by one, as
//                                           if there were no speculation. What cannot be done so is then an error:
//                                           never a guess.
// Constants must stand in the answer literally. Each gen ends where its first stop string begins; the last one takes
// what is left. The call's max_new_tokens is that of the speculation.
//
// gain() is what was saved and wasted since it was last asked: for Backend::count().
// Units:   tokens as the back end counts them; bytes of text.
// Threads: one at a time (the state's lock).
// Source:  SGLang, num_api_spec_tokens of lang/interpreter.py and lang/backend/openai.py.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "espalier/backend.h"

namespace espalier::lang {

// What a call that was paid for has brought, as far as it was not used yet.
class PaidText {
 public:
  PaidText() = default;
  explicit PaidText(const GenOutput& output);

  std::string_view rest() const { return std::string_view(text_).substr(used_); }
  bool ended() const { return ended_; }  // by itself: nothing would follow
  std::int64_t prompt_tokens() const { return prompt_tokens_; }
  const Json& meta() const { return meta_; }
  void use(std::size_t bytes) { used_ += bytes; }
  // Bytes of the rest that its first `tokens` tokens take; all when it has no more.
  std::size_t bytes_of(std::int64_t tokens) const;
  std::int64_t tokens_left() const;

 private:
  double tokens_before(std::size_t byte) const;

  std::string text_;
  std::vector<std::size_t> ends_;  // of the tokens; empty: not told
  std::size_t used_ = 0;
  bool ended_ = false;
  std::int64_t prompt_tokens_ = 0, tokens_ = 0;
  Json meta_;
};

// Speculation on texts: a longer output is kept, and later generations are cut out of it.
class CompletionSpeculation {
 public:
  // Requires: tokens >= 1.
  explicit CompletionSpeculation(int tokens) : tokens_(tokens) {}

  std::optional<GenOutput> serve(const GenCall& call);
  GenCall widen(GenCall call);
  GenOutput take(const GenCall& call, GenOutput result);
  void text(std::string_view constant);
  void drop();
  BackendUsage gain();

 private:
  std::optional<GenOutput> cut(const GenCall& call);

  const int tokens_;
  std::optional<PaidText> paid_;
  std::optional<GenCall> paid_call_;  // as it was asked for
  bool widened_ = false;
  BackendUsage gain_;
};

// Speculation on chat turns: an assistant's turn is generated as one and divided into its parts.
class ChatSpeculation {
 public:
  struct Part {
    std::variant<std::string, GenCall> what;
  };

  // Requires: both >= 1.
  explicit ChatSpeculation(int tokens, int tries = 3) : tokens_(tokens), tries_(tries) {}

  void begin();
  void text(std::string_view constant);
  bool gen(const GenCall& call);  // false: cannot be part of a call with the others
  int gens() const { return gens_; }
  const std::vector<Part>& parts() const { return parts_; }

  GenCall call() const;
  std::optional<std::vector<GenOutput>> match(const GenOutput& result);
  bool more_tries() const { return made_ < tries_ && !hopeless_; }
  BackendUsage gain();

 private:
  std::optional<std::vector<std::string>> matched(PaidText& paid) const;

  const int tokens_, tries_;
  std::vector<Part> parts_;
  int gens_ = 0, made_ = 0;
  bool hopeless_ = false;  // the same answer has failed before
  std::string last_answer_;
  BackendUsage gain_;
};

}  // namespace espalier::lang
