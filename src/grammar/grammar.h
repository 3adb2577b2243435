// grammar.h: a compiled constraint and the texts that are followed through it.
//
// A place in a text is a State, a plain number: keeping one is how a reader goes back. Everything that a text visits is
// worked out once and serves all texts of the grammar.
// Threads: any, one lock.
// Fails:   compile(): see espalier/grammar.h. The others with grammar_too_complex once a limit is met; the grammar then
//          stays unusable and is compiled anew by who still needs it.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "espalier/grammar.h"
#include "grammar/automaton/automaton.h"
#include "grammar/automaton/recorded_states.h"
#include "grammar/masks/token_masks.h"
#include "grammar/masks/vocabulary.h"
#include "grammar/memory_share.h"
#include "grammar/tags/structural_tag.h"

namespace espalier::grammar {

// Text that must come next, and the tokens of it that are certain.
struct Forced {
  std::string bytes;            // what every text that goes on from here begins with; empty where the text may end
  std::vector<TokenId> tokens;  // those of its tokens that do not depend on what follows
  bool ends = false;            // behind `bytes` nothing may follow, and `tokens` are all of them
};

// What may come next.
struct Allowed {
  std::shared_ptr<const MaskWords> tokens;
  bool end = false;  // the text may end here
};

// A compiled constraint: states of texts, their masks, forced text and shortest endings.
class Grammar {
 public:
  // budget: of the memory that it takes together with others, then and later; null: there is none.
  static Result<std::shared_ptr<Grammar>> compile(const Constraint& constraint, std::shared_ptr<Vocabulary> vocabulary,
                                                  const GrammarLimits& limits = {},
                                                  std::shared_ptr<MemoryBudget> budget = nullptr);

  State start() const { return start_; }
  bool may_be_empty() const { return may_be_empty_; }  // the text; known without waiting
  // The state behind these bytes; dead when they cannot come.
  Result<State> read(State from, std::string_view bytes);
  Result<State> read(State from, TokenId token) { return read(from, vocabulary_->text(token)); }
  // Tokens that may come. Warm states cost a look-up.
  Result<std::shared_ptr<const MaskWords>> mask(State state);
  // mask() and complete() at once. grammar_too_complex, too, where nothing may come as it would have too many rules
  // open at once: the grammar stays usable.
  Result<Allowed> allowed(State state);
  // allowed(), if it was worked out before and nobody is at work in the grammar: never waits.
  std::optional<Allowed> known(State state);
  // The text may end here.
  bool complete(State state);
  // Whether a new text should begin in it. False once half of what it could grow by is used up, so that the texts under
  // way can end before a limit is met and everything fails. True while somebody is at work: never waits.
  bool usable();
  // Whether somebody is at work in it, so that the others here would wait.
  bool busy();
  // While it is held nobody else is at work in it, and its thread waits nowhere here. Not held where somebody is.
  using Hold = std::unique_lock<std::recursive_mutex>;
  Hold try_hold() { return Hold(mutex_, std::try_to_lock); }
  // Finds forced(start(), {}), for at_start(), within a part of the time for compiling. Before the grammar is shared.
  Result<> find_start(std::chrono::milliseconds time);
  const Forced* at_start() const { return forced_at_start_ ? &*forced_at_start_ : nullptr; }  // null: not looked for
  // A shortest text that makes the whole complete; bad_request when none was found within the limits.
  Result<std::string> closing(State state);
  // The tokens of a text as the tokenizer gives them behind the tokens `before`. Empty when there is no tokenizer or it
  // cannot write the text.
  std::vector<TokenId> tokens_of(std::string_view text, std::span<const TokenId> before) const;
  // `before`: the tokens that lead here, for how the tokenizer cuts the text; may be a few only.
  Result<Forced> forced(State state, std::span<const TokenId> before);
  // Whether forced() (and closing()) was asked for here before, so that it takes no time, and nobody is at work. Never
  // waits.
  bool knows_after(State state, bool closing);

  const Vocabulary& vocabulary() const { return *vocabulary_; }
  std::size_t memory() const { return memory_.taken(); }  // bytes, about, when it was last at work; never waits

  // For pictures and tests.
  Automaton& automaton() { return *automaton_; }

 private:
  // Something that a text asks for: within the time that is left, which it takes from.
  class Work {
   public:
    explicit Work(Grammar& grammar);
    ~Work();
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

   private:
    Grammar& grammar_;
    const std::chrono::steady_clock::time_point begun_;
  };

  Grammar(std::shared_ptr<Vocabulary> vocabulary, const GrammarLimits& limits, std::shared_ptr<MemoryBudget> budget);
  using Moment = std::chrono::steady_clock::time_point;
  struct SharedResources {  // what it shares with other grammars
    std::shared_ptr<Vocabulary> vocabulary;
    std::shared_ptr<MemoryBudget> budget;
  };
  static Result<std::shared_ptr<Grammar>> make(const Constraint& constraint, const SharedResources& company,
                                               const GrammarLimits& limits, Moment until);
  Result<> begin(const Constraint& constraint, Moment until);
  Result<Json> read_json(const std::string& text, Moment until);
  TagSpecials specials_of(const Constraint& constraint) const;
  Result<Expression> read_constraint(const Constraint& constraint, Moment until);
  bool grows();  // says what it takes by now; whether that may become more
  std::size_t bytes() const;
  bool foresee(bool json);  // false: a limit was met, and nothing here is of use any more
  Result<> first_masks(bool json);
  void expand_values();
  Result<> limit_met() const;
  std::string forced_bytes(State state, State& end);
  Result<std::string> find_closing(State state);
  Result<std::shared_ptr<const MaskWords>> mask_locked(State state);
  Result<std::shared_ptr<const MaskWords>> plain_mask(State state);

  Constraint::Kind kind_ = Constraint::Kind::none;
  GrammarLimits limits_;
  std::recursive_mutex mutex_;
  std::shared_ptr<Vocabulary> vocabulary_;
  ExpressionStore store_;
  TagSources sources_;
  std::optional<Automaton> automaton_;
  std::optional<RecordedStates> recorded_;
  std::optional<TokenMasks> masks_;
  State start_ = Automaton::dead;
  bool may_be_empty_ = false;
  std::size_t nodes_at_start_ = 0;
  std::unordered_map<State, std::shared_ptr<const MaskWords>> known_masks_;
  std::unordered_set<State> stuck_;  // nothing may come: it would have too many rules open
  std::optional<Forced> forced_at_start_;
  std::unordered_set<State> looked_after_;  // forced() has been there
  std::unordered_map<State, Result<std::string>> closings_;
  std::chrono::steady_clock::duration laboured_{0};  // of step_time
  MemoryShare memory_;
  bool crowded_ = false;  // it might have grown, but for others
};

}  // namespace espalier::grammar
