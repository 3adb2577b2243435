// ebnf.cpp: parse_ebnf() of rule_text.h: the union of llama.cpp's GBNF and xgrammar's EBNF.
//
//   name ::= alternative | ...   a rule goes on, over lines, until the next `name ::=` at the beginning of a line
//   "..." '...'                  literals, with the escapes \n \r \t \f \v \b \a \e \0 \\ \" \' \/ \[ \] \- \? \xHH
//                                \uHHHH and \UHHHHHHHH
//   [a-z] [^...] .               one character; in classes also \d \w \s \D \W \S, of ASCII, and \ before punctuation
//   * + ? {m} {m,} {m,n} {,n}    quantifiers, also upon one another
//   ( ... )  # comment
//
// Where the two differ, the more permissive reading is taken if it cannot change what the other one accepts: rules over
// lines, {m,-1} and [^] (any character) are xgrammar's; empty alternatives, `.`, line ends in literals are llama.cpp's.
// A dot belongs to a name, as in xgrammar, where some rule has the whole as its name. [] is refused. What is tied to a
// vocabulary or to look-ahead is unsupported.
// Source: llama.cpp's grammars/README.md and the behaviour of its parser, the behaviour of xgrammar's.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/json/json.h"  // in_quotes
#include "grammar/rules/rule_builder.h"

namespace espalier::grammar {
namespace {

constexpr std::array<std::string_view, 5> kXgrammarMacros = {"TagDispatch", "Token", "ExcludeToken", "TokenTagDispatch",
                                                             "Regex"};

// The characters of \d, \w or \s, or, for a capital letter, all others.
CodePointSet shorthand_class(char letter) {
  CodePointSet set;
  switch (letter) {
    case 'd':
    case 'D':
      set.add('0', '9');
      break;
    case 'w':
    case 'W':
      set.add('0', '9');
      set.add('A', 'Z');
      set.add('_');
      set.add('a', 'z');
      break;
    default:
      set.add('\t', '\r');
      set.add(' ');
  }
  return letter < 'a' ? set.complement() : set;
}

// Sorted first, so that each range is added at the end of the set: a class of many characters takes no square of time.
CodePointSet class_of_ranges(std::vector<CodePointRange> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.low < b.low; });
  CodePointSet set;
  for (const CodePointRange& range : ranges) set.add(range.low, range.high);
  return set;
}

class EbnfParser {
 public:
  EbnfParser(std::string_view text, const RuleTextLimits& limits)
      : cursor_(text, RuleDialect::ebnf), builder_(cursor_, limits), body_(builder_, cursor_) {}
  EbnfParser(const EbnfParser&) = delete;  // its parts refer to each other
  EbnfParser& operator=(const EbnfParser&) = delete;

  Result<RuleText> parse();

 private:
  static constexpr int kNone = -1;

  void find_dotted_names();
  std::string_view take_name();
  Result<> element();
  Result<> rule_or_reference(std::string_view name, std::size_t where);
  Result<> begin_rule(std::string_view name, std::size_t where);
  Result<> end_rule();
  Result<> operand();
  Result<> quantifier();
  Result<int> character_class();
  Result<> class_item(std::vector<CodePointRange>& ranges);
  Result<char32_t> class_character();
  bool at_shorthand() const;

  RuleCursor cursor_;
  RuleBuilder builder_;
  RuleBody body_;
  std::set<std::string_view> dotted_names_;
  int rule_ = kNone;  // whose body is being read
};

Result<RuleText> EbnfParser::parse() {
  ESP_CHECK(cursor_.check_text(builder_.limits()));
  find_dotted_names();
  for (;;) {
    cursor_.skip_blanks(true);
    if (cursor_.at_end()) break;
    const std::size_t where = cursor_.offset();
    ESP_CHECK(element());
    ESP_CHECK(builder_.within_limits(where));
  }
  ESP_CHECK(end_rule());
  return builder_.finish("root");
}

// Those that a line begins to define. Where none has a dot, a dot is any character, as ever.
void EbnfParser::find_dotted_names() {
  RuleCursor line = cursor_;
  while (!line.at_end()) {
    while (line.take(" ") || line.take("\t")) continue;
    const std::string_view name = line.dotted_name();
    line.skip(name.size());
    while (line.take(" ") || line.take("\t")) continue;
    if (name.find('.') != std::string_view::npos && line.take("::=")) dotted_names_.insert(name);
    while (!line.at_end() && !line.take("\n") && !line.take("\r")) line.skip(1);
  }
}

std::string_view EbnfParser::take_name() {
  if (!dotted_names_.empty()) {
    const std::string_view dotted = cursor_.dotted_name();
    if (dotted_names_.contains(dotted)) {
      cursor_.skip(dotted.size());
      return dotted;
    }
  }
  return cursor_.take_name();
}

Result<> EbnfParser::element() {
  const std::size_t where = cursor_.offset();
  if (const std::string_view name = take_name(); !name.empty()) return rule_or_reference(name, where);
  if (rule_ == kNone) return cursor_.invalid(where, "a rule is expected here: a name, then ::=");
  switch (cursor_.peek()) {
    case '(':
      if (cursor_.peek(1) == '=') return cursor_.unsupported(where, "look-ahead, (= ...), is not supported");
      cursor_.take("(");
      return body_.open('(', where);
    case ')':
      cursor_.take(")");
      return body_.close(')', where);
    case '|':
      cursor_.take("|");
      body_.next_alternative();
      return success();
    case '*':
    case '+':
    case '?':
    case '{':
      return quantifier();
    default:
      return operand();
  }
}

Result<> EbnfParser::rule_or_reference(std::string_view name, std::size_t where) {
  const bool called = cursor_.peek() == '(';
  cursor_.skip_blanks(true);
  if (cursor_.take("::=")) return begin_rule(name, where);
  if (rule_ == kNone)
    return cursor_.invalid(cursor_.offset(), fmt::format("::= is expected after {}", in_quotes(name)));
  if (called && std::find(kXgrammarMacros.begin(), kXgrammarMacros.end(), name) != kXgrammarMacros.end())
    return cursor_.unsupported(where, fmt::format("xgrammar's {}(...) is not supported", name));
  body_.add(builder_.reference(name, where));
  return success();
}

Result<> EbnfParser::begin_rule(std::string_view name, std::size_t where) {
  ESP_CHECK(end_rule());
  if (!cursor_.begins_line(where))
    return cursor_.invalid(where, fmt::format("the rule {} must begin on a line of its own", in_quotes(name)));
  ESP_TRY(rule_, builder_.define(name, where));
  return success();
}

Result<> EbnfParser::end_rule() {
  if (rule_ == kNone) return success();
  ESP_TRY(const int body, body_.finish());
  builder_.set_body(rule_, body);
  return success();
}

Result<> EbnfParser::operand() {
  const std::size_t where = cursor_.offset();
  switch (cursor_.peek()) {
    case '"':
    case '\'': {
      ESP_TRY(std::string text, cursor_.take_literal());
      body_.add(builder_.literal(std::move(text)));
      return success();
    }
    case '[': {
      ESP_TRY(const int node, character_class());
      body_.add(node);
      return success();
    }
    case '.':
      cursor_.take(".");
      body_.add(builder_.chars(CodePointSet::all()));
      return success();
    case '<':
    case '!':
      return cursor_.unsupported(where, "references to tokens, <...> and !<...>, are not supported");
    default:
      return cursor_.unexpected();
  }
}

Result<> EbnfParser::quantifier() {
  const std::size_t where = cursor_.offset();
  RepeatCounts counts{0, RuleNode::kUnbounded};
  if (cursor_.peek() == '{') {
    ESP_TRY(counts, cursor_.take_counts());
  } else if (cursor_.take("+")) {
    counts.low = 1;
  } else if (cursor_.take("?")) {
    counts.high = 1;
  } else {
    cursor_.take("*");
  }
  return body_.repeat(counts, where);
}

Result<int> EbnfParser::character_class() {
  const std::size_t where = cursor_.offset();
  cursor_.take("[");
  const bool negated = cursor_.take("^");
  std::vector<CodePointRange> ranges;
  while (!cursor_.take("]")) {
    if (cursor_.at_end()) return cursor_.invalid(where, "this character class is not closed with ]");
    ESP_CHECK(class_item(ranges));
  }
  if (ranges.empty() && !negated)
    return cursor_.invalid(where, "this character class is empty; any character at all is .");
  const CodePointSet set = class_of_ranges(std::move(ranges));
  return builder_.chars(negated ? set.complement() : set);
}

bool EbnfParser::at_shorthand() const {
  return cursor_.peek() == '\\' && cursor_.peek(1) != '\0' &&
         std::string_view("dDwWsS").find(cursor_.peek(1)) != std::string_view::npos;
}

Result<> EbnfParser::class_item(std::vector<CodePointRange>& ranges) {
  const std::size_t where = cursor_.offset();
  const bool shorthand = at_shorthand();
  CodePointRange range;
  if (shorthand) {
    const CodePointSet set = shorthand_class(cursor_.peek(1));
    cursor_.skip(2);
    ranges.insert(ranges.end(), set.ranges().begin(), set.ranges().end());
  } else {
    ESP_TRY(range.low, class_character());
    range.high = range.low;
  }
  // A '-' before the ] is itself.
  if (cursor_.peek() == '-' && cursor_.peek(1) != ']') {
    cursor_.take("-");
    if (shorthand || at_shorthand()) return cursor_.invalid(where, "a range needs a character at both ends");
    ESP_TRY(range.high, class_character());
    if (range.high < range.low) return cursor_.invalid(where, "this range goes downwards");
  }
  if (!shorthand) ranges.push_back(range);
  return success();
}

Result<char32_t> EbnfParser::class_character() {
  if (cursor_.peek() == '\\') return cursor_.take_escape(true);
  if (cursor_.at_end()) return cursor_.unexpected();
  return cursor_.take_character();
}

}  // namespace

Result<RuleText> parse_ebnf(std::string_view text, const RuleTextLimits& limits) {
  return EbnfParser(text, limits).parse();
}

}  // namespace espalier::grammar
