// row_mask.h: which tokens may follow one row of a step, worked out beside the model.
//
// A mask that is known costs nothing; another is worked out on the background pool while the model computes. Who picks
// the token waits for it, but not for ever: a sequence whose mask takes long sits out a step, and the others go on.
// Units:   masks are bitsets over token ids, espalier/grammar.h.
// Threads: work() by one; the others by any. Fails: with the grammar's error, once its limits are met.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/constrain/constrained_text.h"

namespace espalier {

// How long a step waits for what a grammar has to say of a row: others wait too, or nobody does.
inline constexpr std::chrono::milliseconds kGrammarWait{5}, kGrammarWaitAlone{100};

// The mask of one row: known, or worked out by whoever claims it first.
class RowMask {
 public:
  // also_allowed: a token that may come too; -1: none.
  RowMask(std::shared_ptr<grammar::Grammar> grammar, grammar::State state, TokenId also_allowed)
      : grammar_(std::move(grammar)), state_(state), also_allowed_(also_allowed) {}
  RowMask(grammar::State state, TokenId also_allowed, grammar::Allowed known)
      : state_(state), also_allowed_(also_allowed), allowed_(with_also_allowed(std::move(known))) {}

  bool claim() { return !claimed_.exchange(true); }  // true once: by who then works
  void work() {
    auto allowed = grammar_->allowed(state_);
    if (allowed.ok()) allowed = with_also_allowed(std::move(allowed).value());
    {
      const std::lock_guard lock(mutex_);
      allowed_ = std::move(allowed);
    }
    done_.notify_all();
  }
  // Null when it is not there within the limit.
  const Result<grammar::Allowed>* wait(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    const bool there = done_.wait_for(lock, limit, [&] { return allowed_.has_value(); });
    return there ? &*allowed_ : nullptr;
  }
  bool ready() {
    const std::lock_guard lock(mutex_);
    return allowed_.has_value();
  }
  bool is_of(grammar::State state, TokenId also_allowed) const {
    return state_ == state && also_allowed_ == also_allowed;
  }

 private:
  grammar::Allowed with_also_allowed(grammar::Allowed allowed) const {
    if (also_allowed_ < 0) return allowed;
    auto tokens = std::make_shared<grammar::MaskWords>(*allowed.tokens);
    const auto word = static_cast<std::size_t>(also_allowed_) / 32;
    if (word >= tokens->size()) tokens->resize(word + 1);
    (*tokens)[word] |= 1u << (static_cast<unsigned>(also_allowed_) % 32);
    return {std::move(tokens), allowed.end};
  }

  std::shared_ptr<grammar::Grammar> grammar_;
  grammar::State state_ = grammar::Automaton::dead;
  TokenId also_allowed_ = -1;
  std::atomic<bool> claimed_{false};
  std::mutex mutex_;
  std::condition_variable done_;
  std::optional<Result<grammar::Allowed>> allowed_;
};

}  // namespace espalier
