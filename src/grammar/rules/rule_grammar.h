// rule_grammar.h: context-free rules as expressions that the automaton can read.
//
// The automaton enters rules before it reads a byte, so no rule may come back to itself that way: rules are taken in
// their version without the empty text, and left recursion is turned into right recursion. Small rules that call no
// others become part of those that use them.
// Threads: one at a time.
// Fails:   make(): bad_request for rules that allow no text, grammar_too_complex for more than 64 rules that are
//          left-recursive through one another.
// Source:  the elimination is Rosenkrantz's (1967): A = N L* as equations, L* as new rules.
#pragma once

#include <memory>
#include <vector>

#include "grammar/automaton/expression.h"
#include "grammar/characters/spelling.h"
#include "grammar/rules/rule_text.h"

namespace espalier::grammar {

// The ExpressionSource of a RuleText: its rules without left recursion and empty texts.
class RuleGrammar final : public ExpressionSource {
 public:
  static Result<std::unique_ptr<RuleGrammar>> make(ExpressionStore& store, const RuleText& rules);

  Expression root() const { return root_; }
  Expression rule_body(Rule rule) override { return bodies_[rule]; }
  bool has_bodies() const override { return true; }
  Expression expand(std::uint32_t) override { return ExpressionStore::nothing; }

 private:
  RuleGrammar(ExpressionStore& store, const RuleText& rules);
  Result<> build();
  std::vector<bool> spread(bool (*leaf)(const RuleText&, const RuleNode&)) const;
  int body(std::size_t rule) const { return text_.rules[rule].body; }
  std::vector<int> nodes_of(std::size_t rule) const;
  std::vector<std::size_t> callees_first() const;
  void write_rule(std::size_t rule);
  void write_node(int index);
  Expression whole(int node) const;  // with the empty text, if it may be
  Result<> remove_left_recursion();
  std::vector<std::vector<Rule>> left_recursive_sets();
  void turn_right(const std::vector<Rule>& rules);
  Expression without_empty(Expression expression);

  ExpressionStore& store_;
  const RuleText& text_;
  Spelling spelling_;
  Expression root_ = ExpressionStore::nothing;
  std::vector<bool> productive_, nullable_;  // by node: whether it has a text, and the empty one
  std::vector<Expression> not_empty_;        // by node: its texts but the empty one
  std::vector<Expression> sets_;             // by set of characters
  std::vector<Expression> bodies_;           // by rule, and by rules made here
  std::vector<Expression> uses_;             // by rule: what stands where it is called; its texts but the empty one
  std::vector<std::size_t> weights_;         // by rule: nodes, with those of rules that it took in
};

}  // namespace espalier::grammar
