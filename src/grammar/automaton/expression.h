// expression.h: regular expressions over bytes, extended by calls of rules, and what each may read next.
//
// An expression is a number in an ExpressionStore, which keeps every one once: equal numbers are equal expressions, so
// that "what is left to be read" is a state of an automaton that nobody had to build. steps() gives all that can happen
// to an expression with the next byte: disjoint sets of bytes, each with the expression that is left. Counters
// (`x{0,2000}`), intersections and complements are single nodes and never multiplied out.
//
// The constructors simplify (no empty alternatives, alternatives sorted and flat, counters of the same item joined,
// none beside any text); an expression that can read nothing at all is `nothing`, also where only an intersection makes
// it so.
//
// Threads: a store is used by one thread at a time.
// Fails:   never; beyond the limits of nodes and bytes exhausted() turns true for good and results are `nothing`.
// Source:  Brzozowski, "Derivatives of regular expressions" (1964); Owens, Reppy, Turon, "Regular-expression
//          derivatives re-examined" (2009).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/incremental_free.h"
#include "base/thread_time_budget.h"
#include "grammar/automaton/stable_pool.h"
#include "grammar/characters/byte_set.h"

namespace espalier::grammar {

using Expression = std::uint32_t;
using Rule = std::uint32_t;

// The kinds of node that an expression is made of.
enum class Op : std::uint8_t {
  nothing,   // no text
  empty,     // the empty text
  bytes,     // one byte of a set
  literal,   // a text of two or more bytes
  concat,    // first, then the rest; the first is no concat
  either,    // any of two or more
  both,      // all of two or more at once
  negation,  // every text that the operand is not
  repeat,    // operand low..high times
  call,      // a text of a rule
  lexeme,    // the operand, as one word whose tokens are worth remembering
  later,     // an expression that its maker gives when it is needed
};

// Gives the bodies of calls and the expressions behind `later` nodes; called while steps() runs.
class ExpressionSource {
 public:
  virtual Expression rule_body(Rule rule) = 0;
  virtual bool has_bodies() const { return false; }  // all of them: none is made when it is asked for
  virtual Expression expand(std::uint32_t payload) = 0;
  // What an awaiting expression is once the text before it is known (recorded_states.h).
  virtual Expression recall(std::uint32_t /*payload*/, std::string_view /*text*/) { return 0; }
  // How many bytes a text of what is behind `payload` has at least, told at once.
  virtual std::uint32_t least(std::uint32_t /*payload*/) { return 0; }
  // Another payload with as short a shortest text, where that takes fewer others to find.
  virtual std::uint32_t as_short(std::uint32_t payload) { return payload; }
  virtual std::size_t memory() const { return 0; }  // bytes, about, of what grows with the constraint
  virtual ~ExpressionSource() = default;
};

// What characters are made of: UTF-8, or the inside of a JSON string (spelling.h).
enum class Alphabet : std::uint8_t { plain, json };

// The bytes of a set may come, and lead to this expression.
struct Step {
  ByteSet on;
  Expression to = 0;
};
struct Opening {  // a rule is read here, then the rest
  Rule rule = 0;
  Expression rest = 0;
};
// All that can happen to an expression next: bytes, and rules that may be called.
struct Steps {
  std::span<const Step> bytes;  // disjoint, none to `nothing`
  std::span<const Opening> calls;
};

// Makes expressions, keeps each one once, and tells what it may read next.
class ExpressionStore {
 public:
  static constexpr Expression nothing = 0, empty = 1;
  static constexpr std::uint32_t unbounded = 0xffffffff;

  explicit ExpressionStore(std::size_t most_nodes = 2'000'000);

  // Calls and `later` nodes are the source's that was added last; while one of them is expanded, its own source's.
  // Sources must outlive all calls of steps(). Each numbers from 0, below 2^24.
  static constexpr std::size_t kMostSources = 256;
  void add_source(ExpressionSource& source) {  // Requires: fewer than kMostSources
    sources_.push_back(&source);
    source_ = static_cast<std::uint32_t>(sources_.size() - 1);
  }
  Expression rule_body(Rule rule) {
    return of_source(rule, [](ExpressionSource& source, Rule own) { return source.rule_body(own); });
  }

  bool has_body(Rule rule) const { return sources_[rule >> kOwnBits]->has_bodies(); }

  Expression bytes(const ByteSet& set);
  Expression text(std::string_view bytes);
  Expression any_of(std::vector<std::string_view> texts);  // what several begin with is read once
  Expression concat(Expression first, Expression rest);
  Expression concat(std::initializer_list<Expression> parts);
  Expression either(std::vector<Expression> parts);
  Expression either(Expression a, Expression b) { return either(std::vector<Expression>{a, b}); }
  // Operands of both(), negation() and lexeme() call no rules.
  Expression both(std::vector<Expression> parts);
  Expression both(Expression a, Expression b) { return both(std::vector<Expression>{a, b}); }
  Expression negation(Expression operand);
  Expression repeat(Expression operand, std::uint32_t low, std::uint32_t high = unbounded);
  Expression star(Expression operand) { return repeat(operand, 0); }
  Expression optional(Expression operand) { return repeat(operand, 0, 1); }
  Expression call(Rule rule);
  // What a pattern was looked for in may go on with anything once it was found: beside `any* "` all other ways to read
  // characters and a quote are needless, and only who knows what characters are can see it. `any`: every character of
  // the alphabet; `some`: an expression that reads whole ones only.
  void set_any_character(Alphabet alphabet, Expression any);
  void set_characters(Alphabet alphabet, Expression some) { nodes_[some].flags |= characters_flag(alphabet); }

  // `like`: a similar lexeme whose tokens are known or soon will be; nothing = none. What differs is found by reading
  // both side by side (token_masks.h).
  Expression lexeme(Expression operand, Expression like = nothing);
  // Those that were made so, not by reading; in order, and as often as they were asked for.
  std::span<const Expression> lexemes() const { return lexemes_; }
  // `regular`: what it expands to calls no rules. Requires: it can read some text.
  Expression later(std::uint32_t payload, bool nullable, bool regular);

  // Stands behind a call and depends on the text that the call has read: by itself what the source expands, which
  // allows whatever any text would; with the text what the source recalls. `few`: one more text could be one too many
  // for what may follow to go on at all.
  Expression awaiting(std::uint32_t payload, bool few);
  bool awaits(Expression e) const;  // at its beginning
  bool awaits_few(Expression e) const;
  Expression recalled(Expression e, std::string_view text);  // Requires: awaits(e)
  // A lower bound of the bytes of its texts, and what has as short a one (least_length.h).
  std::uint32_t least_after(Expression later);
  Expression as_short(Expression later);
  // Whether anything may await a text. Who makes awaiting expressions says so before anything is read.
  bool records() const { return records_; }
  void set_records() { records_ = true; }

  Expression anything() const { return anything_; }  // every text

  Op op(Expression e) const { return nodes_[e].op; }
  bool nullable(Expression e) const { return nodes_[e].flags & kNullable; }
  bool calls(Expression e) const { return nodes_[e].flags & kCalls; }    // a rule, somewhere
  bool local(Expression e) const { return nodes_[e].flags & kLocal; }    // means something in this store only
  bool counts(Expression e) const { return nodes_[e].flags & kCounts; }  // a repetition in it has an upper bound
  Expression operand(Expression e) const { return nodes_[e].a; }         // of concat (first), negation, repeat, lexeme
  Expression rest(Expression e) const { return nodes_[e].b; }            // of concat
  Expression like(Expression e) const { return nodes_[e].b; }            // of lexeme
  std::uint32_t low(Expression e) const { return nodes_[e].b; }          // of repeat
  std::uint32_t high(Expression e) const { return nodes_[e].c; }
  std::span<const Expression> parts(Expression e) const;                 // of either, both
  const ByteSet& set(Expression e) const { return sets_[nodes_[e].a]; }  // of bytes
  std::string_view literal(Expression e) const;                          // of literal
  // Equal for expressions of the same shape in any store of this process; not for `local` ones.
  std::uint64_t fingerprint(Expression e) const { return nodes_[e].hash; }

  Expression expanded(Expression later);  // what its maker gives for it
  Steps steps(Expression e);
  Expression after(Expression e, unsigned char byte);  // nothing when it cannot come
  // The same where nobody will ask for other bytes: what these lead to is not made. Requires: calls no rules.
  Expression derivative(Expression e, unsigned char byte);
  bool accepts(Expression e, std::string_view text);  // Requires: calls no rules
  bool possible(Expression e);                        // can it read any text? Calls and `later` count as possible

  std::size_t size() const { return nodes_.size(); }
  std::size_t memory() const;  // bytes, about
  bool exhausted() const { return exhausted_; }
  void exhaust() { exhausted_ = true; }  // a maker of expressions has reached a limit of its own
  // From this moment on the store is exhausted; looked at now and then.
  void set_deadline(std::chrono::steady_clock::time_point deadline) { deadline_ = deadline; }
  std::chrono::steady_clock::time_point deadline() const { return deadline_; }
  // Or when the thread has worked for so long; nothing: for as long as it likes.
  void set_allowance(std::optional<ThreadTimeBudget> allowance) { allowance_ = allowance; }
  // Or when this says no; asked now and then.
  void set_room(std::function<bool()> room) { room_ = std::move(room); }
  // Makers call it for every piece of work that makes no expression. False when there is no time left.
  bool spend();

 private:
  static constexpr std::uint8_t kNullable = 1, kCalls = 2, kBoolean = 4, kLocal = 8, kCounts = 64;
  // Of each alphabet: it reads whole characters only. Known of most, so equal expressions may differ in it.
  static constexpr std::uint8_t kPlain = 16, kJson = 32, kCharacters = kPlain | kJson;
  static constexpr std::uint8_t characters_flag(Alphabet alphabet) {
    return alphabet == Alphabet::plain ? kPlain : kJson;
  }
  static constexpr std::uint32_t kUnknown = 0xffffffff;
  enum class Possible : std::uint8_t { unknown, yes, no };

  struct Node {
    Op op = Op::nothing;
    std::uint8_t flags = 0;
    Possible possible = Possible::unknown;
    bool pruned = false;  // its steps lead to possible expressions only
    std::uint32_t a = 0, b = 0, c = 0;
    std::uint32_t steps = kUnknown;  // index into step_lists_
    std::uint64_t hash = 0;
  };
  using Found = std::pair<std::vector<Step>, std::vector<Opening>>;  // steps under construction

  Expression read_lexeme(Expression operand, Expression like = nothing);
  Expression intern(Node node, std::span<const Expression> parts = {}, std::string_view text = {});
  bool same(const Node& node, const Node& other, std::span<const Expression> parts, std::string_view text) const;
  std::uint64_t hash_of(const Node& node, std::span<const Expression> parts, std::string_view text) const;
  void grow_table();
  std::uint32_t set_index(const ByteSet& set);
  Expression suffix(Expression literal);
  Expression after_one(Expression repetition);
  std::uint8_t inherited(Expression e) const { return nodes_[e].flags & (kCalls | kBoolean | kLocal | kCounts); }
  std::uint8_t inherited(std::span<const Expression> parts) const;
  std::uint8_t characters(const Node& node, std::span<const Expression> parts, std::string_view text) const;
  bool is_any_text(Expression e, std::uint8_t& flag, Expression& tail) const;
  bool has_characters_before(Expression e, Expression tail, std::uint8_t flag) const;
  void drop_needless(std::vector<Expression>& alternatives) const;
  bool drop_needless_conditions(std::vector<Expression>& operands) const;
  void flatten(std::vector<Expression>& parts, Op op) const;
  void merge_bytes(std::vector<Expression>& parts);
  void join_counters(std::vector<Expression>& parts);

  Steps raw_steps(Expression e);
  Expression raw_derivative(Expression e, unsigned char byte);
  Found find_steps(Expression e);
  Found steps_of_concat(Expression first, Expression rest);
  Found steps_of_either(Expression e);
  Found steps_of_both(Expression e);
  Found steps_of_negation(Expression operand);
  Found steps_of_repeat(Expression e);
  Found steps_of_lexeme(Expression e);
  void make_disjoint(std::vector<Step>& steps);
  std::uint32_t keep(const Found& found);
  bool find_text(Expression start);
  bool has_text_of_one_byte(Expression intersection);
  std::optional<bool> find_short_text(Expression start);
  bool find_any_text(Expression start);
  bool leads_to_text(Expression e) const;

  std::size_t most_nodes_;
  bool exhausted_ = false;
  bool records_ = false;
  std::uint32_t spent_ = 0;
  std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::time_point::max();
  std::optional<ThreadTimeBudget> allowance_;
  std::function<bool()> room_;
  static constexpr std::uint32_t kOwnBits = 24;
  std::uint32_t numbered(std::uint32_t own) const { return source_ << kOwnBits | own; }
  template <class Give>
  Expression of_source(std::uint32_t number, Give give) {
    const std::uint32_t before = std::exchange(source_, number >> kOwnBits);
    const Expression given = give(*sources_[source_], number & ((1u << kOwnBits) - 1));
    source_ = before;
    return given;
  }
  std::vector<ExpressionSource*> sources_;
  std::uint32_t source_ = 0;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> table_;  // open addressing: node + 1, 0 = free
  StablePool<Expression> part_pool_;
  std::vector<std::span<const Expression>> part_lists_;  // of either and both, by node.a
  StablePool<char> text_pool_;
  std::vector<const char*> texts_;  // of literals, by node.a
  std::vector<ByteSet> sets_;
  IncrementallyFreed<std::unordered_map<std::uint64_t, std::vector<std::uint32_t>>> set_numbers_;
  StablePool<Step> step_pool_;
  StablePool<Opening> opening_pool_;
  IncrementallyFreed<std::deque<Steps>> step_lists_;  // many and large: they do not move as they become more
  IncrementallyFreed<std::unordered_map<Expression, Expression>> expansions_;  // of `later`
  std::vector<Expression> lexemes_;
  Expression anything_ = nothing;
  std::array<Expression, 2> any_texts_{};  // by alphabet; nothing: it is not known
};

}  // namespace espalier::grammar
