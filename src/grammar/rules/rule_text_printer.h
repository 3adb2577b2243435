// rule_text_printer.h: a RuleText as EBNF or as Lark, for tests: what is printed reads back as the same tree.
//
// Every group is bracketed and every character escaped, so equal trees print alike and only they do. Rules are named
// r0, r1, ... in order of their first use from the start, which is how a parser that reads the text would number them.
// Threads: pure function. Fails: never; requires the tree of a parser, less high than the stack is deep. A set without
// characters has no EBNF.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "grammar/rules/rule_cursor.h"
#include "grammar/rules/rule_text.h"
#include "text/utf8.h"

namespace espalier::testing {

// Writes a RuleText in one of the dialects.
class RuleTextPrinter {
 public:
  RuleTextPrinter(const grammar::RuleText& rules, grammar::RuleDialect dialect)
      : rules_(rules), lark_(dialect == grammar::RuleDialect::lark), numbers_(rules.rules.size(), -1) {}

  std::string print() {
    number(rules_.start);
    for (std::size_t i = 0; i < order_.size(); ++i) {
      out_ += name(order_[i]) + (lark_ ? ": " : " ::= ");
      add(rules_.rules[static_cast<std::size_t>(order_[i])].body);
      out_ += "\n";
    }
    return out_;
  }

 private:
  int number(int rule) {
    int& known = numbers_[static_cast<std::size_t>(rule)];
    if (known < 0) {
      known = static_cast<int>(order_.size());
      order_.push_back(rule);
    }
    return known;
  }

  std::string name(int rule) {
    const int known = number(rule);
    return known == 0 ? (lark_ ? "start" : "root") : fmt::format("r{}", known);
  }

  void add(int index) {
    const grammar::RuleNode& node = rules_.nodes[static_cast<std::size_t>(index)];
    switch (node.kind) {
      case grammar::RuleNode::Kind::literal:
        return add_literal(node.bytes);
      case grammar::RuleNode::Kind::chars:
        return add_set(rules_.sets[static_cast<std::size_t>(node.index)]);
      case grammar::RuleNode::Kind::rule:
        out_ += name(node.index);
        return;
      case grammar::RuleNode::Kind::concat:
        return add_group(node.children, " ");
      case grammar::RuleNode::Kind::either:
        return add_group(node.children, " | ");
      case grammar::RuleNode::Kind::repeat:
        add_group(node.children, "");
        out_ += fmt::format("{{{},{}}}", node.low, node.high < 0 ? "" : std::to_string(node.high));
    }
  }

  void add_group(const std::vector<int>& children, std::string_view between) {
    out_ += "(";
    for (std::size_t i = 0; i < children.size(); ++i) {
      if (i > 0) out_ += between;
      add(children[i]);
    }
    out_ += ")";
  }

  void add_literal(std::string_view bytes) {
    out_ += "\"";
    while (!bytes.empty()) {
      const Utf8Step step = utf8_step(bytes);
      out_ += fmt::format("\\U{:08x}", static_cast<std::uint32_t>(step.character));
      bytes.remove_prefix(step.length);
    }
    out_ += "\"";
  }

  void add_set(const grammar::CodePointSet& set) {
    out_ += lark_ ? "/[" : "[";
    for (const grammar::CodePointRange& range : set.ranges())
      out_ += fmt::format("\\U{:08x}-\\U{:08x}", range.low, range.high);
    out_ += lark_ ? "]/" : "]";
  }

  const grammar::RuleText& rules_;
  const bool lark_;
  std::vector<int> numbers_, order_;  // rule to number and back
  std::string out_;
};

inline std::string printed(const grammar::RuleText& rules, grammar::RuleDialect dialect = grammar::RuleDialect::ebnf) {
  return RuleTextPrinter(rules, dialect).print();
}

}  // namespace espalier::testing
