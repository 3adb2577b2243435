// constrained_text.h: where the text of a sequence stands in its thinking and in its grammar, and what must come next.
//
// The grammar begins where the thinking is over; an output does not end before. While nobody knows whether the model thinks at all, both are followed:
// the mask lets through what the grammar allows and what goes on with the mark of thinking.
//
// Text that must come is found as soon as it is known: its tokens, as the tokenizer gives them whatever follows, are
// the next ones, whether they are appended at once (jump-forward) or computed one by one. So both ways give the same
// tokens.
// Threads: the engine thread. Fails: with grammar_too_complex once the grammar met a limit; the sequence ends.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/constrain/grammar_queue.h"
#include "engine/constrain/next_state_work.h"
#include "engine/constrain/thinking_section.h"
#include "espalier/error.h"
#include "espalier/request.h"
#include "espalier/types.h"
#include "grammar/grammar.h"

namespace espalier {

// A sequence's place in its grammar, with the forced tokens that are still to come.
class ConstrainedText {
 public:
  ConstrainedText() = default;  // anything may come
  ConstrainedText(std::shared_ptr<grammar::Grammar> grammar, ThinkingSection thinking)
      : grammar_(std::move(grammar)), thinking_(std::move(thinking)) {}

  explicit operator bool() const { return grammar_ != nullptr || thinking_; }
  const std::shared_ptr<grammar::Grammar>& grammar() const { return grammar_; }
  grammar::State state() const { return state_; }
  bool busy() const { return holds() && grammar_->busy(); }  // advance() and along() would wait
  bool holds() const { return grammar_ != nullptr && thinking_.at() != ThinkingSection::At::inside; }
  std::span<const TokenId> forced() const {
    return thinking_ ? thinking_.forced() : std::span(forced_).subspan(taken_);
  }
  // What the grammar has to do with, of all output.
  std::span<const TokenId> own(std::span<const TokenId> output) const {
    return output.subspan(std::min(begins_, output.size()));
  }
  bool ends() const { return ends_ && forced().empty(); }  // nothing may follow

  Result<> begin();  // at the start of the output
  // Who works out what must come, and how long may be waited for it when it is asked for first, and again. Nobody: it
  // is worked out where it is asked for.
  struct Background {
    GrammarQueue* queue = nullptr;
    std::chrono::milliseconds first{0}, again{0};
  };
  // Whether advance(token) would not wait and takes no time, and with `closing` what completes the text behind it.
  // Where it does, it is worked out in the background: to be asked again in the next step. `output`: all before the
  // token.
  bool knows_next(TokenId token, std::span<const TokenId> output, bool closing, const Background& background);
  // `token` has come; `output` is all of it, this token included. Waits for nobody where knows_next() said so before.
  Result<> advance(TokenId token, std::span<const TokenId> output);

  // What is to be known of the token behind some of a draft.
  struct Place {
    bool holds = false;  // else anything may come
    bool waits = false;  // behind the thinking: until then the output may not end
    grammar::State state = 0;
    TokenId forced = -1;        // it is this one
    bool ends = false;          // there is none
    TokenId also_allowed = -1;  // this one may come, whatever the grammar says: it begins to think
  };
  // By tokens of the draft before it. The draft is cut before its first token that cannot come, or behind which
  // nobody has been.
  Result<std::vector<Place>> along(std::vector<TokenId>& draft, std::span<const TokenId> output,
                                   const Background& background) const;

  Place place() const {
    const TokenId mark = holds() ? thinking_.next_of_mark() : TokenId{-1};
    const TokenId only = state_ == grammar::Automaton::dead ? mark : TokenId{-1};
    const bool waits = grammar_ != nullptr && !holds() && !thinking_.left() && !grammar_->may_be_empty();
    return {holds(), waits, state_, forced().empty() ? only : forced().front(), ends(), mark};
  }

 private:
  // advance(); false when the token may not come.
  Result<bool> follow(TokenId token, std::span<const TokenId> output);
  struct Seen {  // behind a token
    TokenId token = -1;
    grammar::State state = grammar::Automaton::dead;
    std::optional<grammar::Forced> forced;  // if it was looked for
  };
  Result<> find_forced(std::span<const TokenId> output);
  void take(grammar::Forced found);

  std::shared_ptr<grammar::Grammar> grammar_;
  ThinkingSection thinking_;
  std::size_t begins_ = 0;  // where in the output: the grammar's part
  grammar::State state_ = grammar::Automaton::dead;
  std::vector<TokenId> forced_;  // of which `taken_` have come
  std::size_t taken_ = 0;
  bool ends_ = false;                      // behind forced_
  std::shared_ptr<NextStateWork> behind_;  // being worked out
  std::optional<Seen> seen_;               // of the next token
};

}  // namespace espalier
