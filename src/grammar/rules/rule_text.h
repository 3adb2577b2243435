// rule_text.h: context-free grammars as people write them, parsed into rules over characters.
//
// Two families of dialects: EBNF (xgrammar's and llama.cpp's GBNF: `name ::= ...`, start rule `root`) and Lark
// (`name: ...`, terminals in capitals, start rule `start`). Both become the same RuleText.
// Units:   positions in errors are line and column, from 1, columns in bytes.
// Threads: values; the parsers are pure functions.
// Fails:   bad_request ("grammar line 3, column 7: ...") for malformed text, unknown or doubly defined rules and a
//          missing start rule; unsupported for constructs that cannot be honoured exactly, naming them. Depth and size
//          are limited; nothing recurses in proportion to the input.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"
#include "grammar/characters/code_points.h"

namespace espalier::grammar {

// One node of a rule's body; children are indices.
struct RuleNode {
  enum class Kind {
    literal,  // these bytes; empty = the empty text
    chars,    // one character of sets[index]
    rule,     // rules[index]
    concat,   // children in order; at least two
    either,   // any child; at least two
    repeat,   // child `low` to `high` times
  };
  static constexpr int kUnbounded = -1;

  Kind kind = Kind::literal;
  std::string bytes;
  int index = -1;
  int low = 0, high = 0;
  std::vector<int> children;  // indices of nodes, smaller than this node's own
};

// Parsed rules: names, bodies, sets of characters and the start rule.
struct RuleText {
  struct Rule {
    std::string name;
    int body = -1;  // a node
  };
  std::vector<RuleNode> nodes;
  std::vector<CodePointSet> sets;
  std::vector<Rule> rules;
  int start = 0;  // a rule
};

// How large a grammar's text and tree may be.
struct RuleTextLimits {
  std::size_t bytes = 4 << 20;
  int depth = 200;
  std::size_t nodes = 500'000;
  std::size_t rules = 50'000;
};

Result<RuleText> parse_ebnf(std::string_view text, const RuleTextLimits& limits = {});
Result<RuleText> parse_lark(std::string_view text, const RuleTextLimits& limits = {});

}  // namespace espalier::grammar
