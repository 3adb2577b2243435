// derivatives.h: all that can happen to an expression next, whether or not it leads to any text.
//
// Counters, intersections and complements are single nodes and never multiplied out; what a byte leads to is made when
// it is asked for.
// Threads: as the store. Fails: never; beyond the store's limits expressions lead to `nothing`.
// Source:  Brzozowski, "Derivatives of regular expressions" (1964); Owens, Reppy, Turon, "Regular-expression
//          derivatives re-examined" (2009).
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/incremental_free.h"
#include "grammar/automaton/expression_nodes.h"

namespace espalier::grammar {

class ExpressionStore;

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

// Finds steps, each expression's once.
class Derivatives {
 public:
  explicit Derivatives(ExpressionStore& store) : store_(store) {}

  Steps steps(Expression e);
  void keep_only(Expression e, const std::vector<Step>& bytes);  // of its steps
  // What steps() leads to, where nobody will ask for other bytes: what these lead to is not made.
  Expression after(Expression e, unsigned char byte);
  Expression expanded(Expression later);  // what its maker gives for it
  std::size_t memory() const {
    return step_pool_.memory() + opening_pool_.memory() + step_lists_.size() * sizeof(Steps);
  }

 private:
  using Found = std::pair<std::vector<Step>, std::vector<Opening>>;  // steps under construction

  Found find(Expression e);
  Found of_concat(Expression first, Expression rest);
  Found of_either(Expression e);
  Found of_both(Expression e);
  Found of_negation(Expression operand);
  Found of_repeat(Expression e);
  Found of_lexeme(Expression e);
  Expression after_parts(Expression e, unsigned char byte);
  Expression after_one(Expression repetition);
  void make_disjoint(std::vector<Step>& steps);
  std::uint32_t keep(const Found& found);

  ExpressionStore& store_;
  StablePool<Step> step_pool_;
  StablePool<Opening> opening_pool_;
  IncrementallyFreed<std::deque<Steps>> step_lists_;  // many and large: they do not move as they become more
  IncrementallyFreed<std::unordered_map<Expression, Expression>> expansions_;  // of `later`
};

}  // namespace espalier::grammar
