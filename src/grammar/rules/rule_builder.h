// rule_builder.h: a RuleText in the making: nodes, names, and the brackets that are open. Internal to grammar.
//
// Limits are remembered, not returned by every call: past one, no more is stored, and within_limits() and finish()
// say so. The parsers ask after each word of the text, so that what a word adds is all that is ever wasted.
// Units:   `where` is an offset of the cursor's text, for messages.
// Threads: one thread. Fails: the Errors of rule_text.h.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/rules/rule_cursor.h"
#include "grammar/rules/rule_text.h"

namespace espalier::grammar {

// Collects nodes, rules and references while a parser reads, and checks them at the end.
class RuleBuilder {
 public:
  // `cursor` is kept by reference, to place messages.
  RuleBuilder(const RuleCursor& cursor, const RuleTextLimits& limits) : cursor_(cursor), limits_(limits) {}

  // Nodes. Each returns its index; 0 and no node past a limit.
  int literal(std::string bytes);
  int chars(CodePointSet set);
  int concat(const std::vector<int>& children);  // none: the empty text; one: that one
  int either(const std::vector<int>& children);  // at least one; one: that one
  int repeat(int child, RepeatCounts counts);    // {1} is the child, {0} the empty text
  int reference(std::string_view name, std::size_t where);

  // The rule `name`, which must not be defined yet; its body comes with set_body().
  Result<int> define(std::string_view name, std::size_t where);
  void set_body(int rule, int node) { text_.rules[static_cast<std::size_t>(rule)].body = node; }

  Result<> within_limits(std::size_t where) const;
  const RuleTextLimits& limits() const { return limits_; }
  // Every name must be defined by now, `start` above all. Leaves the builder empty.
  Result<RuleText> finish(std::string_view start);

 private:
  static constexpr std::size_t kUndefined = static_cast<std::size_t>(-1);
  struct Name {
    std::size_t mentioned = 0, defined = kUndefined;  // offsets
  };

  int add(RuleNode node);
  int rule_named(std::string_view name, std::size_t where);

  const RuleCursor& cursor_;
  RuleTextLimits limits_;
  RuleText text_;
  std::vector<int> heights_;                       // of the nodes: leaves have 1
  std::vector<Name> names_;                        // of the rules
  std::map<std::string, int, std::less<>> rules_;  // ordered: no choice of names makes it slow
  std::size_t ranges_ = 0;                         // in all sets
  std::string over_limit_;                         // a sentence, once one is passed
};

// The body of one rule as it is read from left to right. Open brackets are a stack here, not calls of functions.
class RuleBody {
 public:
  RuleBody(RuleBuilder& builder, const RuleCursor& cursor) : builder_(builder), cursor_(cursor), groups_(1) {}

  void add(int node) { groups_.back().sequence.push_back(node); }
  void next_alternative();
  Result<> repeat(RepeatCounts counts, std::size_t where);  // what was added last
  Result<> open(char bracket, std::size_t where);           // ( or [
  Result<> close(char bracket, std::size_t where);          // ) or ]; [...] may be left out
  bool in_group() const { return groups_.size() > 1; }
  Error unclosed() const;  // requires in_group()

  // The whole body; begins anew.
  Result<int> finish();

 private:
  struct Group {
    char bracket = '\0';
    std::size_t where = 0;
    std::vector<int> sequence, alternatives;
  };

  RuleBuilder& builder_;
  const RuleCursor& cursor_;
  std::vector<Group> groups_;  // the first is the body itself
};

}  // namespace espalier::grammar
