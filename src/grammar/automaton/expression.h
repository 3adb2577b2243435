// expression.h: regular expressions over bytes, extended by calls of rules, and what each may read next.
//
// An expression is a number in an ExpressionStore, which keeps every one once (expression_nodes.h), so that "what is
// left to be read" is a state of an automaton that nobody had to build. steps() gives all that can happen to an
// expression with the next byte: disjoint sets of bytes, each with the expression that is left.
//
// The constructors simplify (no empty alternatives, alternatives sorted and flat, counters of the same item joined,
// none beside any text); an expression that can read nothing at all is `nothing`, also where only an intersection makes
// it so.
//
// Threads: a store is used by one thread at a time.
// Fails:   never; beyond the limits of nodes and work exhausted() turns true for good and results are `nothing`.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "grammar/automaton/derivatives.h"
#include "grammar/automaton/expression_nodes.h"
#include "grammar/automaton/expression_source.h"
#include "grammar/automaton/needless.h"
#include "grammar/automaton/possible_texts.h"

namespace espalier::grammar {

// Makes expressions, keeps each one once, and tells what it may read next.
class ExpressionStore : public ExpressionNodes {
 public:
  explicit ExpressionStore(std::size_t most_nodes = 2'000'000);

  ExpressionSources& sources() { return sources_; }  // of bodies of calls, and of what is `later`
  const ExpressionSources& sources() const { return sources_; }

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
  Expression anything() const { return anything_; }  // every text
  // `any`: every character of the alphabet; `some`: an expression that reads whole ones only (needless.h).
  void set_any_character(Alphabet alphabet, Expression any);
  void set_characters(Alphabet alphabet, Expression some) { nodes_[some].flags |= NeedlessParts::flag(alphabet); }

  // `like`: a similar lexeme whose tokens are known or soon will be; nothing = none. What differs is found by reading
  // both side by side (token_masks.h).
  Expression lexeme(Expression operand, Expression like = nothing);
  Expression read_lexeme(Expression operand, Expression like = nothing);  // the same, made by reading
  // Those that were made so, not by reading; in order, and as often as they were asked for.
  std::span<const Expression> lexemes() const { return lexemes_; }
  // `regular`: what it expands to calls no rules. Requires: it can read some text.
  Expression later(std::uint32_t payload, bool nullable, bool regular);

  // Stands behind a call and depends on the text that the call has read: by itself what the source expands, which
  // allows whatever any text would; with the text what the source recalls. `few`: one more text could be one too many
  // for what may follow to go on at all.
  Expression awaiting(std::uint32_t payload, bool few);
  Expression recalled(Expression e, std::string_view text);  // Requires: awaits(e)
  // A lower bound of the bytes of its texts, and what has as short a one (least_length.h).
  std::uint32_t least_after(Expression later) { return sources_.least(payload(later)); }
  Expression as_short(Expression later);

  Expression expanded(Expression later) { return derivatives_.expanded(later); }  // what its maker gives for it
  Steps steps(Expression e) { return possible_.steps(e); }                        // none to what reads no text
  Expression after(Expression e, unsigned char byte);                             // nothing when it cannot come
  // The same where nobody will ask for other bytes: what these lead to is not made. Requires: calls no rules.
  Expression derivative(Expression e, unsigned char byte) { return possible_.derivative(e, byte); }
  bool accepts(Expression e, std::string_view text);  // Requires: calls no rules
  // Can it read any text? Calls and `later` count as possible.
  bool possible(Expression e) { return possible_.possible(e); }
  Expression suffix(Expression literal);  // without its first byte

  std::size_t memory() const { return memory_of_nodes() + derivatives_.memory(); }  // bytes, about

 private:
  void merge_bytes(std::vector<Expression>& parts);
  void join_counters(std::vector<Expression>& parts);

  ExpressionSources sources_;
  NeedlessParts needless_;
  Derivatives derivatives_;
  PossibleTexts possible_;
  std::vector<Expression> lexemes_;
  Expression anything_ = nothing;
};

}  // namespace espalier::grammar
